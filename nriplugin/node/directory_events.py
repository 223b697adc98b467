"""Waits until a file in a directory was replaced, by inotify.

Only the directory is watched, not the file: a watch on a file stays with its inode, and
a file that is replaced by rename has another one each time. Python has no inotify of
its own, so it is called through ctypes.

A process may have no inotify left (`fs.inotify.max_user_instances` counts all processes
of a user, and nodes do run out of them). `wait` then only waits, and its caller has to
look at the file by itself, as it has to anyway from time to time: a directory may be
removed, created again or mounted over.
"""

from __future__ import annotations

import ctypes
import os
import select
from contextlib import suppress

_libc = ctypes.CDLL(None, use_errno=True)

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _DELETE = 0x08, 0x40, 0x80, 0x200
_ONLYDIR = 0x01000000
_EVENTS = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _DELETE | _ONLYDIR

# Room for many events at once. Their content is not read: each is a reason to look.
_BUFFER_BYTES = 64 << 10


class DirectoryEvents:
    """Events of one directory, and a way to end the wait for them."""

    def __init__(self, directory: str) -> None:
        self._directory = os.fsencode(directory)
        # A descriptor to write to from any thread, so that `wait` returns.
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # The same flags as for eventfd, by the same numbers.
        self._inotify = _libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        if self._inotify >= 0:
            self._poll.register(self._inotify, select.POLLIN)

    def watch(self) -> bool:
        """Watch the directory that has the name now; return whether it is watched.

        If it is watched already, nothing changes.
        """
        if self._inotify < 0:
            return False
        added = _libc.inotify_add_watch(self._inotify, self._directory, _EVENTS)
        return bool(added >= 0)

    def wait(self, seconds: float) -> None:
        """Wait for an event or a call of `wake`, for at most so many seconds."""
        ready = {fd for fd, _ in self._poll.poll(seconds * 1000)}
        with suppress(OSError):
            if self._inotify in ready:
                os.read(self._inotify, _BUFFER_BYTES)
            if self._wake in ready:
                os.eventfd_read(self._wake)

    def wake(self) -> None:
        """Make `wait` return; any thread may call it, before `close`."""
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Close the descriptors; to be called by the thread that waits."""
        os.close(self._wake)
        if self._inotify >= 0:
            os.close(self._inotify)
