"""This machine: the facts that decisions need, and the direct writes of decisions.

Every door uses this package, so that decisions are made from the same facts and carried
out in the same way for a container that was seen over NRI, CRI or an OCI hook.
"""

from __future__ import annotations
