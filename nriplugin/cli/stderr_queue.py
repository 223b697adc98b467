"""Standard error of a daemon: a queue, and a thread that writes what is in it.

A pipe that nobody reads is full after a while, and whoever writes to it then waits, for
ever. A request must not wait for that, nor the end of the process. So in a daemon
`sys.stderr` only appends to a queue, for the log, for error messages and for tracebacks
alike, and the thread `log` alone writes, and waits. If the queue is full, lines are
dropped and counted.

At the end of the process the thread has a limited time for what is left. What the
thread could not write is lost then, and standard error leads to /dev/null, so that
nothing that is still printed can wait.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import sys
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from _typeshed import ReadableBuffer

# How many texts wait at most; nearly every one is a line. After texts were dropped, the
# next one is taken when half of the others are written.
WAITING = 512
# How long the end of the process waits for a standard error that is not read.
PATIENCE_S = 2.0


class StderrQueue(io.BufferedIOBase):
    """A file whose `write` never waits; a thread writes to the real file."""

    name = "<stderr>"

    def __init__(self, fd: int, dropped_line: Callable[[int], str]) -> None:
        """Start the thread; `dropped_line` makes the line about so many lines."""
        super().__init__()
        self._fd = fd
        self._dropped_line = dropped_line
        self._dropped = 0
        # Its `put` may be interrupted by a signal handler that logs as well.
        self._texts: SimpleQueue[bytes | None] = SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def writable(self) -> bool:
        """Say that this file is for writing."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the real file."""
        return self._fd

    def isatty(self) -> bool:
        """Whether the real file is a terminal."""
        return os.isatty(self._fd)

    def write(self, text: ReadableBuffer, /) -> int:
        """Append a text to the queue, or count its lines as dropped."""
        data = bytes(text)
        if self._ended:
            _write(self._fd, data)
        elif self._texts.qsize() >= (WAITING // 2 if self._dropped else WAITING):
            self._dropped += data.count(b"\n")
        else:
            self._say_what_was_dropped()
            self._texts.put(data)
        return len(data)

    def end(self) -> None:
        """Give the thread a limited time for the rest; never wait for ever."""
        self._say_what_was_dropped()
        self._texts.put(None)
        self._thread.join(PATIENCE_S)
        if self._thread.is_alive() or not _takes_more(self._fd):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._fd)
            os.close(nowhere)
        self._ended = True

    def _say_what_was_dropped(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            line = self._dropped_line(dropped)
            self._texts.put(f"{line}\n".encode(errors="backslashreplace"))

    def _run(self) -> None:
        while (data := self._texts.get()) is not None:
            _write(self._fd, data)


def _write(fd: int, data: bytes) -> None:
    """Write all of a text; it is lost if its reader is gone or the disk is full."""
    with suppress(OSError):
        while data:
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:  # another user of the file has made it so
                select.select((), (fd,), ())


def _takes_more(fd: int) -> bool:
    """Whether a short text can be written at once."""
    poll = select.poll()
    poll.register(fd, select.POLLOUT)
    return bool(poll.poll(0))


def queue_stderr(
    dropped_line: Callable[[int], str], at_end: Callable[[], None]
) -> TextIO:
    """Make `sys.stderr` a queue until the process ends, and return it.

    At the end of the process, after a traceback that ends it, `at_end` is called for
    the last lines.
    """
    before = sys.stderr
    queue = StderrQueue(before.fileno(), dropped_line)
    stream = io.TextIOWrapper(
        queue, before.encoding, errors="backslashreplace", line_buffering=True
    )

    def end() -> None:
        at_end()
        stream.flush()
        sys.stderr = before
        queue.end()

    before.flush()
    sys.stderr = stream
    atexit.register(end)
    return stream
