"""The common case in one step: one message, in one frame, in one piece.

Nearly every request arrives like this and nearly every answer leaves like this. A
plugin wakes up for each with cold caches, where every function that is entered counts,
and the general codecs enter many. These two functions do the same, byte for byte,
where they apply, and decline where not.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from nriplugin.api.ttrpc_pb2 import Request
from nriplugin.wire.mux import GO_READ_BUFFER
from nriplugin.wire.ttrpc import REQUEST, RESPONSE, UNDECODABLE, Call

if TYPE_CHECKING:
    from nriplugin.wire.ttrpc import Server

# The mux header and the ttRPC header, back to back.
_HEADERS = Struct(">IIIIBB")
_unpack = _HEADERS.unpack_from
_pack = _HEADERS.pack
_parse = Request.FromString
_new = tuple.__new__  # a NamedTuple's own constructor is a Python function

# Largest payload whose length is a varint of two bytes and whose message is one frame.
_MAX_PAYLOAD = GO_READ_BUFFER - 10 - 3


def read_call(server: Server, conn_id: int, data: memoryview) -> Call | None:
    """Return the call that `data` is, if it is one whole valid call and nothing else.

    Only for a connection at rest: no part of an earlier frame or message is waiting.
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
    """Return the frame of a successful answer, if it fits one frame."""
    size = len(payload)
    if size > _MAX_PAYLOAD:
        return None
    # Field 2 of Response, length-delimited.
    if size > 127:
        body = b"\x12%c%c%b" % (size & 127 | 128, size >> 7, payload)
    elif size:
        body = b"\x12%c%b" % (size, payload)
    else:
        body = b""
    size = len(body)
    return _pack(conn_id, size + 10, size, stream_id, RESPONSE, 0) + body
