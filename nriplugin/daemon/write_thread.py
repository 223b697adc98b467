"""The thread that writes what background work submits (cgroup/writing/queue.py).

A write may block for as long as the kernel reclaims memory or systemd does not answer.
The background thread, which also compares files, stores records and reads kubelet's
checkpoint, must not wait for that.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nriplugin.cgroup.writing.queue import WriteQueue

_log = logging.getLogger(__name__)

# How long the end of the process waits for the write that is under way.
END_LIMIT_S = 5.0


class WriteThread:
    """Writes a queue until it is ended."""

    def __init__(self, queue: WriteQueue) -> None:
        """Begin to write."""
        self._queue = queue
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=queue.run, args=(self._stop,), name="direct writes", daemon=True
        )
        self._thread.start()

    @property
    def busy_s(self) -> float:
        """Return for how many seconds the write under way takes; 0 if there is none."""
        return self._queue.busy_s

    @property
    def has_died(self) -> bool:
        """Return whether the thread has ended although nobody ended it."""
        return not (self._thread.is_alive() or self._stop.is_set())

    def end(self, limit_s: float = END_LIMIT_S) -> bool:
        """Finish the write that is under way, and drop what waits.

        What is dropped has drifted still when the next process looks. Returns whether
        the thread has ended.
        """
        self._stop.set()
        self._queue.wake()
        self._thread.join(limit_s)
        ended = not self._thread.is_alive()
        if not ended:
            _log.warning(
                "a direct write does not end; %d others wait", len(self._queue)
            )
        return ended
