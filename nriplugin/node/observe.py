"""Looks at the cgroups of containers: what they use, and what the runtime wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.types.registry import Type
from nriplugin.engine.model import Use
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.curve import Observation


def memory_use(tree: Tree, cgroup: str) -> Use:
    """Return what a container uses; nothing if that cannot be read."""
    try:
        return Use(int(tree.get(Type.MEMORY_USAGE, cgroup)))
    except CgroupError:
        return Use()


def held(tree: Tree, cgroup: str, file: str) -> str | None:
    """Return what a v2 file holds, or None if it cannot be read."""
    try:
        return tree.files.read(f"{cgroup}/{file}").strip()
    except CgroupError:
        return None


def files_not_holding(
    tree: Tree, cgroup: str, files: Mapping[str, str]
) -> dict[str, str]:
    """Return those of the given files and values that the cgroup does not hold.

    A value counts as held if the kernel shows it in another notation, such as
    `max 100000` for `max`. A file that cannot be read counts as not holding its value.
    """
    missing = {}
    for file, value in files.items():
        now = held(tree, cgroup, file)
        if now == value:
            continue
        # Late: in the OCI hook nearly every text is equal, and the module that compares
        # meanings imports every file format.
        from nriplugin.cgroup.writing.kernel_text import same

        if now is None or not same(file, value, now):
            missing[file] = value
    return missing


def container_cgroup(tree: Tree, pod: str, container_id: str) -> str | None:
    """Return the cgroup of a container, whatever its runtime calls it.

    For doors that are told no path. CRI-O's monitor has the ID in its name, too.
    """
    try:
        names = tree.children(pod) if container_id else []
    except CgroupError:
        return None
    for name in names:
        if container_id in name and "conmon" not in name:
            return f"{pod}/{name}"
    return None


def observe(
    tree: Tree,
    cgroup: str,
    shares: int | None,
    unified: Mapping[str, str],
    *,
    shows_unified: bool,
) -> Observation | None:
    """Return what a container tells about the runtime's curve, if anything.

    One that is idle has no weight of its own, whatever the kernel shows.

    Args:
        tree: where its cgroup is.
        cgroup: its cgroup.
        shares: what it was made with.
        unified: cgroup v2 values that it was made with: a weight is somebody's wish.
        shows_unified: whether the runtime tells of those; else it may have any.
    """
    # Late: the OCI hook imports this module and never looks for the curve.
    from nriplugin.engine.curve import Observation

    place = identify(cgroup)
    if not shares or place is None or place.container_id is None or place.conmon:
        return None
    weight = held(tree, cgroup, "cpu.weight")
    if weight is None or not weight.isdecimal():
        return None
    if held(tree, cgroup, "cpu.idle") == "1":
        return None
    made_by_us = None if not shows_unified else "cpu.weight" in unified
    return Observation(shares, int(weight), place.pod_uid or "", made_by_us)
