"""One end of an NRI connection: a blocking socket and the two services on it.

Each end serves one logical connection (`serves`) and calls on the other (`calls`).
`receive` turns bytes into calls to serve and answers to calls; `send` writes bytes
that `reply`, `failure` and `send_call` have framed.

The class owns the socket and has no lock. At any time only one thread may receive and
only one may send; the caller has to see to that. `end` may be called from any thread.
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

# Nearly every request fits, so that it takes one system call to read; and the buffer,
# which exists once per connection, is small beside the interpreter.
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
        # A demultiplexer of the caller's own has to see every frame, so a connection
        # with one never takes the shortcut of `single_frame.read_call`.
        self._may_shortcut = demux is None
        # Whether no frame and no message is incomplete: the shortcut needs whole ones.
        self._at_rest = True
        self._pack = packer
        self._view = memoryview(bytearray(READ_BUFFER))
        self._recv_into = sock.recv_into
        self._sendall = sock.sendall

    def fileno(self) -> int:
        """Return the socket's descriptor, for poll."""
        return self._sock.fileno()

    def receive(self, inbox: deque[Any]) -> Call | None:
        """Block for bytes; add the calls and answers that they complete to `inbox`.

        A call that arrives alone in one frame, as nearly all do, is returned instead.

        Raises:
            ConnectionClosed: end of file, a reset, or the receive timeout.
            RemoteProtocolError: the peer broke the protocol beyond repair.
        """
        view = self._view
        try:
            size = self._recv_into(view)
            # Go writes the mux header (8 bytes) and the payload of a frame with two
            # system calls. If this thread woke up between the two, the payload is about
            # to arrive: with it, the request can take the shortcut below. Bytes 4 to 7
            # are the frame's length; a frame of length zero has no payload.
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
        # The shortcut: nearly every request is one whole frame in one read.
        if self._at_rest and self._may_shortcut:
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
        """Return the framed bytes of a successful answer; raises LocalProtocolError."""
        return self._pack(self._serves, *self.server.reply(stream_id, payload))

    def failure(self, stream_id: int, code: int, reason: str) -> bytes:
        """Return the framed bytes of an error answer."""
        return self._pack(self._serves, *self.server.fail(stream_id, code, reason))

    def send(self, data: bytes) -> None:
        """Send framed bytes.

        Raises:
            ConnectionClosed: the peer is gone or did not read in time. A part of
                `data` may have been sent, so the connection is ended first: the peer
                would take the next bytes, sent by any thread, for the missing part.
        """
        try:
            self._sendall(data)
        except OSError as exc:
            self.end()
            raise ConnectionClosed(f"send: {exc.strerror}") from exc

    def send_call(self, head: bytes, body: bytes) -> None:
        """Frame and send a request that `client` has built."""
        self.send(self._pack(self._calls, head, body))

    def limit_waiting(self, *, receive_s: float = 0, send_s: float = 0) -> None:
        """Limit how long a receive and a send may block; 0 is without a limit.

        The kernel keeps these limits (SO_RCVTIMEO, SO_SNDTIMEO). A timeout of Python's
        socket object would add a poll system call to every receive.
        """
        for option, limit in (
            (socket.SO_RCVTIMEO, receive_s),
            (socket.SO_SNDTIMEO, send_s),
        ):
            timeval = struct.pack("ll", int(limit), int(limit % 1 * 1_000_000))
            self._sock.setsockopt(socket.SOL_SOCKET, option, timeval)

    def end(self, *, reading_only: bool = False) -> None:
        """Make `receive`, also one that blocks now, see an end of file.

        With `reading_only` answers can still be sent.
        """
        how = socket.SHUT_RD if reading_only else socket.SHUT_RDWR
        with contextlib.suppress(OSError):  # the socket is closed or reset already
            self._sock.shutdown(how)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()
