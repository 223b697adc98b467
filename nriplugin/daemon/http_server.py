"""A small HTTP server whose clients can hold up neither the daemon nor each other.

Every connection has one request and a thread for it. There are at most `MAX_CLIENTS` of
them. The whole request has to arrive within `READ_S` seconds and the answer has to be
taken within `WRITE_S`. If all threads are taken, a client that has been silent for
`SILENCE_S` is dropped for the next one, the oldest first: so clients that send nothing
can keep nobody out for long.
"""

from __future__ import annotations

import logging
import socket
import threading
from contextlib import suppress
from errno import EBADF, EINVAL
from time import monotonic, sleep
from typing import TYPE_CHECKING

from nriplugin.daemon.http_request import (
    MAX_HEAD_BYTES,
    HTTPAnswer,
    answer_bytes,
    head_is_complete,
    parse_request,
    text_answer,
)
from nriplugin.loglimit import LimitedLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.daemon.http_request import HTTPRequest

    Page = Callable[[HTTPRequest], HTTPAnswer]

_log = logging.getLogger(__name__)

MAX_CLIENTS = 8
READ_S = 5.0
WRITE_S = 10.0
# After this time a client without a request may have to make room.
SILENCE_S = 0.2
# How long a new client waits for another one to leave.
LEAVE_S = 1.0

_BUSY = answer_bytes(text_answer(503, ["too many clients"]))
# What `accept` says of a socket that was shut down or closed.
_CLOSED = {EBADF, EINVAL}


class HTTPServer:
    """Serves pages on a listening socket, on threads of its own."""

    def __init__(self, listener: socket.socket, page: Page) -> None:
        """Take over a socket that listens; `page` answers, on any thread."""
        self._listener = listener
        self._page = page
        self._limited = LimitedLog(_log)
        self._free = threading.Semaphore(MAX_CLIENTS)
        self._lock = threading.Lock()  # guards the two fields below
        # Connections without a complete request so far, the oldest first, and when
        # they were made.
        self._reading: dict[socket.socket, float] = {}
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, name="http", daemon=True)

    def start(self) -> None:
        """Start to accept connections."""
        self._thread.start()

    def stop(self) -> None:
        """Stop accepting and drop the clients, without waiting for their threads."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in `accept`
        self._thread.join()
        self._listener.close()
        with self._lock:
            for client in self._open:
                _drop(client)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError as exc:
                if exc.errno in _CLOSED:
                    return
                sleep(LEAVE_S)  # out of descriptors or memory, which may pass
                continue
            if self._has_room():
                self._serve(client)
            else:
                _refuse(client)

    def _has_room(self) -> bool:
        """Take one of the places, for which a silent client may have to go."""
        if self._free.acquire(blocking=False):
            return True
        with self._lock:
            since = next(iter(self._reading.values()), 0.0)
        if self._free.acquire(timeout=max(0.0, since + SILENCE_S - monotonic())):
            return True
        with self._lock:
            oldest = next(iter(self._reading), None)
            if oldest is not None and self._reading[oldest] + SILENCE_S <= monotonic():
                del self._reading[oldest]
                _drop(oldest)
        return self._free.acquire(timeout=LEAVE_S)

    def _serve(self, client: socket.socket) -> None:
        with self._lock:
            self._reading[client] = monotonic()
            self._open.add(client)
        thread = threading.Thread(
            target=self._answer, args=(client,), name="http-client", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no more threads on this machine
            self._leave(client)

    def _answer(self, client: socket.socket) -> None:
        try:
            head = _head_of(client)
            with self._lock:
                self._reading.pop(client, None)
            if head:
                client.settimeout(WRITE_S)  # for all bytes together
                client.sendall(self._answer_to(head))
        except OSError:
            pass  # the client has gone, or is too slow
        finally:
            self._leave(client)

    def _answer_to(self, head: bytes) -> bytes:
        request = parse_request(head)
        if isinstance(request, HTTPAnswer):
            return answer_bytes(request)
        try:
            answer = self._page(request)
        except Exception as exc:  # noqa: BLE001 - a defect must not end the service
            line = "http: %s: the page failed"
            self._limited.log(logging.ERROR, line, request.path[:80], exc_info=exc)
            answer = text_answer(500, ["the page failed; the log says why"])
        return answer_bytes(answer, request)

    def _leave(self, client: socket.socket) -> None:
        with self._lock:
            self._reading.pop(client, None)
            self._open.discard(client)
            client.close()
        self._free.release()


def _drop(client: socket.socket) -> None:
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


def _refuse(client: socket.socket) -> None:
    client.setblocking(False)
    with client, suppress(OSError):
        client.send(_BUSY)


def _head_of(client: socket.socket) -> bytes:
    """Return the first line and the headers of a request; empty if it ends early.

    Raises:
        OSError: the client is too slow, or gone.
    """
    deadline = monotonic() + READ_S
    head = b""
    while not head_is_complete(head) and len(head) <= MAX_HEAD_BYTES:
        client.settimeout(max(0.001, deadline - monotonic()))
        received = client.recv(MAX_HEAD_BYTES)
        if not received:
            return b""
        head += received
    return head
