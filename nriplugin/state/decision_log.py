"""Counts what was refused, and says so without flooding anybody's log.

The path of a container start must not wait for a log, and a controller that makes the
same wrong pod again and again must not fill a disk.
"""

from __future__ import annotations

import logging
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from nriplugin.loglimit import LimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nriplugin.engine.decision import Decision

_log = logging.getLogger(__name__)


class Refusals:
    """Refusals and warnings of all decisions; read `counts` from any thread."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        # (handler, reason) -> how many.
        self.counts: Counter[tuple[str, str]] = Counter()
        self._limited = LimitedLog(_log, clock)

    def note(self, who: str, decision: Decision) -> None:
        """Take note of what a decision about a container says."""
        for handler, reason, text in decision.refused:
            self.counts[handler, reason.value] += 1
            line = "%s: refused: %s: %s"
            self._limited.log(logging.WARNING, line, who, handler, text)
        self.warn(who, decision.warnings)

    def warn(self, who: str, warnings: Iterable[str]) -> None:
        """Say what may hurt a container."""
        for text in warnings:
            self._limited.log(logging.WARNING, "%s: %s", who, text)
