"""Logs what went wrong with writes, and what they are worth, for doors that go on."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.updates import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.cgroup.writing.updates import Outcome
    from nriplugin.node.protection import Gap

_log = logging.getLogger(__name__)


def tell(outcomes: Iterable[Outcome]) -> None:
    """Log what went wrong; a cgroup that is gone is nothing wrong."""
    for outcome in outcomes:
        if not outcome.ok and outcome.status is not Status.GONE:
            _log.warning(
                "%s: %s: %s: %s",
                *(outcome.path, outcome.content),
                *(outcome.status, outcome.reason or "refused"),
            )


class GapWarnings:
    """Logs each reason for protection without effect once, not for every container."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, bool]] = set()
        self._lock = threading.Lock()  # the CRI door calls from many threads

    def tell(self, gaps: Iterable[Gap]) -> None:
        """Log the gaps whose reason is new on this node."""
        for gap in gaps:
            with self._lock:
                new = gap.reason not in self._told
                self._told.add(gap.reason)
            if new:
                _log.warning("%s", gap.text)
