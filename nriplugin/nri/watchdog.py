"""Notices a request that takes too long, at no cost to those that do not.

A late answer makes the runtime drop the plugin, and until then every container start
on the node waits. The request thread only stores a deadline; a thread of the
watchdog's own wakes up now and then to look at it. It never sleeps past a deadline
that was there when it fell asleep, and a request that comes later has a later one,
unless its caller was in a hurry: then `begin` wakes it.
"""

from __future__ import annotations

import threading
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# A slow request is answered for at this share of the time the runtime allows.
SHARE = 0.75

NO_DEADLINE = inf


class Watchdog:
    """Calls `on_late`, on its own thread, when a deadline passes."""

    def __init__(self, on_late: Callable[[], None], request_timeout_s: float) -> None:
        self._budget_s = SHARE * request_timeout_s
        self._on_late = on_late
        # Of the request under way. Whoever called `begin` sets it to NO_DEADLINE at the end.
        self.deadline = NO_DEADLINE
        self._wakes_at = inf
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(
            target=self._watch, name="nri-watchdog", daemon=True
        )

    def start(self) -> None:
        """Start watching."""
        self._thread.start()

    def allow(self, request_timeout_s: float) -> None:
        """Take note of how long the runtime waits for an answer."""
        self._budget_s = SHARE * request_timeout_s
        self._wake.set()

    def close(self) -> None:
        """Stop watching and wait for the thread."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    def begin(self, timeout_ns: int) -> None:
        """Watch the request that begins now; its caller waits `timeout_ns` if not 0."""
        budget_s = timeout_ns * (SHARE * 1e-9) or self._budget_s
        if budget_s > self._budget_s:
            budget_s = self._budget_s
        self.deadline = deadline = monotonic() + budget_s
        if deadline < self._wakes_at - 0.001:
            self._wake.set()

    def _watch(self) -> None:
        while not self._closed:
            now = monotonic()
            if self.deadline <= now:
                self._on_late()
                continue
            # Order matters: publish when we wake, then look at the deadline again, so
            # that a request beginning right now sees the one or is seen by the other.
            self._wakes_at = now + self._budget_s
            self._wakes_at = min(self._wakes_at, self.deadline)
            self._wake.wait(self._wakes_at - now)
            self._wake.clear()
