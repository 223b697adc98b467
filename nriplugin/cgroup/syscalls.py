"""The two system calls that Python's `os` lacks: openat2 and statfs's type.

openat2 resolves a whole path below a directory and refuses symlinks, other mounts and
`..`. The kernel does that in one step, so nothing can change between the check and the
use. Called through ctypes it costs a tenth more than `os.open`.

The fallback opens one component after another, which costs three times as much. It is
used before Linux 5.6 (ENOSYS) and under seccomp profiles that do not know the call
(EPERM). It keeps the same rule: each component is opened relative to the directory that
was opened before, with O_NOFOLLOW, and the device of the result is compared.

The file system's type comes from statfs and not from mountinfo, because statfs is asked
about the open directory itself, and mountinfo about a path that may be mounted over.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Callable
from errno import ELOOP, ENOSYS, EPERM, EXDEV
from typing import TypeAlias

# The same number on every architecture that Kubernetes runs on.
_OPENAT2 = 437

_NO_XDEV, _NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH = 0x01, 0x02, 0x04, 0x08
_RESOLVE = _NO_XDEV | _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH

# More than the longest struct statfs.
_STATFS_BYTES = 256

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_syscall.argtypes = (
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


_HOW_BYTES = ctypes.sizeof(_OpenHow)

# Opens a path, relative and without NUL byte, below a directory. Raises OSError: ELOOP
# for a symlink, EXDEV for a path that leads out, or the error of open.
Opener: TypeAlias = Callable[[bytes, int], int]


def resolving_opener(flags: int) -> Opener:
    """Return an opener with fixed flags, by openat2."""
    # `how` must live as long as the opener, because the kernel reads it at every call:
    # `pointer` alone would not keep it, so it is a default argument below.
    how = _OpenHow(flags | os.O_CLOEXEC, 0, _RESOLVE)
    pointer = ctypes.c_void_p(ctypes.addressof(how))

    def open_below(path: bytes, directory: int, _kept: _OpenHow = how) -> int:
        fd: int = _syscall(_OPENAT2, directory, path, pointer, _HOW_BYTES)
        if fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return fd

    return open_below


def walking_opener(flags: int) -> Opener:
    """Return an opener with fixed flags, by one open per component."""
    step = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
    last = flags | os.O_NOFOLLOW | os.O_CLOEXEC

    def open_below(path: bytes, directory: int) -> int:
        *parents, name = [part for part in path.split(b"/") if part] or [b"."]
        if b".." in (*parents, name):
            raise OSError(EXDEV, os.strerror(EXDEV))
        device = os.fstat(directory).st_dev
        current = os.dup(directory)
        try:
            for part in parents:
                below = _open_directory(part, step, current)
                os.close(current)
                current = below
            fd = os.open(name, last, dir_fd=current)
        finally:
            os.close(current)
        state = os.fstat(fd)
        # O_PATH opens a symlink itself, where openat2 refuses.
        refusal = ELOOP if stat.S_ISLNK(state.st_mode) else 0
        if state.st_dev != device:
            refusal = EXDEV
        if refusal:
            os.close(fd)
            raise OSError(refusal, os.strerror(refusal))
        return fd

    return open_below


def best_opener() -> Callable[[int], Opener]:
    """Return openat2 if this kernel has it and seccomp allows it, else the fallback."""
    here = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(resolving_opener(os.O_PATH)(b".", here))
    except OSError as exc:
        if exc.errno in (ENOSYS, EPERM):
            return walking_opener
        raise
    finally:
        os.close(here)
    return resolving_opener


def filesystem_magic(fd: int) -> int:
    """Return f_type of the file system that a descriptor is on.

    Raises:
        OSError: fstatfs failed.
    """
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc.fstatfs(fd, buffer) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    # The first field: a long, except on s390x, where it is an int.
    narrow = os.uname().machine == "s390x"
    kind = ctypes.c_uint if narrow else ctypes.c_ulong
    return int(kind.from_buffer(buffer).value)


def _open_directory(name: bytes, flags: int, directory: int) -> int:
    try:
        return os.open(name, flags, dir_fd=directory)
    except NotADirectoryError as exc:
        # open gives ENOTDIR for a symlink as well; openat2 gives ELOOP.
        state = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(state.st_mode):
            raise OSError(ELOOP, os.strerror(ELOOP)) from exc
        raise
