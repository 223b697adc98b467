"""Finds the node's kubelet among the processes, and no pod's process that plays it.

Whoever may start a pod may start a program called kubelet in it, with any flags, and
with hostPID it is seen next to the real one. If we went by its flags, a pod would
decide where we look for cgroups. So a process counts as the kubelet only if it runs as
root, its executable is a kubelet, and its cgroup is outside of those for pods. The last
is what a pod cannot change, be it root.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import identify, parse_process_cgroups
from nriplugin.kube.kubelet_config import is_kubelet, parse_cmdline

if TYPE_CHECKING:
    from collections.abc import Sequence

# None of these files is larger; what is, is not one.
_MAX_BYTES = 1 << 20
# What the kernel adds to the link of an executable that was replaced since.
_DELETED = " (deleted)"


@dataclass(frozen=True, slots=True)
class KubeletProcess:
    """The kubelet's command line; without one, `problem` says why."""

    source: str
    arguments: Sequence[str] = ()
    problem: str = ""


def find_kubelet(proc: str) -> KubeletProcess:
    """Look through a /proc; of several kubelets, the one with the lowest PID counts."""
    try:
        pids = [name for name in os.listdir(proc) if name.isdecimal()]
    except OSError as exc:
        return KubeletProcess(proc, problem=f"{proc}: {exc.strerror}")
    seen = 0
    doubts = []
    for pid in sorted(pids, key=int):
        source = f"{proc}/{pid}/cmdline"
        try:
            arguments = parse_cmdline(read_file(source))
        except OSError:  # it ended, or is not ours to see
            continue
        seen += 1
        if not is_kubelet(arguments):
            continue
        doubt = _doubt(f"{proc}/{pid}", arguments)
        if not doubt:
            return KubeletProcess(source, arguments)
        doubts.append(f"; {pid} is not taken for one: {doubt}")
    problem = f"no kubelet among the {seen} processes in {proc}; a pod needs hostPID"
    # The first is enough: there may be as many as the node has room for.
    return KubeletProcess(proc, problem=problem + "".join(doubts[:1]))


def _doubt(directory: str, arguments: Sequence[str]) -> str:
    """Return why a process that is called like the kubelet is not it; or nothing."""
    try:
        uids = _uids(read_file(f"{directory}/status"))
        program = os.readlink(f"{directory}/exe").removesuffix(_DELETED)
        cgroups = parse_process_cgroups(read_file(f"{directory}/cgroup"))
    except OSError as exc:
        return f"{exc.filename}: {exc.strerror}"
    if uids[:2] != ["0", "0"]:
        return "it does not run as root"
    if not is_kubelet([program, *arguments[1:]]):
        return "its executable is another program"
    paths = [*cgroups.controllers.values(), cgroups.unified]
    found = [path for path in paths if path is not None]
    # A path with `..` is outside of our cgroup namespace, and may be anybody's.
    if not found or any(path.startswith("/..") for path in found):
        return "its cgroup is not to be seen from here"
    if any(identify(path) is not None for path in found):
        return "it runs in a pod"
    return ""


def _uids(status: str) -> list[str]:
    """Return the real, effective, saved and file system user of a process."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "Uid":
            return value.split()
    return []


def read_file(path: str) -> str:
    """Return what a file of the kubelet's or of /proc holds; raises OSError."""
    with open(path, "rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", "replace")
