from __future__ import annotations

import pytest
from wire.framing import (
    DATA,
    MUX_HEADER,
    PLUGIN,
    REQUEST,
    RESPONSE,
    RUNTIME,
    TTRPC_HEADER,
    frame,
    message,
    request,
)

from nriplugin.wire.mux import Demux, pack
from nriplugin.wire.single_frame import read_call, write_reply
from nriplugin.wire.ttrpc import MAX_MESSAGE, Call, RefusedCall, Server


def read_generally(server: Server, data: bytes) -> list[Call | RefusedCall]:
    """Read with the general codecs."""
    pieces = Demux().feed(memoryview(data))
    return [
        event
        for conn_id, piece, _ in pieces
        if conn_id == PLUGIN
        for event in server.feed(piece)
    ]


def new_server(limit: int = MAX_MESSAGE) -> Server:
    """Return a server that has served streams up to 3."""
    server = Server(limit)
    server.last_stream = 3
    return server


WHOLE = request(5, b"x" * 100, timeout_ns=5)


@pytest.mark.parametrize(
    "data",
    [
        WHOLE,
        request(7),
        request(0xFFFF_FFFF, bytes(70_000)),
        request(5, b"x", metadata=[("traceparent", "00-1")]),
        message(5, REQUEST),
        WHOLE[:9] + b"\xff" + WHOLE[10:],
    ],
    ids=["plain", "next but one", "largest", "metadata", "empty", "flags"],
)
def test_one_call_in_one_frame(data: bytes) -> None:
    """`read_call` returns the call that the general codecs read."""
    quick, general = new_server(), new_server()
    call = read_call(quick, PLUGIN, memoryview(frame(PLUGIN, data)))
    assert [call] == read_generally(general, frame(PLUGIN, data))
    assert type(call) is Call
    assert quick.last_stream == general.last_stream == call.stream_id


@pytest.mark.parametrize(
    "data",
    [
        b"",
        frame(PLUGIN, WHOLE)[:17],
        frame(PLUGIN),
        frame(RUNTIME, WHOLE),
        frame(PLUGIN, WHOLE)[:-1],
        frame(PLUGIN, WHOLE) + b"\x00",
        frame(PLUGIN, WHOLE) + frame(PLUGIN, request(7)),
        frame(PLUGIN, WHOLE + request(7)),
        frame(PLUGIN, WHOLE + b"\x00"),
        frame(PLUGIN, WHOLE[:-1]),
        MUX_HEADER.pack(PLUGIN, 11) + TTRPC_HEADER.pack(1, 5, REQUEST, 0),
        MUX_HEADER.pack(PLUGIN, len(WHOLE) + 5) + WHOLE,
        MUX_HEADER.pack(PLUGIN, len(WHOLE) - 5) + WHOLE,
        frame(PLUGIN, message(5, 0)),
        frame(PLUGIN, message(5, RESPONSE)),
        frame(PLUGIN, message(5, DATA)),
        frame(PLUGIN, message(5, 255)),
        frame(PLUGIN, request(0)),
        frame(PLUGIN, request(6)),
        frame(PLUGIN, request(3)),
        frame(PLUGIN, request(1)),
        frame(PLUGIN, message(5, REQUEST, b"\x0a\x7f")),
        frame(PLUGIN, message(5, REQUEST, b"\x0a\x01\xff")),
    ],
    ids=[
        "nothing",
        "cut header",
        "empty frame",
        "other connection",
        "frame goes on",
        "next frame begins",
        "two frames",
        "two messages",
        "next message begins",
        "message goes on",
        "both go on",
        "frame goes on behind the message",
        "frame ends inside the message",
        "type 0",
        "response",
        "data",
        "type 255",
        "stream 0",
        "even stream",
        "same stream",
        "lower stream",
        "undecodable",
        "not UTF-8",
    ],
)
def test_everything_else_is_declined(data: bytes) -> None:
    """Any other input gives None and leaves the server as it was."""
    server, general = new_server(), new_server()
    assert read_call(server, PLUGIN, memoryview(data)) is None
    assert server.last_stream == 3
    assert read_generally(server, data) == read_generally(general, data)
    assert server.last_stream == general.last_stream


def test_what_is_too_long_is_declined() -> None:
    """`read_call` keeps the server's limit to the byte."""
    limit = len(WHOLE) - TTRPC_HEADER.size
    data = memoryview(frame(PLUGIN, WHOLE))
    server = new_server(limit - 1)
    assert read_call(server, PLUGIN, data) is None
    assert server.last_stream == 3
    assert read_call(new_server(limit), PLUGIN, data) is not None


def test_a_read_only_and_a_writable_buffer() -> None:
    """A call keeps no reference to the receive buffer, which is reused."""
    buffer = bytearray(frame(PLUGIN, WHOLE))
    call = read_call(new_server(), PLUGIN, memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert [call] == read_generally(new_server(), frame(PLUGIN, WHOLE))


@pytest.mark.parametrize("conn_id", [PLUGIN, RUNTIME, 0xFFFF_FFFF])
@pytest.mark.parametrize("stream_id", [1, 0xFFFF_FFFF])
def test_ids_of_a_reply(conn_id: int, stream_id: int) -> None:
    """Connection and stream ids are written as by the general codecs."""
    general = pack(conn_id, *Server().reply(stream_id, b"x"))
    assert write_reply(conn_id, stream_id, b"x") == general


def test_every_reply_that_fits_one_frame() -> None:
    """For each length, the bytes equal those of the general codecs."""
    server, longest = Server(), 4083
    for size in range(longest + 1):
        payload = b"\x80" * size
        general = pack(PLUGIN, *server.reply(1, payload))
        assert write_reply(PLUGIN, 1, payload) == general
    assert len(general) == 8 + 4096


@pytest.mark.parametrize("size", [4084, 4085, 16_384, 1 << 20])
def test_a_reply_that_needs_two_frames_is_declined(size: int) -> None:
    """`write_reply` gives None exactly where `pack` writes two frames."""
    head, body = Server().reply(1, bytes(size))
    assert pack(PLUGIN, head, body) == frame(PLUGIN, head) + frame(PLUGIN, body)
    assert write_reply(PLUGIN, 1, bytes(size)) is None
