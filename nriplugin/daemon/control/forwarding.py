"""Forwards the bytes of a client's connection to a gRPC server in this process.

gRPC's servers for Python accept connections only themselves. So the listener accepts in
their place, and what a client sends is handed on over a second unix socket, which only
this process can reach. Each direction holds at most one buffer: as long as one side
does not read, nothing more is read from the other, and other connections go on.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selectors import BaseSelector

    from nriplugin.daemon.control.peers import Access

BUFFER_BYTES = 32 * 1024


class _Direction:
    """The way from one socket to the other."""

    __slots__ = ("ended", "pending", "sink", "source")

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.pending = memoryview(b"")  # what was read, and is still to be sent
        self.ended = False  # the source sends no more

    @property
    def done(self) -> bool:
        return self.ended and not self.pending

    def receive(self) -> None:
        data = self.source.recv(BUFFER_BYTES)
        self.pending, self.ended = memoryview(data), not data
        self.send()

    def send(self) -> None:
        if self.pending:
            with suppress(BlockingIOError):
                self.pending = self.pending[self.sink.send(self.pending) :]
        if self.done:
            self.sink.shutdown(socket.SHUT_WR)


class ForwardedConnection:
    """A client's connection and the one to the server that stands for it."""

    def __init__(
        self,
        selector: BaseSelector,
        client: socket.socket,
        server_path: str,
        access: Access,
    ) -> None:
        """Connect to the server at a path; the connection then owns `client`.

        `access` is only kept, for the listener to count by.

        Raises:
            OSError: the server does not accept.
        """
        self._selector = selector
        self._client = client
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A unix socket connects at once, or fails if the server's queue is full.
            self._server.setblocking(False)
            client.setblocking(False)
            self._server.connect(server_path)
        except BaseException:
            self._server.close()
            raise
        self._forth = _Direction(client, self._server)
        self._back = _Direction(self._server, client)
        self.access = access
        self._events = {client: 0, self._server: 0}
        self._watch()

    def ready(self, one: socket.socket, events: int) -> bool:
        """Go on with a socket that is ready; return whether the connection lives."""
        if one not in self._events:  # closed by an earlier event of the same round
            return False
        out, into = self._forth, self._back
        if one is self._server:
            out, into = into, out
        try:
            # The buffers are looked at again: an earlier event of the same round may
            # have filled them.
            if events & EVENT_WRITE and into.pending:
                into.send()
            if events & EVENT_READ and not (out.pending or out.ended):
                out.receive()
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return False
        if self._forth.done and self._back.done:
            self.close()
            return False
        self._watch()
        return True

    def close(self) -> None:
        """Close both sockets."""
        for one, events in self._events.items():
            if events:
                self._selector.unregister(one)
            one.close()
        self._events.clear()

    def _watch(self) -> None:
        """Have the selector wait for what can be done next."""
        for out, into in ((self._forth, self._back), (self._back, self._forth)):
            events = 0 if out.pending or out.ended else EVENT_READ
            if into.pending:
                events |= EVENT_WRITE
            one = out.source
            before, self._events[one] = self._events[one], events
            if not before and events:
                self._selector.register(one, events, self)
            elif before and not events:
                self._selector.unregister(one)
            elif before != events:
                self._selector.modify(one, events, self)
