"""Where the doors leave work that no request may wait for.

The daemon's background thread implements the protocol. Jobs run one at a time and in
order, on a thread that is not the request thread; a job that raises loses only itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Scheduler(Protocol):
    """Runs jobs beside the request thread."""

    def soon(self, job: Callable[[], None]) -> None:
        """Run a job as soon as the jobs before it are done."""

    def paced(self, jobs: Iterable[Callable[[], None]], per_second: int) -> None:
        """Run jobs one by one, so many per second, in place of earlier paced ones."""

    def after(self, seconds: float, job: Callable[[], None]) -> None:
        """Run a job when so much time has passed."""

    def every(self, seconds: float, job: Callable[[], None] | None) -> None:
        """Run a job periodically, in place of the earlier one; None ends that."""

    def stop(self) -> None:
        """End after the job that is running; all other jobs are dropped."""
