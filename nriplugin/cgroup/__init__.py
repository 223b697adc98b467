"""The node's cgroups: where they are, what they hold, and how they are changed.

The only package that touches the kernel's files.
"""

from __future__ import annotations
