"""Protection by memory.min and memory.low, as far as it has an effect.

It counts only as far as every cgroup above the container has it, too.
"""

from __future__ import annotations

from mmap import PAGESIZE
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.identify import identify
from nriplugin.engine.ancestors import Ancestor, effective_bytes, shortfalls
from nriplugin.errors import CgroupError
from nriplugin.node.observe import held

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.ancestors import Shortfall
    from nriplugin.node.claims import Promise

FILES = frozenset({"memory.min", "memory.low"})


class Gap(NamedTuple):
    """A cgroup above a container that leaves its protection without effect."""

    file: str
    level: str  # kubepods, qos or pod
    raised: bool  # whether the configuration has such cgroups raised
    text: str

    @property
    def reason(self) -> tuple[str, str, bool]:
        """Return what is the same for all containers that the gap is told of once."""
        return self.file, self.level, self.raised


def without_effect(
    tree: Tree,
    pod: str,
    container: str | None,
    files: Mapping[str, str],
    *,
    raised: bool,
) -> list[Gap]:
    """Return what leaves a container's protection without effect, or part of it.

    Args:
        tree: where its cgroup is.
        pod: the cgroup of its pod.
        container: its own cgroup, None as long as there is none.
        files: what it is given.
        raised: whether the configuration has the cgroups above it raised.
    """
    found = []
    for file in FILES & files.keys():
        value = files[file]
        # The kernel keeps whole pages, here and above.
        own = int(value) // PAGESIZE * PAGESIZE if value.isdecimal() else 0
        chain = list(above(tree, pod, container, file, own)) if own else []
        gaps = shortfalls(chain)
        place = identify(gaps[-1].path) if gaps else None
        if place is not None:
            text = _in_words(file, gaps[-1], effective_bytes(own, chain), raised)
            found.append(Gap(file, place.level, raised, text))
    return found


def _in_words(file: str, top: Shortfall, effective: int, raised: bool) -> str:
    effect = "has only part of its effect" if effective else "has no effect"
    advice = "although memoryQoS.raiseAncestors is true"
    if not raised:
        advice = "set memoryQoS.raiseAncestors: true"
    return (
        f"{file} of containers {effect}: {top.path} has {file}={top.has_bytes}, "
        f"expected {top.needs_bytes}; {advice}"
    )


def above(
    tree: Tree,
    pod: str,
    container: str | None,
    file: str,
    own_bytes: int,
    promises: Sequence[Promise] = (),
) -> Iterator[Ancestor]:
    """Return a container's pod and all above it, with what those below them need.

    Promises are those to other containers of the pod.
    """
    child, parent, wanted = container, pod, own_bytes
    while identify(parent) is not None:
        has = held(tree, parent, file)
        if has is None:
            return
        wanted += sum_below(tree, parent, file, child, promises)
        if has.isdecimal():
            yield Ancestor(parent, has, wanted)
            wanted = max(wanted, int(has))
        # The pod's own value has its containers' parts in it, promised or not.
        child, parent, promises = parent, parent.rpartition("/")[0], ()


def sum_below(
    tree: Tree,
    cgroup: str,
    file: str,
    but: str | None,
    promises: Sequence[Promise] = (),
) -> int:
    """Return what the other children of a cgroup have together, or were promised."""
    try:
        names = tree.children(cgroup)
    except CgroupError:
        names = []
    own = (but or "").rpartition("/")[2]
    total = 0
    unseen = [promise for promise in promises if not promise.is_of(own)]
    for name in names:
        has = None if name == own else held(tree, f"{cgroup}/{name}", file)
        shown = int(has) if has is not None and has.isdecimal() else 0
        promised = [promise for promise in unseen if promise.is_of(name)]
        total += max([shown, *(promise.parts[file] for promise in promised)])
        unseen = [promise for promise in unseen if promise not in promised]
    return total + sum(promise.parts[file] for promise in unseen)
