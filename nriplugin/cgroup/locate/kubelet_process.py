"""Finds the node's kubelet among the processes, and returns its command line.

A pod may run a program called kubelet with any flags. If nriplugin believed those
flags, the pod would decide where nriplugin looks for cgroups. So a process counts as
the kubelet only if it runs as root, its executable is a kubelet, and its cgroup is
outside of those for pods. A pod cannot change the last, not even one that runs as root.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.identify import identify, parse_process_cgroups

if TYPE_CHECKING:
    from collections.abc import Sequence

# No file that is read here is larger; the bound is for a file that pretends to be one.
_MAX_BYTES = 1 << 20
# The kernel adds this to the link of an executable that was replaced, as by an upgrade.
_DELETED = " (deleted)"


class KubeletProcess(NamedTuple):
    """The kubelet's command line; if no kubelet was found, `problem` says why."""

    source: str
    arguments: Sequence[str] = ()
    problem: str = ""


def find_kubelet(proc: str) -> KubeletProcess:
    """Look through /proc; of several kubelets, the one with the lowest PID counts."""
    try:
        pids = [name for name in os.listdir(proc) if name.isdecimal()]
    except OSError as exc:
        return KubeletProcess(proc, problem=f"{proc}: {exc.strerror}")
    seen = 0
    doubts = []
    for pid in sorted(pids, key=int):
        source = f"{proc}/{pid}/cmdline"
        try:
            arguments = read_file(source).rstrip("\0").split("\0")
        except OSError:  # the process ended, or its files may not be read
            continue
        seen += 1
        if not is_kubelet(arguments):
            continue
        doubt = _doubt(f"{proc}/{pid}", arguments)
        if not doubt:
            return KubeletProcess(source, arguments)
        doubts.append(f"; {pid} is not taken for one: {doubt}")
    problem = f"no kubelet among the {seen} processes in {proc}; a pod needs hostPID"
    # One reason is enough: a pod may start any number of such processes.
    return KubeletProcess(proc, problem=problem + "".join(doubts[:1]))


def _doubt(directory: str, arguments: Sequence[str]) -> str:
    """Return why a process that is called kubelet is not the node's; empty if it is."""
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
    # A path with `..` is outside of this process's cgroup namespace. It may be that of
    # a pod, and there is no telling.
    if not found or any(path.startswith("/..") for path in found):
        return "its cgroup is not to be seen from here"
    if any(identify(path) is not None for path in found):
        return "it runs in a pod"
    return ""


def is_kubelet(arguments: Sequence[str]) -> bool:
    """Whether a command line is the kubelet's own, or that of an all-in-one program."""
    names = [argument.rpartition("/")[2] for argument in arguments[:2]]
    return names[:1] == ["kubelet"] or names == ["hyperkube", "kubelet"]


def _uids(status: str) -> list[str]:
    """Return the real, effective, saved and file system user of a process."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == "Uid":
            return value.split()
    return []


def read_file(path: str) -> str:
    """Return the text of a file of the kubelet or of /proc; raises OSError."""
    with open(path, "rb") as file:
        return file.read(_MAX_BYTES).decode("utf-8", "replace")
