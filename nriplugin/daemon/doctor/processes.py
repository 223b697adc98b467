"""The processes of the host, as far as /proc shows them to this process."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.identify import identify, parse_process_cgroups
from nriplugin.cgroup.locate.kubelet_process import read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

DAEMONS = ("run", "cri-proxy")
OWN_PROGRAM = "nriplugin"


class HostProcess(NamedTuple):
    """A process, by its command line."""

    directory: str
    pid: int
    arguments: tuple[str, ...]

    @property
    def program(self) -> str:
        """Return the name of the program, without its directory."""
        return _name(self.arguments[0])

    def flag(self, *names: str) -> str | None:
        """Return the value of a flag, `--name value` or `--name=value`; else None."""
        value = None
        for index, word in enumerate(self.arguments):
            name, equals, given = word.partition("=")
            if name in names:
                following = self.arguments[index + 1 : index + 2]
                value = given if equals else next(iter(following), None)
        return value

    def in_pod(self) -> bool:
        """Whether the process runs in a pod; False if that cannot be read."""
        try:
            cgroups = parse_process_cgroups(read_file(f"{self.directory}/cgroup"))
        except OSError:
            return False
        paths = [*cgroups.controllers.values(), cgroups.unified]
        return any(path is not None and identify(path) is not None for path in paths)

    def environment(self, name: str) -> str | None:
        """Return a variable of the process's environment, if it can be read."""
        try:
            words = read_file(f"{self.directory}/environ").split("\0")
        except OSError:
            return None
        pairs = (word.partition("=") for word in words)
        return next((value for key, _, value in pairs if key == name), None)


def processes_in(proc: str) -> list[HostProcess]:
    """Return the processes, by ascending PID; kernel threads are left out."""
    try:
        pids = [int(name) for name in os.listdir(proc) if name.isdecimal()]
    except OSError:
        return []
    found = []
    for pid in sorted(pids):
        directory = f"{proc}/{pid}"
        try:
            text = read_file(f"{directory}/cmdline").rstrip("\0")
        except OSError:  # the process has ended, or may not be looked at
            continue
        if text:
            found.append(HostProcess(directory, pid, tuple(text.split("\0"))))
    return found


def daemon_command(arguments: Sequence[str]) -> str | None:
    """Return `run` or `cri-proxy` if a command line is that of a daemon; else None.

    The program itself counts, or Python with it; not one that only starts it, such as
    `sudo nriplugin run`, which is there beside the process that it has started.
    """
    words = list(arguments)
    if _name(words[0]).startswith("python"):
        words = words[1:]
        while words[:1] and words[0].startswith("-"):
            words = words[1:]  # an option; after `-m` comes the name as well
    if len(words) < 2 or _name(words[0]) != OWN_PROGRAM:
        return None
    return words[1] if words[1] in DAEMONS else None


def _name(path: str) -> str:
    return path.rpartition("/")[2]
