"""Walks the kubelet's part of a tree and says what each cgroup is.

The walk goes from kubepods down to crun's inner cgroup; cgroups that a container makes
for itself are not visited.
"""

from __future__ import annotations

from errno import ENODEV, ENOENT, ENOTDIR
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.identify import CgroupIdentity, identify
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.cgroup.types.tree import Tree

# kubepods is at 0; below it are the QoS class, the pod, the container and crun's inner
# cgroup.
_DEPTH = 4


class FoundCgroup(NamedTuple):
    """A cgroup, how deep below kubepods it is, and what it is."""

    cgroup: str
    depth: int
    identity: CgroupIdentity


def walk(tree: Tree, kubepods: str) -> Iterator[FoundCgroup]:
    """Yield kubepods and the cgroups below it, parents first, siblings by name.

    A cgroup that goes away meanwhile is left out.

    Raises:
        CgroupError: kubepods itself cannot be read.
    """
    yield from _walk(tree, kubepods, 0, tree.children(kubepods))


def find(tree: Tree, kubepods: str, wanted: str) -> list[FoundCgroup]:
    """Return the pods with this UID, or else the containers with this ID.

    The beginning of a UID or ID will do; it may match several.
    """
    if not wanted or "/" in wanted:
        return []
    everything = [one for one in walk(tree, kubepods) if not one.identity.inner]
    for level in ("pod", "container"):
        named = {
            one: one.identity.pod_uid if level == "pod" else one.identity.container_id
            for one in everything
            if one.identity.level == level and not one.identity.conmon
        }
        exact = [one for one, name in named.items() if name == wanted]
        begun = [one for one, name in named.items() if (name or "").startswith(wanted)]
        if exact or begun:
            return exact or begun
    return []


def _walk(
    tree: Tree, cgroup: str, depth: int, children: list[str]
) -> Iterator[FoundCgroup]:
    identity = identify(cgroup)
    if identity is None:
        return
    yield FoundCgroup(cgroup, depth, identity)
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
