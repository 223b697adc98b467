"""Ends a command on SIGTERM or SIGINT, from within a signal handler.

Python runs a signal handler on the main thread, between any two steps of whatever that
thread does. If it is inside `threading.Event.wait`, it may hold the event's lock, and
`Event.set` in the handler would wait for that lock for ever. `SimpleQueue.put` has no
such lock: it is made to interrupt itself.

A signal that arrives just before the main thread blocks in a system call, or that the
kernel delivers to another thread, does not interrupt that call, and Python would run
the handler only after it. So a second thread listens as well: the interpreter's C
handler writes every signal's number to a socket at once, on whichever thread it runs.
"""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


class StopFlag:
    """A flag that a signal handler may set, and for which one thread may wait."""

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Wake the waiting thread for good; from any thread or signal handler."""
        self._is_set = True
        self._wakes.put(None)

    def is_set(self) -> bool:
        """Whether the flag was set."""
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the flag is set, or for so long; whether it is set."""
        if not self._is_set:
            with suppress(Empty):
                self._wakes.get(timeout=timeout_s)
        return self._is_set


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the first SIGTERM or SIGINT; the second ends the process at once.

    `stop` may be called twice for one signal: by the handler on the main thread, and by
    the listening thread, which alone can do it while the main thread is blocked.
    Outside of the main thread, which alone may install handlers, nothing is done: the
    caller's main thread has handlers of its own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    numbers = signal.SIGTERM, signal.SIGINT
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def listen() -> None:
        while received := reader.recv(64):
            if any(number in numbers for number in received):
                stop()

    listener = threading.Thread(target=listen, name="signals", daemon=True)
    listener.start()
    before_fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    before = [signal.signal(number, on_signal) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(before_fd)
        writer.close()  # which ends the listener: it reads the end of the stream
        listener.join()
        reader.close()
