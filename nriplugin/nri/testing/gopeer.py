"""A model of the Go library's framing: how it writes, and what its reader cannot read.

The embedded runtime writes and reads through this model, so that a framing mistake of
a plugin is found without a Go runtime. The reader has two limits:

- Its mux delivers whole frames. A frame must fit the buffer into which the ttRPC code
  is reading at that moment (4096 bytes while it reads a header or discards a message
  that is too long, else the rest of the body), or the read fails with "cannot allocate
  memory" and the connection ends.
- It queues 256 frames per logical connection. One more closes the whole connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.errors import RemoteProtocolError
from nriplugin.nri.methods import PLUGIN_CONNECTION, RUNTIME_CONNECTION
from nriplugin.wire import ttrpc
from nriplugin.wire.mux import GO_READ_BUFFER, HEADER, Demux

if TYPE_CHECKING:
    from nriplugin.wire.mux import Piece

QUEUE_LENGTH = 256


def go_pack(conn_id: int, head: bytes, body: bytes) -> bytes:
    """Frame a message as Go does: up to 4096 bytes, then all the rest, if any."""
    message = head + body
    first, rest = message[:GO_READ_BUFFER], message[GO_READ_BUFFER:]
    framed = HEADER.pack(conn_id, len(first)) + first
    if rest:
        framed += HEADER.pack(conn_id, len(rest)) + rest
    return framed


class GoReader:
    """Follows one logical connection as Go's buffered ttRPC reader would.

    For the queue the worst case is assumed: the reader takes frames off the queue only
    when a message is complete. That happens on a busy machine.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._body_left = 0
        self._discarding = False
        self._queued = 0

    def frame(self, payload: bytes) -> None:
        """Follow one whole frame.

        Raises:
            RemoteProtocolError: a Go runtime would have closed the connection.
        """
        self._queued += 1
        if self._queued > QUEUE_LENGTH:
            raise RemoteProtocolError(
                f"more than {QUEUE_LENGTH} frames for one message: a Go peer's queue "
                "overflows"
            )
        # Go reads a large body straight into its destination, without the buffer of
        # 4096 bytes, but discards a message that is too long through that buffer.
        room = GO_READ_BUFFER
        if not self._discarding:
            room = max(room, self._body_left)
        if len(payload) > room:
            raise RemoteProtocolError(
                f"a frame of {len(payload)} bytes where a Go peer reads {room}: "
                "cannot allocate memory"
            )
        while payload:
            payload = self._consume(payload)

    def _consume(self, data: bytes) -> bytes:
        """Account for the start of `data`, one header or body; return the rest."""
        if self._body_left:
            take = min(self._body_left, len(data))
            self._body_left -= take
        else:
            take = ttrpc.HEADER.size - len(self._header)
            self._header += data[:take]
            if len(self._header) < ttrpc.HEADER.size:
                return b""
            self._body_left = ttrpc.HEADER.unpack(self._header)[0]
            self._header.clear()
            self._discarding = self._body_left > ttrpc.MAX_MESSAGE
        if not self._body_left:
            self._queued = 0
        return data[take:]


class GoDemux(Demux):
    """A demultiplexer that fails on frames on which a Go runtime would fail."""

    def __init__(self) -> None:
        super().__init__()
        # Go drops frames for any other id, whatever their length.
        self._readers = {
            PLUGIN_CONNECTION: GoReader(),
            RUNTIME_CONNECTION: GoReader(),
        }
        self._frame = bytearray()

    def feed(self, data: memoryview) -> list[Piece]:
        """Do as `Demux.feed`, and check every frame that is complete.

        Raises:
            RemoteProtocolError: a Go runtime would have closed the connection.
        """
        pieces = super().feed(data)
        for conn_id, piece, left in pieces:
            self._frame += piece
            if not left:
                if conn_id in self._readers:
                    self._readers[conn_id].frame(bytes(self._frame))
                self._frame.clear()
        return pieces
