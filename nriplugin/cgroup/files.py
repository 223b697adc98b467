"""Reads and writes the kernel's files; no other module here opens a file to write.

Every path is resolved below a root directory that was opened and checked once. No
symlink is followed, no `..` is accepted and no other mount is entered, whatever a pod
UID, a container ID or an annotation says. No file is ever created.

On cgroup v1 each controller is a mount of its own below the root; a path then begins
with the controller: `/cpu/kubepods/...`.
"""

from __future__ import annotations

import os
import stat
from errno import (
    EINVAL,
    EIO,
    ELOOP,
    ENODEV,
    ENOENT,
    ENOTDIR,
    EXDEV,
)
from typing import TYPE_CHECKING, Protocol

from nriplugin.cgroup.syscalls import best_opener, filesystem_magic
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Self

# linux/magic.h
CGROUP_MAGIC = 0x27E0EB
CGROUP2_MAGIC = 0x63677270
PROC_MAGIC = 0x9FA0
CGROUP_MAGICS = (CGROUP2_MAGIC, CGROUP_MAGIC)

_CHUNK_BYTES = 65536

# The kernel ends a read early only if its page has no room for one more record, and no
# record of these files is half a page long. So a shorter answer is the whole file, and
# the second read, which would return nothing, is saved.
_WHOLE_FILE_BYTES = 2048


class Files(Protocol):
    """A tree of small files: the node's, or a VM guest's behind another transport.

    Paths are absolute below the root. Every method raises CgroupError.
    """

    def read(self, path: str) -> str:
        """Return the text of a file, unchanged."""
        ...

    def write(self, path: str, value: str) -> None:
        """Write to an existing file, in one write."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        ...

    def children(self, path: str) -> list[str]:
        """Return the names of the directories in a directory, sorted."""
        ...


class LocalFiles:
    """The files of this machine below one directory.

    `magics` are the file system types that the root may have; None is for a directory
    of ordinary files, as tests have. `hierarchies` has the directory of each v1
    controller, because `cpu` may be a symlink to `cpu,cpuacct`, and symlinks are not
    followed.
    """

    def __init__(
        self,
        root: str,
        magics: Collection[int] | None = CGROUP_MAGICS,
        hierarchies: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self._plain = magics is None
        self._roots: dict[str, int] = {}
        self._fd = -1
        opener = best_opener()
        # New kernels do not reclaim when a memory limit is written with O_NONBLOCK. So
        # it is used for ordinary files only, where a file might be a pipe.
        nonblock = os.O_NONBLOCK if self._plain else 0
        self._reading = opener(os.O_RDONLY | nonblock)
        self._writing = opener(os.O_WRONLY | nonblock)
        self._listing = opener(os.O_RDONLY | os.O_DIRECTORY)
        self._looking = opener(os.O_PATH)
        try:
            if hierarchies is None:
                self._fd = _open_root(root, magics)
            elif not hierarchies:
                reason = "no cgroup v1 controller is mounted there"
                raise CgroupError("open", root, None, ENODEV, reason)
            else:
                for controller, directory in hierarchies.items():
                    self._roots[controller] = _open_root(directory, magics)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the roots."""
        fds = [self._fd, *self._roots.values()]
        self._fd, self._roots = -1, {}
        for fd in fds:
            if fd >= 0:
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, path: str) -> str:
        """Return the text of a file, unchanged."""
        try:
            directory, name = self._place(path)
            fd = self._reading(name, directory)
            try:
                content = os.read(fd, _CHUNK_BYTES)
                if len(content) >= _WHOLE_FILE_BYTES:
                    while chunk := os.read(fd, _CHUNK_BYTES):
                        content += chunk
            finally:
                os.close(fd)
        except OSError as exc:
            raise _error("read", path, None, exc) from exc
        return content.decode("utf-8", "replace")

    def write(self, path: str, value: str) -> None:
        """Write to an existing file, in one write(2)."""
        content = value.encode("utf-8", "replace")
        try:
            directory, name = self._place(path)
            fd = self._writing(name, directory)
            try:
                if self._plain:
                    _prepare_plain(fd, len(content))
                written = os.write(fd, content)
                if written != len(content):
                    raise OSError(EIO, f"{written} of {len(content)} bytes were taken")
            finally:
                os.close(fd)
        except OSError as exc:
            raise _error("write", path, value, exc) from exc

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory; a symlink is not."""
        try:
            directory, name = self._place(path)
            os.close(self._looking(name, directory))
        except OSError as exc:
            if exc.errno in (ENOENT, ENOTDIR, ELOOP, ENODEV):
                return False
            raise _error("open", path, None, exc) from exc
        return True

    def identity(self, path: str) -> int:
        """Return the inode number; a cgroup that is made again has another."""
        try:
            directory, name = self._place(path)
            fd = self._looking(name, directory)
            try:
                return os.fstat(fd).st_ino
            finally:
                os.close(fd)
        except OSError as exc:
            raise _error("open", path, None, exc) from exc

    def children(self, path: str) -> list[str]:
        """Return the names of the directories in a directory, sorted."""
        if self._roots and path == "/":
            return sorted(self._roots)
        try:
            directory, name = self._place(path)
            fd = self._listing(name, directory)
            try:
                with os.scandir(fd) as entries:
                    found = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
            finally:
                os.close(fd)
        except OSError as exc:
            raise _error("list", path, None, exc) from exc
        return sorted(found)

    def _place(self, path: str) -> tuple[int, bytes]:
        """Return an open directory and the rest of the path, below it."""
        # The kernel would end the path at a NUL byte, at another file than was checked.
        if path[:1] != "/" or "\0" in path:
            raise OSError(EINVAL, "not an absolute path below the root")
        if "/.." in path and ".." in path.split("/"):
            raise OSError(EXDEV, "leads out of its directory")
        try:
            name = path[1:].encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as exc:
            raise OSError(EINVAL, "not a path that a file system can hold") from exc
        if not self._roots:
            return self._fd, name or b"."
        controller, _, rest = name.partition(b"/")
        fd = self._roots.get(controller.decode("utf-8", "replace"))
        if fd is None:
            raise OSError(ENODEV, "no such controller is mounted")
        return fd, rest or b"."


def _open_root(directory: str, magics: Collection[int] | None) -> int:
    fd = -1
    try:
        if "\0" in directory:
            raise OSError(EINVAL, "not a path")
        fd = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if magics is not None and (magic := filesystem_magic(fd)) not in magics:
            expected = " or ".join(f"{one:#x}" for one in magics)
            reason = f"file system type {magic:#x}, expected {expected}"
            raise OSError(ENODEV, reason)
    except OSError as exc:
        if fd >= 0:
            os.close(fd)
        raise _error("open", directory, None, exc) from exc
    return fd


def _prepare_plain(fd: int, length: int) -> None:
    """Make an ordinary file behave as the kernel's files do when it is written.

    The kernel's files have no length: a write replaces the content, while in an
    ordinary file the rest of a longer content would remain.
    """
    state = os.fstat(fd)
    if not stat.S_ISREG(state.st_mode):
        raise OSError(EINVAL, "not a regular file")
    if state.st_size > length:
        os.ftruncate(fd, length)


def _error(operation: str, path: str, value: str | None, exc: OSError) -> CgroupError:
    number = exc.errno or EIO
    known = exc.strerror == os.strerror(number)
    return CgroupError(operation, path, value, number, None if known else exc.strerror)
