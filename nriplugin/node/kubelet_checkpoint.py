"""Reads kubelet's checkpoint: which memory request each container has been allocated.

The file is read again only if stat(2) shows another file than before: kubelet replaces
it by rename, so its inode differs, and a change in place shows in its times or size.

A look at the file may block on a slow disk, so it is never made on a thread that
answers requests: daemon/checkpoint_watch.py looks, and others read `requests`, which is
replaced as a whole. A file that cannot be read or parsed leaves the last requests in
force, because a request that was true a moment ago is closer than an estimate. A file
that is gone leaves none.
"""

from __future__ import annotations

import os
import stat
from errno import EINVAL
from typing import TYPE_CHECKING

from nriplugin.errors import ConfigError
from nriplugin.kube.allocations import MAX_BYTES, parse_allocations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.kube.allocations import MemoryRequests


class KubeletCheckpoint:
    """The checkpoint of one path, as of the last look; one thread may look."""

    def __init__(self, path: str) -> None:
        """Take the path of the file, for this process; `look` reads it."""
        self.path = path
        self.requests: Mapping[str, Mapping[str, int]] = {}
        self.found = False  # whether there was a file at the last look
        self.problem = ""  # why the file could not be read; empty if it could
        self.reads = 0
        self.failures = 0
        # Device, inode, time of change and size; the error number if stat failed.
        self._seen: tuple[int, ...] | None = None

    def look(self) -> bool:
        """Read the file if it has changed; return whether the requests have."""
        try:
            state = os.stat(self.path)
        except FileNotFoundError:
            self._seen, self.found, self.problem = None, False, ""
            return self._publish({})
        except OSError as exc:
            self._fail((exc.errno or 0,), exc.strerror or repr(exc))
            return False
        self.found = True
        if _identity(state) == self._seen:
            return False
        try:
            state, requests = read_checkpoint(self.path)
        except OSError as exc:
            self._fail(_identity(state), exc.strerror or repr(exc))
            return False
        except ConfigError as exc:
            self._fail(_identity(state), str(exc))
            return False
        self._seen, self.problem = _identity(state), ""
        self.reads += 1
        return self._publish(requests)

    def _publish(self, requests: MemoryRequests) -> bool:
        changed = requests != self.requests
        if changed:
            self.requests = requests
        return changed

    def _fail(self, seen: tuple[int, ...], problem: str) -> None:
        """Count a failure, once for each state of the file."""
        if seen != self._seen:
            self.failures += 1
        self._seen, self.problem = seen, problem


def read_checkpoint(path: str) -> tuple[os.stat_result, MemoryRequests]:
    """Return the state of the file that was read, and the requests in it.

    Raises:
        OSError: the file cannot be read, or is none.
        ConfigError: it is not a checkpoint of kubelet's.
    """
    # Without O_NONBLOCK, opening a pipe that stands in the file's place would block.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(fd, "rb", buffering=0) as file:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(EINVAL, "not a regular file")
        parts, size = [], 0
        while size <= MAX_BYTES and (part := file.read(MAX_BYTES + 1 - size)):
            parts.append(part)
            size += len(part)
    return state, parse_allocations(b"".join(parts))


def _identity(state: os.stat_result) -> tuple[int, ...]:
    # The time of the last change of the inode also shows another owner or mode, by
    # which a file may become readable.
    return state.st_dev, state.st_ino, state.st_ctime_ns, state.st_size
