"""Finds out whether memory.min and memory.low of a container have an effect.

The kernel honours a container's protection only up to the protection of every cgroup
above it. This module walks up from a container, sums what the children of each cgroup
need, and says in one sentence which cgroup has too little and what to do about it.
It reads cgroups and writes none.
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
    from nriplugin.node.claims import Claim

FILES = frozenset({"memory.min", "memory.low"})


class Gap(NamedTuple):
    """A cgroup above a container that leaves its protection without effect."""

    file: str
    level: str  # kubepods, qos or pod
    raised: bool  # whether memoryQoS.raiseAncestors is on for the container
    text: str

    @property
    def reason(self) -> tuple[str, str, bool]:
        """Return the key by which the warning about a gap is logged only once."""
        return self.file, self.level, self.raised


def without_effect(
    tree: Tree,
    pod: str,
    container: str | None,
    files: Mapping[str, str],
    *,
    raised: bool,
) -> list[Gap]:
    """Return the cgroups because of which a container's protection has less effect.

    Args:
        tree: the node's cgroups.
        pod: the cgroup of the container's pod.
        container: the container's cgroup; None while it does not exist.
        files: the container's files and values.
        raised: whether memoryQoS.raiseAncestors is on for the container.
    """
    found = []
    for file in FILES & files.keys():
        value = files[file]
        # The kernel rounds the file down to whole pages, in every cgroup.
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
    claims: Sequence[Claim] = (),
) -> Iterator[Ancestor]:
    """Return the cgroup of a container's pod and those above it, with their needs.

    `claims` are the claims of other containers of the pod.
    """
    child, parent, wanted = container, pod, own_bytes
    while identify(parent) is not None:
        has = held(tree, parent, file)
        if has is None:
            return
        wanted += sum_below(tree, parent, file, child, claims)
        if has.isdecimal():
            yield Ancestor(parent, has, wanted)
            wanted = max(wanted, int(has))
        # Above the pod, the pod's own value stands for its containers and their claims.
        child, parent, claims = parent, parent.rpartition("/")[0], ()


def sum_below(
    tree: Tree,
    cgroup: str,
    file: str,
    but: str | None,
    claims: Sequence[Claim] = (),
) -> int:
    """Return the sum of a file over a cgroup's other children, with their claims.

    A child that has both a value and a claim counts with the larger of the two: its
    cgroup may exist already without the runtime having written to it.
    """
    try:
        names = tree.children(cgroup)
    except CgroupError:
        names = []
    own = (but or "").rpartition("/")[2]
    total = 0
    unseen = [claim for claim in claims if not claim.is_for(own)]
    for name in names:
        has = None if name == own else held(tree, f"{cgroup}/{name}", file)
        shown = int(has) if has is not None and has.isdecimal() else 0
        claimed = [claim for claim in unseen if claim.is_for(name)]
        total += max([shown, *(claim.parts[file] for claim in claimed)])
        unseen = [claim for claim in unseen if claim not in claimed]
    return total + sum(claim.parts[file] for claim in unseen)
