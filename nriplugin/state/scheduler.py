"""The interface by which doors and state hand over work that no request may wait for.

The daemon's background thread (daemon/background.py) implements it. Jobs run one at a
time on a thread that serves no requests. If a job raises, the error is logged and the
other jobs run as usual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Scheduler(Protocol):
    """Runs jobs on a thread of its own. Any thread may call it."""

    def soon(self, job: Callable[[], None]) -> None:
        """Run a job as soon as the jobs before it are done."""

    def paced(self, jobs: Iterable[Callable[[], None]], per_second: int) -> None:
        """Run jobs one by one, so many per second, in place of earlier paced ones."""

    def after(self, seconds: float, job: Callable[[], None]) -> None:
        """Run a job once, after so many seconds."""

    def every(self, seconds: float, job: Callable[[], None] | None, name: str) -> None:
        """Run a job periodically, in place of the earlier one of this name.

        None in place of a job ends that.
        """

    def stop(self) -> bool:
        """Finish the jobs that are to run soon, and drop all others.

        Returns whether they have ended within a few seconds.
        """
