"""Stops a command on SIGTERM or SIGINT: a flag that a signal handler may set.

Python runs a signal handler on the main thread, between any two instructions of the
code that it interrupts. If that code is inside `threading.Event.wait`, it may hold the
event's lock, and `Event.set` in the handler would wait for that lock for ever. So the
flag is built on `SimpleQueue`, whose `put` is documented to be reentrant.

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
        """Set the flag; any thread may do so, and any signal handler."""
        self._is_set = True
        self._wakes.put(None)

    def is_set(self) -> bool:
        """Whether the flag was set."""
        return self._is_set

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the flag is set or time is over; return whether it is set."""
        if not self._is_set:
            with suppress(Empty):
                self._wakes.get(timeout=timeout_s)
        return self._is_set


@contextmanager
def stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` on the first SIGTERM or SIGINT; the second kills the process.

    `stop` may be called twice for one signal: by the handler on the main thread, and by
    the listening thread, which alone can do it while the main thread is blocked. On
    another thread than the main thread this does nothing, because only the main thread
    may install signal handlers; the program then handles signals there.
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
