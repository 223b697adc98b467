"""Notices a request that takes too long, at almost no cost to the other requests.

A late answer makes the runtime drop the plugin, and until then every container start
on the node waits. The request thread only stores a deadline; it takes no lock and
wakes no thread, because every request would pay for that.

The watchdog's own thread wakes up at the deadline that it saw last, and at least once
per budget. No deadline is missed: a request that begins while the thread sleeps has its
deadline one whole budget later, and by then the thread has woken up and seen it.
"""

from __future__ import annotations

import threading
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# The watchdog answers when this share of the runtime's request timeout has passed. The
# last quarter is for waking up, for building the fallback answer and for the socket.
SHARE = 0.75

NO_DEADLINE = inf


class Watchdog:
    """Calls `on_late`, on its own thread, when a deadline passes.

    The request thread sets `deadline` to now plus `budget_s` when a request begins and
    to NO_DEADLINE when it ends: two plain stores, because this is on the path of every
    request. `on_late` has to look again whether the request is still under way.
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
        """Start the watchdog's thread."""
        self._thread.start()

    def allow(self, request_timeout_s: float) -> None:
        """Set the budget of all further requests from the runtime's request timeout."""
        self.budget_s = SHARE * request_timeout_s
        self._wake.set()

    def hurry(self, timeout_ns: int) -> None:
        """Shorten the deadline of the request under way to its caller's own timeout.

        A `timeout_ns` of 0 means that the caller gave none.
        """
        if timeout_ns:
            self.deadline = min(self.deadline, monotonic() + SHARE * 1e-9 * timeout_ns)
            self._wake.set()

    def close(self) -> None:
        """Stop the watchdog's thread and wait for its end."""
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
