"""One thread for what no request should wait for: late writes, adoption, repair.

It is started by the first job, so a plugin that has none has no thread either.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from heapq import heappop, heappush
from itertools import count
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Job = Callable[[], None]

_log = logging.getLogger(__name__)


class Keeper:
    """Runs jobs one at a time: soon, later, a few per second, or again and again."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._soon: SimpleQueue[Job] = SimpleQueue()
        # Guards the rest, which two threads change.
        self._lock = threading.Lock()
        self._later: deque[Job] = deque()
        self._pause_s = 0.0
        self._next_later = 0.0
        self._timed: list[tuple[float, int, Job]] = []
        self._serial = count()  # of two at the same time, the first
        self._again: Job | None = None
        self._every_s = 0.0
        self._next_again = 0.0
        self._thread: threading.Thread | None = None
        self._stopping = False

    def soon(self, job: Job) -> None:
        """Run a job as soon as those before it are done."""
        self._soon.put(job)
        self._start()

    def paced(self, jobs: Iterable[Job], per_second: int) -> None:
        """Run jobs one by one, so many per second, in place of earlier ones."""
        with self._lock:
            self._later = deque(jobs)
            self._pause_s = 1 / per_second
            self._next_later = self._clock() + self._pause_s
        if self._later:
            self.soon(_nothing)

    def after(self, seconds: float, job: Job) -> None:
        """Run a job when so much time has passed."""
        with self._lock:
            heappush(self._timed, (self._clock() + seconds, next(self._serial), job))
        self.soon(_nothing)

    def every(self, seconds: float, job: Job | None) -> None:
        """Run a job again and again, in place of an earlier one; None ends that."""
        with self._lock:
            if self._again is not None or job is not None:
                self._again, self._every_s = job, seconds
                self._next_again = self._clock() + seconds
        if job is not None:
            self.soon(_nothing)

    def stop(self) -> None:
        """End the thread, if there is one, after the job under way; others are lost."""
        with self._lock:
            self._stopping = True
            thread = self._thread
        if thread is not None:
            self._soon.put(_nothing)
            thread.join()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(
                    target=self._run, name="keeper", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                job = self._soon.get(timeout=self._patience_s())
            except Empty:
                job = self._due()
            if self._stopping:
                return
            try:
                job()
            except Exception:  # noqa: BLE001 - one job's failure is its own
                _log.exception("a job of the keeper failed")

    def _patience_s(self) -> float | None:
        with self._lock:
            times = [self._next_later] if self._later else []
            times += [self._next_again] if self._again is not None else []
            times += [self._timed[0][0]] if self._timed else []
        return max(0.0, min(times) - self._clock()) if times else None

    def _due(self) -> Job:
        with self._lock:
            now = self._clock()
            if self._timed and now >= self._timed[0][0]:
                return heappop(self._timed)[2]
            if self._later and now >= self._next_later:
                self._next_later = now + self._pause_s
                return self._later.popleft()
            if self._again is not None and now >= self._next_again:
                self._next_again = now + self._every_s
                return self._again
        return _nothing


def _nothing() -> None:
    """Wake the thread, so that it looks at the time again."""
