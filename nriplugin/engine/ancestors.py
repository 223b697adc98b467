"""Which cgroups above a container leave its memory.min or memory.low without effect.

The kernel gives protection from the top down: a child gets at most what its parent has,
and children that ask for more than that share it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Ancestor(NamedTuple):
    """A cgroup above a container: what its file holds, and what its children have."""

    path: str
    protected: str  # bytes or max
    children_bytes: int  # of all of its children, the way to the container included


class Shortfall(NamedTuple):
    """An ancestor that has less than its children."""

    path: str
    has_bytes: int
    needs_bytes: int


def shortfalls(chain: Sequence[Ancestor]) -> list[Shortfall]:
    """Return the ancestors that have too little, in the order given."""
    return [
        Shortfall(one.path, int(one.protected), one.children_bytes)
        for one in chain
        if one.protected != "max" and int(one.protected) < one.children_bytes
    ]


def effective_bytes(own_bytes: int, chain: Sequence[Ancestor]) -> int:
    """Return how much of a container's protection counts, from what is above it.

    The least that it can be: each parent's, shared in proportion among its children.
    """
    effective = own_bytes
    for one in chain:
        if one.protected != "max" and int(one.protected) < one.children_bytes:
            effective = effective * int(one.protected) // one.children_bytes
    return effective
