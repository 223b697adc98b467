"""Finds out whether all threads of a pool are held by jobs that do not come back.

A call does not wait for its decision longer than its budget, and then the job goes on
without it. A job that hangs keeps its thread, and when every thread of the pool is kept
so, no decision is made any more, although calls are still forwarded.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future


class OverdueJobs:
    """The jobs of one pool that are still running after their call went on."""

    def __init__(self, threads: int, clock: Callable[[], float] = monotonic) -> None:
        """Watch a pool that has so many threads."""
        self._threads = threads
        self._clock = clock
        self._jobs: list[tuple[float, Future[Any]]] = []
        self._lock = threading.Lock()  # calls are served on many threads

    def add(self, job: Future[Any]) -> None:
        """Take note of a job that its call waits for no longer."""
        with self._lock:
            self._forget_done()
            self._jobs.append((self._clock(), job))

    @property
    def occupied_s(self) -> float:
        """Return for how many seconds no thread has been free; 0 if one is."""
        with self._lock:
            self._forget_done()
            # The others wait in the pool's queue and hold no thread.
            holding = [since for since, job in self._jobs if job.running()]
            full = len(holding) >= self._threads
            return self._clock() - max(holding) if full else 0.0

    def _forget_done(self) -> None:
        self._jobs = [one for one in self._jobs if not one[1].done()]
