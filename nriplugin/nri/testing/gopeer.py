"""How the Go library frames what it writes, and what kills it when it reads.

The embedded runtime uses both, so that a framing mistake of a plugin is caught without
a Go runtime. Two limits are modelled. The reader is message-oriented: a frame must fit
the buffer that the ttRPC code happens to read into, or the read fails with "cannot
allocate memory". And it queues 256 frames per logical connection: one more, and the
whole connection is closed.
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
    """Frame a message as Go does: one frame, or 4096 bytes and then the rest."""
    message = head + body
    first, rest = message[:GO_READ_BUFFER], message[GO_READ_BUFFER:]
    framed = HEADER.pack(conn_id, len(first)) + first
    if rest:
        framed += HEADER.pack(conn_id, len(rest)) + rest
    return framed


class GoReader:
    """Follows one logical connection as Go's buffered ttRPC reader would.

    The queue is judged at its worst: as if the reader only ran when a message was
    complete. On a busy machine that happens.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._body_left = 0
        self._discarding = False
        self._queued = 0

    def frame(self, payload: bytes) -> None:
        """Take one whole frame.

        Raises:
            RemoteProtocolError: a Go runtime would have closed the connection.
        """
        self._queued += 1
        if self._queued > QUEUE_LENGTH:
            raise RemoteProtocolError(
                f"more than {QUEUE_LENGTH} frames for one message: a Go peer's queue "
                "overflows"
            )
        # A large body is read past the buffer, straight to where it belongs; but what
        # is too long for a message is discarded through it.
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
        """Take a part of the current message off `data`; return what is left."""
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
    """A demultiplexer that fails where a Go runtime's would."""

    def __init__(self) -> None:
        super().__init__()
        # Frames for any other id are dropped, whatever their length.
        self._readers = {
            PLUGIN_CONNECTION: GoReader(),
            RUNTIME_CONNECTION: GoReader(),
        }
        self._frame = bytearray()

    def feed(self, data: memoryview) -> list[Piece]:
        """As `Demux.feed`, and judge every frame that is complete."""
        pieces = super().feed(data)
        for conn_id, piece, left in pieces:
            self._frame += piece
            if not left:
                if conn_id in self._readers:
                    self._readers[conn_id].frame(bytes(self._frame))
                self._frame.clear()
        return pieces
