"""Notices a request that takes too long, at no cost to those that do not.

A late answer makes the runtime drop the plugin, and until then every container start
on the node waits. The request thread only stores a deadline; a thread of the
watchdog's own wakes up once per budget to look at it. A request that begins while it
sleeps has a deadline after it wakes up, so none is missed and none is noticed late.
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
    """Calls `on_late`, on its own thread, when a deadline passes.

    The request thread sets `deadline` to now plus `budget_s` when a request begins,
    and to NO_DEADLINE when it ends: two stores, because it does so for every one.
    """

    def __init__(self, on_late: Callable[[], None], request_timeout_s: float) -> None:
        self.budget_s = SHARE * request_timeout_s
        self.deadline = NO_DEADLINE
        self._on_late = on_late
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
        self.budget_s = SHARE * request_timeout_s
        self._wake.set()

    def hurry(self, timeout_ns: int) -> None:
        """Shorten the time of the request under way: its caller waits only so long."""
        if timeout_ns:
            self.deadline = min(self.deadline, monotonic() + SHARE * 1e-9 * timeout_ns)
            self._wake.set()

    def close(self) -> None:
        """Stop watching and wait for the thread."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed:
            now = monotonic()
            if self.deadline <= now:
                self._on_late()
                continue
            self._wake.wait(min(self.deadline - now, self.budget_s))
            self._wake.clear()
