"""How often nriplugin is there: by processes, the runtime's files, and instance locks.

A daemon in another PID namespace, such as a pod's, is not among the processes that this
process sees. If it uses the same state directory, it holds a lock there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from nriplugin.daemon.doctor.finding import ok, problem
from nriplugin.daemon.doctor.ways import launched_files
from nriplugin.daemon.instance_lock import held_locks
from nriplugin.nri.launch import ENV_SOCKET

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost
    from nriplugin.daemon.doctor.processes import HostProcess


def check_instances(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Count what answers NRI or CRI requests as nriplugin."""
    found = _instances(host)
    if len(found) > 1:
        yield problem(
            "instances",
            f"nriplugin is there {len(found)} times: {', '.join(found)}. Two of them "
            "set the same files, and the runtime then fails every container, unless "
            "one waits for the end of the other.",
            "Keep one way: stop the service, delete the DaemonSet, or remove the file "
            "from the plugin directory. During an upgrade two processes are normal "
            "for some seconds.",
        )
        return
    status = host.answers.status
    if not found and status is not None:
        found = [f"process {status.pid}"]
    if found:
        yield ok("instances", f"nriplugin is there once: {found[0]}.")
    else:
        yield ok("instances", "No other nriplugin is to be seen.")


def _instances(host: ExaminedHost) -> list[str]:
    daemons = [
        (command, process)
        for command, processes in host.daemons.items()
        for process in processes
    ]
    # A process that the runtime has launched is counted by its file.
    own = [pair for pair in daemons if pair[1].environment(ENV_SOCKET) is None]
    files = launched_files(host)
    found = [f"process {process.pid} (nriplugin {command})" for command, process in own]
    found += [f"{path} (launched by the runtime)" for path in files]
    elsewhere = _holders_elsewhere(host, [process for _, process in daemons])
    # A file whose process is not to be seen may be the one that holds the lock.
    unseen = max(0, len(files) - (len(daemons) - len(own)))
    return found + elsewhere[unseen:]


def _holders_elsewhere(host: ExaminedHost, seen: list[HostProcess]) -> list[str]:
    """Return the holders of instance locks that are none of the processes seen."""
    held = held_locks(host.options.state_directory)
    try:
        with open(f"{host.proc}/locks", encoding="ascii") as file:
            owners = lock_owners(file.read())
    except (OSError, ValueError):
        # Who holds which lock is not known, so each process counts as a holder.
        return list(held.values())[len(seen) :]
    pids = {process.pid for process in seen}
    elsewhere = []
    for path, holder in held.items():
        inode = 0
        with suppress(OSError):
            inode = os.stat(path).st_ino
        if pids.isdisjoint(owners.get(inode, ())):
            elsewhere.append(holder)
    return elsewhere


def lock_owners(text: str) -> dict[int, set[int]]:
    """Return inode -> PIDs of the holders of an flock, from the text of /proc/locks.

    The kernel lists the locks of those processes that have a PID in the namespace of
    this /proc. The device is not compared: the one in the list is the file system's,
    and on btrfs or overlayfs a file has another one.
    """
    owners: dict[int, set[int]] = {}
    for line in text.splitlines():
        words = line.split()
        # For example: 2: FLOCK  ADVISORY  WRITE 2001 08:01:7864554 0 EOF. The line of a
        # process that waits for a lock has `->` as its second word.
        if len(words) > 5 and words[1] == "FLOCK":
            inode = int(words[5].rpartition(":")[2])
            owners.setdefault(inode, set()).add(int(words[4]))
    return owners
