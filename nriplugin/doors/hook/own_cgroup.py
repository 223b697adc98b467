"""Finds the cgroup that belongs to this container alone.

The cgroup of the container's first process counts for more than the path in its spec:
systemd, rootless runtimes and relative paths all put the process elsewhere. But a
runtime that was told to make no cgroup leaves the process in a shared one, such as a
login session's or the runtime's own. The hook must never write to that. So the
directory of the cgroup has to bear the container's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import identify, parse_process_cgroups
from nriplugin.cgroup.locate.paths import CRUN_INNER, cgroup_of
from nriplugin.cgroup_names import SCOPE
from nriplugin.doors.hook.bundle import HookError

if TYPE_CHECKING:
    from nriplugin.cgroup.locate.identify import CgroupIdentity

# The prefixes of the systemd unit that runc and crun make if the spec names no cgroup.
_DEFAULT_PREFIXES = ("runc", "crun")


def own_cgroup(
    container_id: str,
    cgroups_path: str,
    process_cgroups: str | None,
    *,
    version: int = 2,
) -> tuple[str, CgroupIdentity | None]:
    """Return the container's cgroup, and its identity if it is below kubepods.

    Args:
        container_id: the ID in the state.
        cgroups_path: `linux.cgroupsPath` of the spec; empty if the spec has none.
        process_cgroups: the text of /proc/PID/cgroup; None if it cannot be read.
        version: of the node's cgroups. On v1 a process may be elsewhere in every
            hierarchy, and a runtime puts it into the same cgroup of all: that of cpu
            counts.

    Raises:
        HookError: the container has no cgroup, or shares it.
    """
    actual = None
    if process_cgroups is not None:
        found = parse_process_cgroups(process_cgroups)
        actual = found.unified if version == 2 else found.controllers.get("cpu")
    if actual is None:
        # Without the process there is no proof that the runtime made the cgroup of the
        # spec. A path below kubepods is believed, because only pods have such paths.
        cgroup = cgroup_of(cgroups_path)
        if cgroup is not None and identify(cgroup) is None:
            cgroup = None
    else:
        cgroup = _if_named(actual, _possible_names(container_id, cgroups_path))
    if cgroup is None:
        where = repr(cgroups_path) if actual is None else repr(actual)
        raise HookError(f"cgroup: {where:.200}, expected one of the container's own")
    kube_cgroup = identify(cgroup)
    if kube_cgroup is not None and (
        kube_cgroup.conmon or kube_cgroup.level != "container"
    ):
        raise HookError(f"cgroup: {cgroup!r:.200}, expected a container's")
    return cgroup, kube_cgroup


def _possible_names(container_id: str, cgroups_path: str) -> set[str]:
    """Return the names that the directory of the container's cgroup may have."""
    if not cgroups_path:
        scopes = (f"{prefix}-{container_id}{SCOPE}" for prefix in _DEFAULT_PREFIXES)
        return {container_id, *scopes}
    names = {cgroups_path.rstrip("/").rpartition("/")[2]}
    parts = cgroups_path.split(":")
    # SLICE:PREFIX:NAME is a systemd unit. A runtime that does not use systemd makes one
    # directory with exactly this text as its name, which is in `names` already.
    if len(parts) == 3:
        names.add(f"{parts[1]}-{parts[2]}{SCOPE}")
    return names


def _if_named(cgroup: str, names: set[str]) -> str | None:
    """Return a process's cgroup if it has one of the names, else None.

    crun may put the process into a cgroup `container` below the named one; then the
    named one is returned. No other ancestor counts, even if it has such a name: it is
    shared with other processes.
    """
    parts = cgroup.split("/")[1:]
    if not all(parts) or ".." in parts:
        return None
    if len(parts) > 1 and parts[-1] == CRUN_INNER and parts[-2] in names:
        parts.pop()
    return "/" + "/".join(parts) if parts[-1] in names else None
