"""A connected socket and the two services on it: bytes to events and back.

Blocking, and without locks: whoever uses a connection decides which thread reads.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING, Any

from nriplugin.errors import ConnectionClosed
from nriplugin.wire.mux import Demux, pack
from nriplugin.wire.single_frame import read_call
from nriplugin.wire.ttrpc import Client, Server

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from nriplugin.wire.ttrpc import Call

# Large enough for nearly every request in one system call, small enough not to show
# in the resident size.
READ_BUFFER = 64 << 10


class Connection:
    """One end of an NRI connection."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        serves: int,
        calls: int,
        demux: Demux | None = None,
        packer: Callable[[int, bytes, bytes], bytes] = pack,
    ) -> None:
        self.server = Server()
        self.client = Client()
        self._sock = sock
        self._serves = serves
        self._calls = calls
        self._demux = demux or Demux()
        self._plain = demux is None  # nobody else wants to see the frames
        self._at_rest = True
        self._pack = packer
        self._view = memoryview(bytearray(READ_BUFFER))
        self._recv_into = sock.recv_into
        self._sendall = sock.sendall

    def fileno(self) -> int:
        """Return the socket's descriptor, for poll."""
        return self._sock.fileno()

    def receive(self, inbox: deque[Any]) -> Call | None:
        """Block for bytes and add what they complete to `inbox`.

        A call that comes alone, as nearly all do, is returned instead.

        Raises:
            ConnectionClosed: end of file, a reset, or the receive timeout.
            RemoteProtocolError: the peer broke the protocol beyond repair.
        """
        view = self._view
        try:
            size = self._recv_into(view)
            # Go writes a frame's header and its payload apart. If we woke up in
            # between, the rest is on its way.
            if size == 8 and self._at_rest and any(view[4:8]):
                size += self._recv_into(view[8:])
        except BlockingIOError as exc:
            raise ConnectionClosed("the peer was silent for too long") from exc
        except OSError as exc:
            raise ConnectionClosed(f"receive: {exc.strerror}") from exc
        if not size:
            cut = "" if self._at_rest else " inside a message"
            raise ConnectionClosed(f"end of file{cut}")
        data = view[:size]
        if self._at_rest and self._plain:
            call = read_call(self.server, self._serves, data)
            if call is not None:
                return call
        for conn_id, piece, _ in self._demux.feed(data):
            if conn_id == self._serves:
                inbox.extend(self.server.feed(piece))
            elif conn_id == self._calls:
                inbox.extend(self.client.feed(piece))
        self._at_rest = (
            self._demux.at_rest
            and self.server.decoder.at_rest
            and self.client.decoder.at_rest
        )
        return None

    def reply(self, stream_id: int, payload: bytes) -> bytes:
        """Return the bytes of a successful answer; raises LocalProtocolError."""
        return self._pack(self._serves, *self.server.reply(stream_id, payload))

    def failure(self, stream_id: int, code: int, reason: str) -> bytes:
        """Return the bytes of an error answer."""
        return self._pack(self._serves, *self.server.fail(stream_id, code, reason))

    def send(self, data: bytes) -> None:
        """Send an answer.

        Raises:
            ConnectionClosed: the peer is gone, or did not read in time. A part may
                have been sent, so the connection is ended here, before another thread
                sends bytes that the peer would take for the rest.
        """
        try:
            self._sendall(data)
        except OSError as exc:
            self.end()
            raise ConnectionClosed(f"send: {exc.strerror}") from exc

    def send_call(self, head: bytes, body: bytes) -> None:
        """Send a client's request."""
        self.send(self._pack(self._calls, head, body))

    def limit_waiting(self, *, receive_s: float = 0, send_s: float = 0) -> None:
        """Give up on a silent peer after that long; 0 waits for ever.

        Kernel timeouts, because Python's own would add a poll to every receive.
        """
        for option, limit in (
            (socket.SO_RCVTIMEO, receive_s),
            (socket.SO_SNDTIMEO, send_s),
        ):
            timeval = struct.pack("ll", int(limit), int(limit % 1 * 1_000_000))
            self._sock.setsockopt(socket.SOL_SOCKET, option, timeval)

    def end(self, *, reading_only: bool = False) -> None:
        """Wake a blocked `receive` with an end of file."""
        how = socket.SHUT_RD if reading_only else socket.SHUT_RDWR
        with contextlib.suppress(OSError):  # already gone, which is what was wanted
            self._sock.shutdown(how)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()
