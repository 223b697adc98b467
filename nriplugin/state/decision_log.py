"""Counts and logs the refusals and warnings in decisions, at a limited rate.

A refusal is a setting or annotation that a handler did not follow. A request must not
wait for the log, and a controller that creates the same wrong pod again and again must
not fill the disk. So every refusal is counted, and only some of them are logged.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from nriplugin.loglimit import LimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nriplugin.engine.decision import Decision

_log = logging.getLogger(__name__)


class DecisionLog:
    """Refusals and warnings of all decisions; any thread may call it."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        # How many refusals there were, by handler and reason.
        self.refusals: Counter[tuple[str, str]] = Counter()
        self._limited = LimitedLog(_log, clock)
        # The CRI door calls from many threads. The lock is for counting, not for
        # logging: a thread that logs must not make others wait.
        self._lock = threading.Lock()

    def note(self, path: str, decision: Decision) -> None:
        """Count and log the refusals and warnings in a decision about a container."""
        if decision.refused:
            with self._lock:
                for handler, reason, _ in decision.refused:
                    self.refusals[handler, reason.value] += 1
            for handler, _, text in decision.refused:
                line = "%s: refused: %s: %s"
                self._limited.log(logging.WARNING, line, path, handler, text)
        self.note_warnings(path, decision.warnings)

    def note_warnings(self, path: str, warnings: Iterable[str]) -> None:
        """Log warnings about a container, such as a memory.high below its use."""
        for text in warnings:
            self._limited.log(logging.WARNING, "%s: %s", path, text)
