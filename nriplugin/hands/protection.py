"""Protection by memory.min and memory.low, as far as it has an effect.

It counts only as far as every cgroup above the container has it, too.
"""

from __future__ import annotations

from mmap import PAGESIZE
from typing import TYPE_CHECKING

from nriplugin.cgroup.places import identify
from nriplugin.engine.ancestors import Ancestor, effective_bytes, shortfalls
from nriplugin.errors import CgroupError
from nriplugin.hands.eyes import held

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nriplugin.cgroup.tree import Tree

FILES = frozenset({"memory.min", "memory.low"})


def without_effect(
    tree: Tree, pod: str, container: str | None, files: Mapping[str, str]
) -> list[str]:
    """Return, in words, which of a container's files are not worth what they say.

    `container` is its cgroup, None as long as there is none.
    """
    found = []
    for file in FILES & files.keys():
        value = files[file]
        # The kernel keeps whole pages, here and above.
        own = int(value) // PAGESIZE * PAGESIZE if value.isdecimal() else 0
        chain = list(above(tree, pod, container, file, own)) if own else []
        gaps = shortfalls(chain)
        if gaps:
            top = gaps[-1]
            found.append(
                f"{file} {own}: counts for {effective_bytes(own, chain)} bytes: "
                f"{top.path} has {top.has_bytes}, expected {top.needs_bytes}"
            )
    return found


def above(
    tree: Tree, pod: str, container: str | None, file: str, own_bytes: int
) -> Iterator[Ancestor]:
    """Return a container's pod and all above it, with what those below them need."""
    child, parent, wanted = container, pod, own_bytes
    while identify(parent) is not None:
        has = held(tree, parent, file)
        if has is None:
            return
        wanted += sum_below(tree, parent, file, but=child)
        if has.isdecimal():
            yield Ancestor(parent, has, wanted)
            wanted = max(wanted, int(has))
        child, parent = parent, parent.rpartition("/")[0]


def sum_below(tree: Tree, cgroup: str, file: str, but: str | None) -> int:
    """Return what the other children of a cgroup have together."""
    total = 0
    try:
        names = tree.children(cgroup)
    except CgroupError:
        return 0
    for name in names:
        child = f"{cgroup}/{name}"
        has = None if child == but else held(tree, child, file)
        if has is not None and has.isdecimal():
            total += int(has)
    return total
