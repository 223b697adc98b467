"""Reads the cgroups of containers: memory use, file contents and the runtime's weights.

Functions here only read. A cgroup may vanish at any moment, because its container ends,
so a file that cannot be read is never an error: the result then says "not known".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.paths import CRUN_INNER
from nriplugin.cgroup.types.registry import Type
from nriplugin.engine.model import Use
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.curve import Observation


# Files that have an effect on the container's siblings only in its own cgroup.
_AMONG_SIBLINGS = frozenset({"cpu.weight", "cpu.idle"})


def memory_use(tree: Tree, cgroup: str) -> Use:
    """Return the memory that a container uses; an empty `Use` if it cannot be read."""
    try:
        return Use(int(tree.get(Type.MEMORY_USAGE, cgroup)))
    except CgroupError:
        return Use()


def held(tree: Tree, cgroup: str, file: str) -> str | None:
    """Return the content of a cgroup's file, or None if it cannot be read."""
    try:
        return tree.files.read(tree.file_path(cgroup, file)).strip()
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
        content = held(tree, cgroup, file)
        if content == value:
            continue
        # Imported only here, to keep the OCI hook's start short: there nearly every
        # text is equal, and `kernel_text`, which compares the meaning of two texts,
        # imports every file format.
        from nriplugin.cgroup.writing.kernel_text import same

        if content is None or not same(file, value, content):
            missing[file] = value
    return missing


def differing(
    tree: Tree, cgroup: str, files: Mapping[str, str]
) -> dict[str, str] | None:
    """Return what those files hold that do not hold the given value.

    The text is empty for a file that cannot be read. None if the whole cgroup is gone.
    Under systemd, crun puts most files into an inner cgroup: it counts as well, except
    for files by which the container competes with its siblings.
    """
    wrong = files_not_holding(tree, cgroup, files)
    inner = f"{cgroup}/{CRUN_INNER}"
    if wrong and tree.exists(inner):
        within = {f: v for f, v in wrong.items() if f not in _AMONG_SIBLINGS}
        left = files_not_holding(tree, inner, within)
        wrong = {f: v for f, v in wrong.items() if f not in within or f in left}
    texts = {file: held(tree, cgroup, file) for file in wrong}
    if None in texts.values() and not tree.exists(cgroup):
        return None
    return {file: text or "" for file, text in texts.items()}


def container_cgroup(tree: Tree, pod: str, container_id: str) -> str | None:
    """Return the cgroup below a pod's cgroup whose name contains a container's ID.

    For doors whose messages have no cgroup path. Runtimes differ in the rest of the
    name. The cgroup of CRI-O's monitor process (conmon) contains the ID, too, and is
    not the container's.
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
    """Return a container's shares and weight, which show the runtime's curve.

    None if the container shows nothing about the curve: it has no shares, its cgroup is
    not a container's, or its weight cannot be read. A container with cpu.idle=1 shows
    nothing either, because the weight that the kernel then shows does not come
    from the shares.

    Args:
        tree: the node's cgroups.
        cgroup: the container's cgroup.
        shares: the shares that the container was created with.
        unified: the cgroup v2 values that the runtime keeps for the container. A
            cpu.weight among them was asked for, not computed from the shares.
        shows_unified: whether the runtime reports those values; if not, the container
            may have any of them.
    """
    # Imported only here: the OCI hook imports this module and never looks for a curve.
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
