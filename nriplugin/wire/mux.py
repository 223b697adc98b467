"""The multiplexer under ttRPC: several logical connections on one socket.

A frame is an 8-byte big-endian header (connection id, payload length) and the
payload. There is no handshake and no close: an id is open when the peer says so to
itself, and frames for other ids are dropped.

Reading ignores frame boundaries: payloads are handed on piece by piece as they
arrive, so a frame never has to fit in memory. Writing must not ignore them: see
`pack`. Reference: pkg/net/multiplex of the Go library.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeAlias

from nriplugin.errors import RemoteProtocolError

HEADER = Struct(">II")

# What the Go library's ttRPC reads its headers through. A frame that is delivered
# while it waits for a header and is longer than this kills the connection.
GO_READ_BUFFER = 4096

# Go writers up to NRI 0.6.1 put 16 MiB in a frame, newer ones 4 MiB and 10 bytes; Go
# readers check nothing and allocate what the header claims. We allocate nothing, but
# a larger claim is not a runtime talking.
MAX_FRAME = 16 << 20

# (connection id, part of a payload, bytes of the same frame still to come)
Piece: TypeAlias = tuple[int, memoryview, int]

_NOTHING = memoryview(b"")


class Demux:
    """Takes a byte stream apart. Holds at most one incomplete header."""

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max_frame = max_frame
        self._header = bytearray()
        self._id = 0
        self._left = 0

    def feed(self, data: memoryview) -> list[Piece]:
        """Return what `data` holds, as views into it.

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
                    break
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
        """Whether the next byte is the first of a frame."""
        return not self._left and not self._header


def pack(conn_id: int, head: bytes, body: bytes) -> bytes:
    """Return the bytes that carry one message of a header and a body.

    One frame if it fits the Go reader's buffer, else one frame for the header and one
    for the body. Never more: the Go peer queues 256 frames and closes the connection
    at the next, so chopping a large message into small frames is no way out.
    """
    size = len(head) + len(body)
    if size <= GO_READ_BUFFER:
        return HEADER.pack(conn_id, size) + head + body
    return b"".join(
        (HEADER.pack(conn_id, len(head)), head, HEADER.pack(conn_id, len(body)), body)
    )
