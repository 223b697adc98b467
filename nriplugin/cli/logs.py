"""The log of `run` and `cri-proxy`: lines on standard error, as text or as JSON.

systemd, the container runtime or a person at a terminal reads them. A message may hold
names that a container chose, so control characters are escaped as in printing.py and
one message is always one line; only the text of a traceback has more. As JSON every
line is one object: `ts`, `level`, `logger` and `msg`, `exception` for a traceback, and
for a decision the fields that its text is made of.

Equal lines are limited (`RepeatLimit`), so that a runtime that is away for a night does
not fill the disk. Whoever logs a line makes its text and appends it to a queue; a
thread writes it (stderr_queue.py).
"""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any

from nriplugin.cli.printing import as_json, printable
from nriplugin.cli.stderr_queue import queue_stderr

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import TextIO

    # The type of the parameter in logging.Formatter.
    ExceptionInfo = (
        tuple[type[BaseException], BaseException, TracebackType | None]
        | tuple[None, None, None]
    )

TEXT = "text"
JSON = "json"

# The name of a log record's attribute that holds structured fields, for JSON.
FIELDS = "fields"

# So many equal lines are logged one after the other, and one more in each period. The
# others are counted, and the count is logged when the line has not come for a period.
EQUAL_LINES = 5
PERIOD_S = 60.0
# How many different lines are remembered.
REMEMBERED_LINES = 256


def log_to_stderr(*, verbose: bool, form: str = TEXT) -> None:
    """Send the log to standard error; `verbose` includes debug messages.

    From now on nothing in this process waits for standard error to be read.
    """
    root = logging.getLogger()
    # The program that calls this may have a log already. A process may have been
    # started without standard error.
    if root.handlers or sys.stderr is None:
        return
    formatter = JSONFormatter() if form == JSON else _text_formatter()

    def dropped_line(count: int) -> str:
        text = f"{count} lines were dropped: standard error was not read"
        return formatter.format(_record(logging.WARNING, text))

    handler = LimitedHandler(queue_stderr(dropped_line, lambda: handler.close()))
    handler.setFormatter(formatter)
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if verbose else logging.INFO)


def _text_formatter() -> logging.Formatter:
    return _PrintableFormatter("%(asctime)s %(levelname)s %(message)s")


class _PrintableFormatter(logging.Formatter):
    """Escapes what is not printable, so that a message is one line of text."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return printable(super().formatMessage(record))

    def formatException(self, ei: ExceptionInfo) -> str:  # noqa: N802
        lines = super().formatException(ei).split("\n")
        return "\n".join(map(printable, lines))


class JSONFormatter(logging.Formatter):
    """Makes one JSON object of a record. JSON escapes all control characters."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "ts": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        line |= getattr(record, FIELDS, {})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return as_json(line)


class _Seen:
    """One text: how often it may still be logged, and how often it was left out."""

    __slots__ = ("allowed", "last", "left_out")

    def __init__(self, now: float) -> None:
        self.allowed = float(EQUAL_LINES)
        self.last = now
        self.left_out = 0


class RepeatLimit:
    """Leaves out lines that were logged a few times already, and counts them.

    Not locked: a handler of the log calls it under its own lock.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lines: OrderedDict[tuple[int, str], _Seen] = OrderedDict()

    def allows(self, level: int, text: str) -> bool:
        """Return whether to log a line now, and count it if not."""
        now = self._clock()
        seen = self._lines.setdefault((level, text), _Seen(now))
        self._lines.move_to_end((level, text))
        seen.allowed = min(EQUAL_LINES, seen.allowed + (now - seen.last) / PERIOD_S)
        seen.last = now
        if seen.allowed < 1:
            seen.left_out += 1
            return False
        seen.allowed -= 1
        return True

    def left_out(self, *, all_of_them: bool = False) -> list[tuple[int, str]]:
        """Return level and text of lines that say what was left out, each once.

        They are about lines that have not come for a period, or about all.
        """
        now = self._clock()
        found = []
        while self._lines:
            key, seen = next(iter(self._lines.items()))
            full = len(self._lines) > REMEMBERED_LINES
            if not (all_of_them or full or now - seen.last >= PERIOD_S):
                break
            del self._lines[key]
            if seen.left_out:
                level, text = key
                found.append((level, f"{seen.left_out} more lines were: {text}"))
        return found


class LimitedHandler(logging.StreamHandler["TextIO"]):
    """Writes the log to a stream, with equal lines limited."""

    def __init__(self, stream: TextIO, limit: RepeatLimit | None = None) -> None:
        super().__init__(stream)
        self._limit = RepeatLimit() if limit is None else limit

    def emit(self, record: logging.LogRecord) -> None:
        self._say_what_was_left_out()
        if self._limit.allows(record.levelno, record.getMessage()):
            super().emit(record)

    def close(self) -> None:
        self._say_what_was_left_out(all_of_them=True)
        super().close()

    def _say_what_was_left_out(self, *, all_of_them: bool = False) -> None:
        for level, text in self._limit.left_out(all_of_them=all_of_them):
            super().emit(_record(level, text))


def _record(level: int, text: str) -> logging.LogRecord:
    """Return a record about the log itself."""
    line = {"name": __name__, "levelno": level, "msg": text}
    line["levelname"] = logging.getLevelName(level)
    return logging.makeLogRecord(line)
