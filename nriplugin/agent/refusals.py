"""Counts what was refused, and says so without flooding anybody's log.

The path of a container start must not wait for a log, and a controller that makes the
same wrong pod again and again must not fill a disk.
"""

from __future__ import annotations

import logging
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nriplugin.engine.decision import Decision

_log = logging.getLogger(__name__)

# Lines at once, and after that lines per second.
BURST = 20
PER_SECOND = 1.0


class Refusals:
    """Refusals and warnings of all decisions; read `counts` from any thread."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        # (handler, reason) -> how many.
        self.counts: Counter[tuple[str, str]] = Counter()
        self._clock = clock
        self._allowed = float(BURST)
        self._last = clock()
        self._unsaid = 0

    def note(self, who: str, decision: Decision) -> None:
        """Take note of what a decision about a container says."""
        for handler, reason, text in decision.refused:
            self.counts[handler, reason.value] += 1
            self._say("%s: refused: %s: %s", who, handler, text)
        self.warn(who, decision.warnings)

    def warn(self, who: str, warnings: Iterable[str]) -> None:
        """Say what may hurt a container."""
        for text in warnings:
            self._say("%s: %s", who, text)

    def _say(self, line: str, *args: str) -> None:
        now = self._clock()
        self._allowed = min(BURST, self._allowed + (now - self._last) * PER_SECOND)
        self._last = now
        if self._allowed < 1:
            self._unsaid += 1
            return
        self._allowed -= 1
        if self._unsaid:
            _log.warning("%d lines like the next were left out", self._unsaid)
            self._unsaid = 0
        _log.warning(line, *args)
