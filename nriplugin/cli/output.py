"""Standard output and standard error of a command, when their readers are gone.

Python keeps what is printed in buffers, and writes the rest of them when it ends. If
that fails it ends with 120, whatever the command has done: a container would not start
because nobody listens to its hook. So `finish` writes the rest before the end, and
decides what a failure of that means.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TextIO

# What a shell shows for a command that SIGPIPE, number 13, has ended.
READER_GONE = 128 + 13


def say(text: str) -> None:
    """Print a line about the command itself; that nobody reads it is no failure.

    For when other modules may be missing; everything else prints by `printing`.
    """
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"nriplugin: {text}", file=sys.stderr)  # noqa: T201


def is_reader_gone() -> bool:
    """Whether a BrokenPipeError may be that of standard output."""
    import select

    poll = select.poll()
    with suppress(AttributeError, OSError):  # there is none, or it is no file
        poll.register(sys.stdout.fileno(), 0)
    return bool(poll.poll(0))


def finish(code: int) -> int:
    """Write what is buffered and return the exit code, which is `code` if that works.

    A command that did its work ends with READER_GONE if nobody wanted to read of it,
    and with 1 if there was no room for its output.
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
    """Write what is buffered; what cannot be written is thrown away."""
    if stream is None:
        return None
    try:
        stream.flush()
    except OSError as exc:
        # The buffer is kept, and written again when Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        return exc
    return None
