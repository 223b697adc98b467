"""The time limit that the hook sets itself.

A runtime kills a hook that exceeds the timeout in hooks.d, and does not start the
container. The hook therefore gives up earlier, by a signal that interrupts whatever
system call it waits in, and the container starts with the runtime's own values.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# About two hundred times what one container takes on a real node. On an emulated node
# of a busy machine, half of this was not enough.
SECONDS = 20.0
# The timeout that hooks.d tells the runtime. It is longer than SECONDS, so that the
# hook gives up by itself even on a machine where Python takes seconds to start.
RUNTIME_SECONDS = 60


class DeadlinePassed(BaseException):
    """The hook's time is over.

    Not an Exception: the engine catches every Exception of a handler and goes on with
    the next handler, and the deadline must end all of them.
    """


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raise DeadlinePassed out of the block when the time is over."""
    passed: DeadlinePassed | None = None

    def raise_passed(*_: object) -> None:
        nonlocal passed
        passed = DeadlinePassed(f"not done after {seconds:g} seconds")
        raise passed

    before = signal.signal(signal.SIGALRM, raise_passed)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except BaseException as exc:
        # Python turns an exception in `__set_name__` into a RuntimeError, so the signal
        # may come out as one if it arrives while an import makes a class.
        if passed is not None and exc is not passed:
            raise passed from exc
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)
