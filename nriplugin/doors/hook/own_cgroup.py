"""Which cgroup is the container's own, and nobody else's.

Where its first process is counts for more than what its spec says: systemd, rootless
runtimes and relative paths put it elsewhere. But a process may also be in a cgroup that
it shares, when its runtime was told to make none: a session's, or the runtime's own. So
the cgroup it is in has to have the container's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import identify, parse_process_cgroups
from nriplugin.cgroup.locate.paths import CRUN_INNER, cgroup_of
from nriplugin.cgroup_names import SCOPE
from nriplugin.doors.hook.bundle import HookError

if TYPE_CHECKING:
    from nriplugin.cgroup.locate.identify import CgroupIdentity

# What runc and crun call the unit of a container whose spec names no cgroup.
_DEFAULT_PREFIXES = ("runc", "crun")


def own_cgroup(
    container_id: str, cgroups_path: str, process: str | None
) -> tuple[str, CgroupIdentity | None]:
    """Return the container's cgroup, and what it is if it is a pod's.

    Args:
        container_id: of the state.
        cgroups_path: `linux.cgroupsPath` of the spec, or nothing.
        process: the text of /proc/PID/cgroup; None where it cannot be had.

    Raises:
        HookError: there is none, or it is not the container's alone.
    """
    actual = None if process is None else parse_process_cgroups(process).unified
    if actual is None:
        cgroup = cgroup_of(cgroups_path)
        # Nobody can tell whether the runtime made it, but only pods' have such paths.
        if cgroup is not None and identify(cgroup) is None:
            cgroup = None
    else:
        cgroup = _named(actual, _names(container_id, cgroups_path))
    if cgroup is None:
        where = repr(cgroups_path) if actual is None else repr(actual)
        raise HookError(f"cgroup: {where:.200}, expected one of the container's own")
    place = identify(cgroup)
    if place is not None and (place.conmon or place.level != "container"):
        raise HookError(f"cgroup: {cgroup!r:.200}, expected a container's")
    return cgroup, place


def _names(container_id: str, cgroups_path: str) -> set[str]:
    """Return what the directory of the container's cgroup may be called."""
    if not cgroups_path:
        scopes = (f"{prefix}-{container_id}{SCOPE}" for prefix in _DEFAULT_PREFIXES)
        return {container_id, *scopes}
    names = {cgroups_path.rstrip("/").rpartition("/")[2]}
    parts = cgroups_path.split(":")
    if len(parts) == 3:  # SLICE:PREFIX:NAME, which without systemd is one directory
        names.add(f"{parts[1]}-{parts[2]}{SCOPE}")
    return names


def _named(actual: str, names: set[str]) -> str | None:
    """Return the cgroup that a process is in, if it has one of the names.

    crun may have the process in one more below it. What is further up is shared, also
    if it is called by such a name.
    """
    parts = actual.split("/")[1:]
    if not all(parts) or ".." in parts:
        return None
    if len(parts) > 1 and parts[-1] == CRUN_INNER and parts[-2] in names:
        parts.pop()
    return "/" + "/".join(parts) if parts[-1] in names else None
