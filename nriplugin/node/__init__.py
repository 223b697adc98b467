"""Between the engine and the node: its facts going up, the engine's writes going down.

Every door uses it, so that a decision is made from the same facts and carried out in
the same way, whichever way the container came in.
"""

from __future__ import annotations
