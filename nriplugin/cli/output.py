"""Standard output and standard error at the end of a command.

Python buffers what is printed and writes the rest of the buffers when it exits. If that
fails, because the reader has closed its end or the disk is full, Python exits with 120,
whatever the command has done. A container would then not start because its hook's
output was closed. So `finish` flushes the buffers first and chooses the exit code.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

# The exit code that a shell shows for a command that died of SIGPIPE, signal 13.
READER_GONE = 128 + 13


def say(text: str) -> None:
    """Print a line on standard error; it is no failure if nobody reads it.

    Only for places where other modules may be missing, as during an upgrade. Commands
    print through printing.py, which escapes control characters.
    """
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"nriplugin: {text}", file=sys.stderr)  # noqa: T201


def is_reader_gone() -> bool:
    """Whether the reader of standard output has closed its end.

    A BrokenPipeError does not say which file it is about; this asks the kernel.
    """
    import select

    poll = select.poll()
    with suppress(AttributeError, OSError):  # closed at the start, or not a real file
        poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


def finish(code: int) -> int:
    """Flush both streams and return the exit code: `code`, unless flushing fails.

    A command that succeeded exits with READER_GONE if its reader had closed standard
    output, and with 1 if the output could not be written for another reason.
    """
    failure = _flush(sys.stdout)
    if isinstance(failure, BrokenPipeError):
        code = code or READER_GONE
    elif failure is not None and not code:
        say(f"standard output: {failure.strerror}")
        code = 1
    _flush(sys.stderr)
    return code


def _flush(stream: TextIO | None) -> OSError | None:
    """Flush a stream; return the error, after which the buffer is discarded."""
    if stream is None:
        return None
    try:
        stream.flush()
    except OSError as exc:
        # Python keeps the buffer and would try again when it exits, so the descriptor
        # is made to lead to /dev/null.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return exc
    return None
