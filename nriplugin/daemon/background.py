"""The background thread, which does the work that no request may wait for.

It implements the `Scheduler` of state/scheduler.py: jobs that run soon, after a time, a
few per second, or periodically. All jobs run on one thread, one at a time, so two jobs
never need a lock against each other. The first job starts the thread; a daemon without
jobs has no such thread.
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

# How long the end of the process waits for jobs. kubelet and systemd give a process
# longer than that before they kill it.
STOP_LIMIT_S = 5.0


class BackgroundThread:
    """Runs jobs one at a time. Any thread may hand over jobs."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._soon: SimpleQueue[Job] = SimpleQueue()
        # Guards the fields below, which callers and the background thread both change.
        self._lock = threading.Lock()
        self._paced: deque[Job] = deque()
        self._pause_s = 0.0
        self._next_paced = 0.0
        self._timed: list[tuple[float, int, Job]] = []
        self._serial = count()  # orders jobs that are due at the same time
        # By name: the job, its period, and when it is due.
        self._periodic: dict[str, tuple[Job, float, float]] = {}
        # When the present job began, on this object's clock; None between two jobs. A
        # job that takes minutes shows that the thread is stuck.
        self.busy_since: float | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._until = 0.0  # when stopping: no job begins after this

    def soon(self, job: Job) -> None:
        """Run a job as soon as the jobs before it are done."""
        self._soon.put(job)
        self._start()

    def paced(self, jobs: Iterable[Job], per_second: int) -> None:
        """Run jobs one by one, so many per second, in place of earlier paced ones."""
        with self._lock:
            self._paced = deque(jobs)
            self._pause_s = 1 / per_second
            self._next_paced = self._clock() + self._pause_s
        if self._paced:
            self.soon(_look_at_the_time)

    def after(self, seconds: float, job: Job) -> None:
        """Run a job once, after so many seconds."""
        with self._lock:
            heappush(self._timed, (self._clock() + seconds, next(self._serial), job))
        self.soon(_look_at_the_time)

    def every(self, seconds: float, job: Job | None, name: str) -> None:
        """Run a job periodically, in place of the earlier one of this name.

        None in place of a job ends that.
        """
        with self._lock:
            self._periodic.pop(name, None)
            if job is not None:
                self._periodic[name] = job, seconds, self._clock() + seconds
        if job is not None:
            self.soon(_look_at_the_time)

    def stop(self, limit_s: float = STOP_LIMIT_S) -> bool:
        """End the thread, if it was started, after the jobs that are to run soon.

        These finish requests that were answered: they store records and do the last
        direct writes of an update. All other jobs are dropped, and so are those that
        have not begun after `limit_s`. Returns whether the thread has ended by then.
        """
        with self._lock:
            self._until = self._clock() + limit_s
            self._stopping = True
            thread = self._thread
        if thread is None:
            return True
        self._soon.put(_look_at_the_time)
        thread.join(limit_s)
        ended, waiting = not thread.is_alive(), self._soon.qsize()
        if not ended:
            _log.warning("a background job does not end; %d others wait", waiting)
        elif waiting:
            _log.warning("%d background jobs were dropped", waiting)
        return ended

    @property
    def busy_s(self) -> float:
        """Return for how many seconds the present job has been running; 0 if none."""
        began = self.busy_since
        return 0.0 if began is None else self._clock() - began

    @property
    def has_died(self) -> bool:
        """Return whether the thread has ended although nobody stopped it."""
        thread = self._thread
        return thread is not None and not (thread.is_alive() or self._stopping)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._stopping:
                self._thread = threading.Thread(
                    target=self._run, name="background", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                job = self._soon.get(timeout=self._seconds_to_next())
            except Empty:
                if self._stopping:
                    return
                job = self._due()
            if self._stopping and self._clock() >= self._until:
                return
            self.busy_since = self._clock()
            try:
                job()
            except Exception:  # noqa: BLE001 - the next job must run all the same
                _log.exception("a background job failed")
            self.busy_since = None

    def _seconds_to_next(self) -> float | None:
        if self._stopping:
            return 0.0
        with self._lock:
            times = [self._next_paced] if self._paced else []
            times += [due for _, _, due in self._periodic.values()]
            times += [self._timed[0][0]] if self._timed else []
        return max(0.0, min(times) - self._clock()) if times else None

    def _due(self) -> Job:
        with self._lock:
            now = self._clock()
            if self._timed and now >= self._timed[0][0]:
                return heappop(self._timed)[2]
            if self._paced and now >= self._next_paced:
                self._next_paced = now + self._pause_s
                return self._paced.popleft()
            for name, (job, period_s, due) in self._periodic.items():
                if now >= due:
                    self._periodic[name] = job, period_s, now + period_s
                    return job
        return _look_at_the_time


def _look_at_the_time() -> None:
    """Do nothing: the job only wakes the thread, so that it computes its next wait."""
