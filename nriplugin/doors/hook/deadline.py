"""A limit on our own time: a runtime kills a hook that is late, and its container."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Some hundred times what a container takes on a real node.
SECONDS = 10.0
# What the runtime is told: longer, so that we end by ourselves, even where Python takes
# seconds to start.
RUNTIME_SECONDS = 30


class Overdue(BaseException):
    """Too late. Not an Exception: no handler's failure, to be noted and gone past."""


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise Overdue in here when the time is over, whatever is being waited for."""

    def ring(*_: object) -> None:
        raise Overdue(f"not done after {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)
