"""Limits the rate of log lines that requests cause.

A user who may create pods may create invalid ones as fast as the API server lets them,
and each may cause a warning. The limit keeps that from filling the node's disk: a burst
of 20 lines, then one per second, and a count of those left out.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Mapping

# How many lines may come at once, and how many per second after that, unless a caller
# gives other numbers.
BURST = 20
PER_SECOND = 1.0


class LimitedLog:
    """A token bucket in front of a logger.

    Not locked: two threads that log at the same time may miscount the lines left out.
    """

    def __init__(
        self,
        log: logging.Logger,
        clock: Callable[[], float] = monotonic,
        *,
        burst: int = BURST,
        per_second: float = PER_SECOND,
    ) -> None:
        """Allow so many lines at once, and so many per second after that."""
        self._log = log
        self._clock = clock
        self._burst = burst
        self._per_second = per_second
        self._allowed = float(burst)
        self._last = clock()
        self._left_out = 0

    def log(
        self,
        level: int,
        line: str,
        *args: object,
        exc_info: Exception | None = None,
        extra: Mapping[str, object] | None = None,
    ) -> None:
        """Log a line, or count it as left out."""
        now = self._clock()
        gained = (now - self._last) * self._per_second
        self._allowed = min(self._burst, self._allowed + gained)
        self._last = now
        if self._allowed < 1:
            self._left_out += 1
            return
        self._allowed -= 1
        if self._left_out:
            self._log.log(level, "%d lines like the next were left out", self._left_out)
            self._left_out = 0
        self._log.log(level, line, *args, exc_info=exc_info, extra=extra)
