"""Logs failed direct writes, and protection that has no effect.

A door goes on after a failed direct write, because the container can run without that
value. So the failure is only logged. If the cgroup was removed meanwhile, nothing is
logged, because the container has ended.
"""

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

# The container has ended, or another thread has written since.
_EXPECTED = (Status.GONE, Status.SUPERSEDED, Status.DROPPED)


def log_failures(outcomes: Iterable[Outcome]) -> None:
    """Log the writes that failed or were refused."""
    for outcome in outcomes:
        if not outcome.ok and outcome.status not in _EXPECTED:
            _log.warning(
                "direct write: %s: %s: %s: %s",
                *(outcome.path, outcome.content),
                *(outcome.status, outcome.reason or "refused"),
            )


class ProtectionWarnings:
    """Logs each reason for protection without effect once, not for every container."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str, bool]] = set()
        self._lock = threading.Lock()  # the CRI door calls from many threads

    def log(self, gaps: Iterable[Gap]) -> None:
        """Log the gaps whose reason was not logged before on this node."""
        for gap in gaps:
            with self._lock:
                new = gap.reason not in self._logged
                self._logged.add(gap.reason)
            if new:
                _log.warning("%s", gap.text)
