"""Which cgroups above a container leave its memory.min or memory.low without effect.

The kernel hands protection down from the root: the children of a cgroup together get at
most what the cgroup itself has, and share it if they ask for more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Ancestor(NamedTuple):
    """A cgroup above a container: its own protection, and that of its children."""

    path: str
    protected: str  # bytes or max
    children_bytes: int  # the sum over all of its child cgroups


class Shortfall(NamedTuple):
    """An ancestor with less protection than its children together."""

    path: str
    has_bytes: int
    needs_bytes: int


def shortfalls(chain: Sequence[Ancestor]) -> list[Shortfall]:
    """Return the ancestors with too little protection, in the order given."""
    return [
        Shortfall(one.path, int(one.protected), one.children_bytes)
        for one in chain
        if one.protected != "max" and int(one.protected) < one.children_bytes
    ]


def effective_bytes(own_bytes: int, chain: Sequence[Ancestor]) -> int:
    """Return how much of a container's protection has an effect below its ancestors.

    It is the least that it can be: each ancestor's, shared in proportion among its
    children.
    """
    effective = own_bytes
    for one in chain:
        if one.protected != "max" and int(one.protected) < one.children_bytes:
            effective = effective * int(one.protected) // one.children_bytes
    return effective
