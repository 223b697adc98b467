"""The multiplexer under ttRPC: several logical connections on one socket.

A frame is an 8-byte big-endian header (connection id, payload length) and the
payload. The protocol has no handshake and no close for a logical connection: each
side decides for itself which ids it serves, and a receiver drops frames for other ids.

Rules of this module:
- Reading ignores frame boundaries. `Demux` hands each payload on in the pieces in
  which it arrives, so that a frame never has to fit in memory.
- Writing must respect the frame boundaries that a Go peer can read: see `pack`.

Reference: pkg/net/multiplex of the Go library.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeAlias

from nriplugin.errors import RemoteProtocolError

HEADER = Struct(">II")

# The Go library reads ttRPC headers through a buffer of this many bytes, and its mux
# delivers whole frames only. If the reader waits for a ttRPC header and the next frame
# is longer than the buffer, the read fails and the Go side closes the connection.
GO_READ_BUFFER = 4096

# The longest frame that a Go writer sends: 16 MiB up to NRI 0.6.1, 4 MiB and 10 bytes
# since. A header that claims more comes from a peer that does not speak NRI. `Demux`
# would not allocate the claimed length anyway; a Go reader does, without any check.
MAX_FRAME = 16 << 20

# (connection id, part of a payload, bytes of the same frame still to come)
Piece: TypeAlias = tuple[int, memoryview, int]

_NOTHING = memoryview(b"")


class Demux:
    """Splits the byte stream of a socket by logical connection.

    Holds at most one incomplete header between two calls of `feed`, never a payload.
    """

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max_frame = max_frame
        self._header = bytearray()
        self._id = 0
        self._left = 0

    def feed(self, data: memoryview) -> list[Piece]:
        """Return the pieces of payload in `data`, as views into it.

        An empty frame yields one empty piece. The views are valid only as long as the
        caller does not overwrite the buffer behind `data`.

        Raises:
            RemoteProtocolError: a header claims more than the allowed length.
        """
        pieces: list[Piece] = []
        pos, end = 0, len(data)
        while pos < end:
            if self._left:
                take = min(self._left, end - pos)
                self._left -= take
                pieces.append((self._id, data[pos : pos + take], self._left))
                pos += take
                continue
            if not self._header and end - pos >= HEADER.size:
                self._id, length = HEADER.unpack_from(data, pos)
                pos += HEADER.size
            else:
                take = min(HEADER.size - len(self._header), end - pos)
                self._header += data[pos : pos + take]
                pos += take
                if len(self._header) < HEADER.size:
                    break  # the rest of the header comes with the next `data`
                self._id, length = HEADER.unpack(self._header)
                self._header.clear()
            if length > self._max_frame:
                raise RemoteProtocolError(
                    f"mux frame on connection {self._id} claims {length} bytes, "
                    f"at most {self._max_frame} are allowed"
                )
            self._left = length
            if not length:
                pieces.append((self._id, _NOTHING, 0))
        return pieces

    @property
    def at_rest(self) -> bool:
        """Whether the last frame is complete, so that the next byte begins a frame."""
        return not self._left and not self._header


def pack(conn_id: int, head: bytes, body: bytes) -> bytes:
    """Return the bytes that carry one ttRPC message, given its header and its body.

    A message of up to 4096 bytes is one frame. A longer message is two frames, the
    ttRPC header and the body: the Go reader takes the header through its buffer of
    4096 bytes and then reads the body straight into memory of the body's length, so
    only the body's frame may be long. A long message must not be cut into many frames
    of 4096 bytes instead: the Go peer queues at most 256 frames per logical connection
    and closes the whole connection when one more arrives.
    """
    size = len(head) + len(body)
    if size <= GO_READ_BUFFER:
        return HEADER.pack(conn_id, size) + head + body
    return b"".join(
        (HEADER.pack(conn_id, len(head)), head, HEADER.pack(conn_id, len(body)), body)
    )
