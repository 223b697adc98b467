"""Serves the runtime while a plugin's handler is late.

The runtime drops a plugin that does not answer in time, and every container start on
the node waits until then. So the late request gets the answer of `fallback.py`, and
every question that arrives before the handler returns gets such an answer at once.
Events are answered, too, and kept: the request thread hands them to the plugin later.

Who owns the socket: the request thread until its handler is late, then the watchdog's
thread in `InterimServer.serve`, then the request thread again. The way back has two
steps, so that the two threads never read at once: `take_back` (request thread) wakes
`serve` and blocks, and `give_back` (watchdog's thread, after `serve` has returned)
lets `take_back` return. The answer that the late handler returns in the end is dropped.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.errors import ConnectionClosed, RemoteProtocolError
from nriplugin.nri.dispatch import is_event
from nriplugin.wire.ttrpc import Answer, Call, Code, RefusedCall

if TYPE_CHECKING:
    from nriplugin.nri.connection import Connection
    from nriplugin.nri.fallback import Fallback
    from nriplugin.nri.stats import Stats

# So many events are kept for a plugin at most, which bounds memory. They are kept
# because a plugin that misses one does not know which containers exist.
MAX_KEPT = 1000


class DeferredEvent(NamedTuple):
    """An event that was answered while a handler was late, for the plugin to handle."""

    call: Call


class InterimServer:
    """Serves from the moment one handler is late until that handler returns."""

    def __init__(
        self, connection: Connection, fallback: Fallback, stats: Stats
    ) -> None:
        self._connection = connection
        self._fallback = fallback
        self._stats = stats
        # Readable once the handler has returned. A descriptor and not an Event, so that
        # `serve` can wait for it and for the socket in one poll.
        self._returned = os.eventfd(0)
        self._given_back = threading.Event()
        self._kept: list[DeferredEvent | Answer] = []

    def answer(self, call: Call) -> None:
        """Answer a request in place of the plugin's handler.

        Raises:
            ConnectionClosed: the runtime is gone.
        """
        late = Code.DEADLINE_EXCEEDED, "the plugin's handler is late"
        self._connection.send(self._fallback.reply_to(call, *late))

    def serve(self) -> list[DeferredEvent | Answer]:
        """Serve until the handler returns; return the work for the request thread.

        That is events for the plugin, and answers to calls that the plugin has made.
        """
        arrived: deque[Call | RefusedCall | Answer] = deque()
        poll = select.poll()
        poll.register(self._returned, select.POLLIN)
        poll.register(self._connection, select.POLLIN)
        while all(fd != self._returned for fd, _ in poll.poll()):
            try:
                call = self._connection.receive(arrived)
                if call is not None:
                    self._take(call)
                while arrived:
                    self._take(arrived.popleft())
            except (ConnectionClosed, RemoteProtocolError):
                # From here on only wait for the handler. The request thread reads the
                # same end of the connection afterwards and reports it.
                poll.unregister(self._connection)
        return self._kept

    def give_back(self) -> None:
        """On the watchdog's thread: let the request thread have the socket again."""
        self._given_back.set()

    def take_back(self) -> None:
        """On the request thread, when the handler has returned: wait for the socket."""
        os.eventfd_write(self._returned, 1)
        self._given_back.wait()
        os.close(self._returned)

    def _take(self, event: Call | RefusedCall | Answer) -> None:
        if isinstance(event, RefusedCall):
            self._connection.send(self._connection.failure(*event))
        elif isinstance(event, Answer):
            self._kept.append(event)
        else:
            self._stats.deferred += 1
            if is_event(event.method) and len(self._kept) < MAX_KEPT:
                self._kept.append(DeferredEvent(event))
            else:
                self._stats.lost += 1
            self.answer(event)
