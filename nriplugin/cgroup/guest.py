"""The cgroup files of a VM's guest, read and written by commands run inside it.

A runtime that puts pods into VMs (Kata, for example) has the containers' cgroups in the
guest, where the node's files do not reach. `GuestFiles` implements `cgroup.files.Files`
by another transport: the caller's `execute` runs a command in a container of the guest
that has the guest's cgroups, `sh`, `cat`, `env`, `printf` and `test`, and returns its
exit code and output. CRI's ExecSync does that (doors/cri/client.py).

Paths and values are arguments of their own, never part of a script. A path is confined
by the same rule as on the node: no `..`, and nothing outside of the root. Symlinks are
followed, because they cannot lead out of the guest.
"""

from __future__ import annotations

import os
from errno import (
    EACCES,
    EBUSY,
    EINVAL,
    EIO,
    EISDIR,
    ENODEV,
    ENOENT,
    ENOSPC,
    ENOTDIR,
    EOPNOTSUPP,
    EPERM,
    ERANGE,
    EROFS,
    ETIMEDOUT,
    EXDEV,
)
from typing import TYPE_CHECKING, Protocol

from nriplugin.errors import CgroupError, NRIPluginError

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = "/sys/fs/cgroup"

# The shell would create the file that it redirects to, so the script first checks that
# the file exists. `exec` runs the program printf, because the shell's own printf may
# not say why a write failed.
_NOT_THERE = 102
_WRITE = f'[ -e "$2" ] || exit {_NOT_THERE}; exec env LC_ALL=C printf %s "$1" > "$2"'
# Directories, hidden ones included, without those that are symlinks.
_LIST = (
    f'cd -- "$1" || exit {_NOT_THERE}; '
    "for name in * .*; do "
    'case "$name" in .|..) continue;; esac; '
    'if [ -d "$name" ] && ! [ -L "$name" ]; then printf "%s\\0" "$name"; fi; '
    "done"
)
# The exit codes that a runtime returns if the container has no such program.
_NO_PROGRAM = (126, 127)

# The last words of an error message -> error number. C libraries differ in some of
# them, and dash has words of its own.
_MEANINGS = {
    os.strerror(number).lower(): number
    for number in (
        EACCES,
        EBUSY,
        EINVAL,
        EIO,
        EISDIR,
        ENODEV,
        ENOENT,
        ENOSPC,
        ENOTDIR,
        EOPNOTSUPP,
        EPERM,
        ERANGE,
        EROFS,
    )
} | {
    "resource busy": EBUSY,
    "not supported": EOPNOTSUPP,
    "result not representable": ERANGE,
    "directory nonexistent": ENOENT,
}


# Exit code, standard output, standard error.
Answer = tuple[int, bytes, bytes]


class Execute(Protocol):
    """Runs a command in the guest."""

    def __call__(self, argv: Sequence[str], /) -> Answer:
        """Return the answer; raises TimeoutError, OSError or NRIPluginError."""
        ...


class GuestFiles:
    """Files of a guest below one directory; see `cgroup.files.Files`."""

    def __init__(self, execute: Execute, root: str = ROOT) -> None:
        self.root = root.rstrip("/")
        self._execute = execute

    def read(self, path: str) -> str:
        """Return the text of a file, unchanged."""
        place = self._place("read", path, None)
        content = self._run("read", path, None, ["env", "LC_ALL=C", "cat", place])
        return content.decode("utf-8", "replace")

    def write(self, path: str, value: str) -> None:
        """Write to an existing file, in one write."""
        place = self._place("write", path, value)
        if "\0" in value:
            raise CgroupError("write", path, value, EINVAL)
        self._run("write", path, value, ["sh", "-c", _WRITE, "sh", value, place])

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        place = self._place("open", path, None)
        answer = self._answer("open", path, None, ["test", "-e", place])
        if answer[0] in (0, 1):
            return answer[0] == 0
        raise _error("open", path, None, answer)

    def children(self, path: str) -> list[str]:
        """Return the names of the directories in a directory, sorted."""
        place = self._place("list", path, None)
        listing = self._run("list", path, None, ["sh", "-c", _LIST, "sh", place])
        names = listing.decode("utf-8", "surrogateescape").split("\0")
        return sorted(name for name in names if name)

    def _place(self, operation: str, path: str, value: str | None) -> str:
        """Return the path in the guest; it begins with / and so is never an option."""
        if path[:1] != "/" or "\0" in path:
            reason = "not an absolute path below the root"
            raise CgroupError(operation, path, value, EINVAL, reason)
        if ".." in path.split("/"):
            reason = "leads out of its directory"
            raise CgroupError(operation, path, value, EXDEV, reason)
        return f"{self.root}{path}"

    def _run(
        self, operation: str, path: str, value: str | None, argv: list[str]
    ) -> bytes:
        answer = self._answer(operation, path, value, argv)
        if answer[0] != 0:
            raise _error(operation, path, value, answer)
        return answer[1]

    def _answer(
        self, operation: str, path: str, value: str | None, argv: list[str]
    ) -> Answer:
        try:
            for argument in argv:
                argument.encode()
            return self._execute(argv)
        except UnicodeError as exc:
            raise CgroupError(operation, path, value, EINVAL, "not UTF-8") from exc
        except TimeoutError as exc:
            reason = "no answer from the guest in time"
            raise CgroupError(operation, path, value, ETIMEDOUT, reason) from exc
        except (OSError, NRIPluginError) as exc:
            reason = f"the guest cannot be asked: {_line(str(exc))}"
            raise CgroupError(operation, path, value, EIO, reason) from exc


def _error(operation: str, path: str, value: str | None, answer: Answer) -> CgroupError:
    """Return the error of the guest's kernel, read from the program's message."""
    code, _, stderr = answer
    if code == _NOT_THERE:
        return CgroupError(operation, path, value, ENOENT)
    said = _line(stderr.decode("utf-8", "replace"))
    if code not in _NO_PROGRAM:
        number = _MEANINGS.get(said.rpartition(": ")[2].lower())
        if number is not None:
            return CgroupError(operation, path, value, number)
    reason = f"the guest answered {code}: {said or 'nothing'}"
    return CgroupError(operation, path, value, EIO, reason)


def _line(text: str) -> str:
    return " ".join(text.split())
