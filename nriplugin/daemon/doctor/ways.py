"""The ways by which nriplugin is installed on a node; there should be only one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.daemon.doctor.processes import OWN_PROGRAM
from nriplugin.doors.hook.hooksd import HOOKS_DIR, was_installed

if TYPE_CHECKING:
    from nriplugin.daemon.doctor.host import ExaminedHost

# Where CRI-O and podman look for hooks: the administrator's and the packages'.
HOOKS_DIRECTORIES = (HOOKS_DIR, "/usr/share/containers/oci/hooks.d")
PLUGIN_DIRECTORY = "/opt/nri/plugins"


def hook_files(host: ExaminedHost) -> list[str]:
    """Return the files of hooks.d that run nriplugin."""
    return [
        f"{directory}/{name}"
        for directory in HOOKS_DIRECTORIES
        for name in host.files.names(directory)
        if name.endswith(".json")
        and was_installed(host.files.path(f"{directory}/{name}"))
    ]


def plugin_files(host: ExaminedHost) -> list[str]:
    """Return the executable files that the runtime starts as plugins."""
    directories = {one.plugin_path or PLUGIN_DIRECTORY for one in host.runtimes}
    found = []
    for directory in sorted(directories or {PLUGIN_DIRECTORY}):
        for name in host.files.names(directory):
            path = host.files.path(f"{directory}/{name}")
            if os.path.isfile(path) and os.stat(path).st_mode & 0o111:
                found.append(f"{directory}/{name}")
    return found


def launched_files(host: ExaminedHost) -> list[str]:
    """Return those of the plugins' files that are nriplugin."""
    return [
        path
        for path in plugin_files(host)
        if path.rpartition("/")[2].partition("-")[2] == OWN_PROGRAM
    ]


def other_way(host: ExaminedHost) -> str:
    """Return what works without NRI on this node; empty if nothing does."""
    if host.daemons.get("cri-proxy"):
        return f"the CRI proxy (process {host.daemons['cri-proxy'][0].pid})"
    status = host.answers.status
    if status is not None and status.door == "cri":
        return f"the CRI proxy (process {status.pid})"
    hooks = hook_files(host)
    return f"the OCI hook ({hooks[0]})" if hooks else ""
