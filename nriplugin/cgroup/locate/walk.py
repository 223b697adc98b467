"""The kubelet's part of a tree: which cgroups there are, and what each one is."""

from __future__ import annotations

from dataclasses import dataclass
from errno import ENODEV, ENOENT, ENOTDIR
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import CgroupIdentity, identify
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.cgroup.types.tree import Tree

# kubepods, QoS class, pod, container and crun's inner one; below that it is the
# container's own business.
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A cgroup, and how deep below kubepods it is."""

    cgroup: str
    depth: int
    place: CgroupIdentity


def walk(tree: Tree, kubepods: str) -> Iterator[Found]:
    """Yield kubepods and what is below, parents first, neighbours by name.

    A cgroup that goes away meanwhile is left out.

    Raises:
        CgroupError: kubepods itself cannot be read.
    """
    yield from _walk(tree, kubepods, 0, tree.children(kubepods))


def find(tree: Tree, kubepods: str, wanted: str) -> list[Found]:
    """Return the pods with this UID, or else the containers with this ID.

    The beginning of a UID or ID is enough if it is that of one only.
    """
    if not wanted or "/" in wanted:
        return []
    everything = [one for one in walk(tree, kubepods) if not one.place.inner]
    for level in ("pod", "container"):
        named = {
            one: one.place.pod_uid if level == "pod" else one.place.container_id
            for one in everything
            if one.place.level == level and not one.place.conmon
        }
        exact = [one for one, name in named.items() if name == wanted]
        begun = [one for one, name in named.items() if (name or "").startswith(wanted)]
        if exact or begun:
            return exact or begun
    return []


def _walk(tree: Tree, cgroup: str, depth: int, children: list[str]) -> Iterator[Found]:
    place = identify(cgroup)
    if place is None:
        return
    yield Found(cgroup, depth, place)
    if depth == _DEPTH:
        return
    for name in children:
        below = f"{cgroup}/{name}"
        try:
            grandchildren = tree.children(below)
        except CgroupError as exc:
            if exc.errno in (ENOENT, ENOTDIR, ENODEV):
                continue
            raise
        yield from _walk(tree, below, depth + 1, grandchildren)
