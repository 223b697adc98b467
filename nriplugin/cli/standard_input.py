"""Reads all of standard input, for commands that are given `-` in place of a file."""

from __future__ import annotations

import errno
import os
import sys


def read_standard_input() -> bytes:
    """Return what standard input has, up to its end.

    Raises:
        OSError: it cannot be read, or was closed when the process was started.
    """
    if sys.stdin is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return sys.stdin.buffer.read()
