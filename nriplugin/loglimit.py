"""A log that requests write to: as many lines as a reader can use, and no more.

Whoever may make pods may make them wrong, again and again; that must not fill a disk.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

# Lines at once, and after that lines per second.
BURST = 20
PER_SECOND = 1.0


class LimitedLog:
    """Logs a burst of lines, then some per second, and the number of those left out.

    For one thread: two at once may miscount the lines left out.
    """

    def __init__(
        self, log: logging.Logger, clock: Callable[[], float] = monotonic
    ) -> None:
        self._log = log
        self._clock = clock
        self._allowed = float(BURST)
        self._last = clock()
        self._left_out = 0

    def log(
        self, level: int, line: str, *args: object, exc_info: Exception | None = None
    ) -> None:
        """Log a line, or count it."""
        now = self._clock()
        self._allowed = min(BURST, self._allowed + (now - self._last) * PER_SECOND)
        self._last = now
        if self._allowed < 1:
            self._left_out += 1
            return
        self._allowed -= 1
        if self._left_out:
            self._log.log(level, "%d lines like the next were left out", self._left_out)
            self._left_out = 0
        self._log.log(level, line, *args, exc_info=exc_info)
