"""Reads and writes, in one step, a message that is exactly one frame.

Nearly every request arrives as one frame in one read, and nearly every answer fits
one frame. The plugin's thread sleeps between requests and wakes up with cold CPU
caches, so each Python function on the path costs measurable time; `mux.Demux` and
`ttrpc.Server` enter many functions, `read_call` and `write_reply` one each.

Rule: for every input, a function of this module either gives the same result as
`mux` and `ttrpc` together, byte for byte, or returns None and changes nothing. On
None the caller takes the general way.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from nriplugin.api.ttrpc_pb2 import Request
from nriplugin.wire.mux import GO_READ_BUFFER
from nriplugin.wire.ttrpc import REQUEST, RESPONSE, UNDECODABLE, Call

if TYPE_CHECKING:
    from nriplugin.wire.ttrpc import Server

# The mux header (8 bytes) and the ttRPC header (10 bytes), one after the other.
_HEADERS = Struct(">IIIIBB")
_unpack = _HEADERS.unpack_from
_pack = _HEADERS.pack
_parse = Request.FromString
# Builds a NamedTuple without entering its own constructor, which is a Python function.
_new = tuple.__new__

# The longest payload that `write_reply` takes: with the ttRPC header (10 bytes) and the
# protobuf tag and length (3 bytes) the message is still one frame for a Go reader. The
# length of such a payload always fits a protobuf varint of two bytes.
_MAX_PAYLOAD = GO_READ_BUFFER - 10 - 3


def read_call(server: Server, conn_id: int, data: memoryview) -> Call | None:
    """Return the call if `data` is one whole valid call and nothing else, else None.

    The caller must know that the connection is at rest: no part of an earlier frame or
    message is waiting in a `Demux` or a `Decoder`.
    """
    size = len(data)
    if size < 18:
        return None
    to, frame, length, stream_id, type_, _ = _unpack(data)
    if (
        to != conn_id
        or frame != size - 8
        or length != size - 18
        or type_ != REQUEST
        or stream_id <= server.last_stream
        or not stream_id & 1
        or length > server.max_request
    ):
        return None
    try:
        request = _parse(data[18:])  # type: ignore[arg-type] # any buffer will do
    except UNDECODABLE:
        return None
    server.last_stream = stream_id
    return _new(
        Call,
        (
            stream_id,
            request.service,
            request.method,
            request.payload,
            request.timeout_nano,
        ),
    )


def write_reply(conn_id: int, stream_id: int, payload: bytes) -> bytes | None:
    """Return the frame of a successful answer, or None if it does not fit one frame."""
    size = len(payload)
    if size > _MAX_PAYLOAD:
        return None
    # The protobuf encoding of Response.payload: tag 0x12 (field 2, length-delimited),
    # the length as a varint of one or two bytes, the bytes. An empty one is left out.
    if size > 127:
        body = b"\x12%c%c%b" % (size & 127 | 128, size >> 7, payload)
    elif size:
        body = b"\x12%c%b" % (size, payload)
    else:
        body = b""
    size = len(body)
    return _pack(conn_id, size + 10, size, stream_id, RESPONSE, 0) + body
