"""Answers the runtime while a plugin's handler is late.

The runtime drops a plugin that does not answer in time, and stalls every container
start on the node until then. So the request that is late gets the answer of fallback.py
instead, and so does every question that follows, at once. Events are answered too, and
kept for the plugin. All of this happens on the watchdog's thread while the request
thread is stuck in the handler, so only one of them uses the socket at a time.
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

# Events kept for the plugin, so that its inventory stays right.
MAX_KEPT = 1000


class DeferredEvent(NamedTuple):
    """An event that was answered already and is yet to be handled."""

    call: Call


class InterimServer:
    """Serves from the moment a handler is late until it returns."""

    def __init__(
        self, connection: Connection, fallback: Fallback, stats: Stats
    ) -> None:
        self._connection = connection
        self._fallback = fallback
        self._stats = stats
        self._back = os.eventfd(0)
        self._relieved = threading.Event()
        self._kept: list[DeferredEvent | Answer] = []

    def answer(self, call: Call) -> None:
        """Answer a request without the handler.

        Raises:
            ConnectionClosed: there is nobody to answer to.
        """
        late = Code.DEADLINE_EXCEEDED, "the plugin's handler is late"
        self._connection.send(self._fallback.reply_to(call, *late))

    def serve(self) -> list[DeferredEvent | Answer]:
        """Block until the handler is back; return what is left for the plugin."""
        arrived: deque[Call | RefusedCall | Answer] = deque()
        poll = select.poll()
        poll.register(self._back, select.POLLIN)
        poll.register(self._connection, select.POLLIN)
        while all(fd != self._back for fd, _ in poll.poll()):
            try:
                call = self._connection.receive(arrived)
                if call is not None:
                    self._take(call)
                while arrived:
                    self._take(arrived.popleft())
            except (ConnectionClosed, RemoteProtocolError):
                # The request thread will find out by itself, when it is back.
                poll.unregister(self._connection)
        return self._kept

    def relieve(self) -> None:
        """Let the request thread have the socket again."""
        self._relieved.set()

    def handler_is_back(self) -> None:
        """On the request thread: take over again."""
        os.eventfd_write(self._back, 1)
        self._relieved.wait()
        os.close(self._back)

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
