from __future__ import annotations

import tracemalloc

import pytest
from wire.framing import (
    GOLDEN,
    MIB,
    MUX_HEADER,
    PLUGIN,
    RUNTIME,
    chop,
    cuts,
    frame,
    read_frames,
)
from wire.invariants import demux_state

from nriplugin.errors import RemoteProtocolError
from nriplugin.wire.mux import Demux, pack

# A frame of each kind: with a payload, empty, and of a connection nobody knows.
STREAM = (
    frame(PLUGIN, b"abc") + frame(RUNTIME) + frame(77, b"d") + frame(RUNTIME, b"ef")
)


def feed(demux: Demux, data: bytes | memoryview) -> list[tuple[int, bytes, int]]:
    """Feed once, and copy the pieces."""
    pieces = demux.feed(memoryview(data))
    return [(conn_id, bytes(piece), left) for conn_id, piece, left in pieces]


def collect(demux: Demux, chunks: list[memoryview]) -> list[tuple[int, bytes]]:
    """Feed all and join the pieces of each frame."""
    frames, payload = [], b""
    for chunk in chunks:
        for conn_id, piece, left in feed(demux, chunk):
            payload += piece
            if not left:
                frames.append((conn_id, payload))
                payload = b""
    return frames


@pytest.mark.parametrize("data", [*GOLDEN, STREAM])
def test_frames_survive_every_cut(data: bytes) -> None:
    """Wherever the bytes are cut, the same frames come out and nothing is left."""
    for chunks in cuts(data):
        demux = Demux()
        assert collect(demux, chunks) == read_frames(data)
        assert demux.at_rest
        assert demux_state(demux) == demux_state(Demux())


def test_a_payload_is_handed_on_as_it_arrives() -> None:
    """Each piece says how many bytes of its frame are still to come."""
    demux = Demux()
    first, second, third = chop(frame(PLUGIN, b"abcdef"), (10, 1, 3))
    assert feed(demux, first) == [(PLUGIN, b"ab", 4)]
    assert feed(demux, second) == [(PLUGIN, b"c", 3)]
    assert feed(demux, third) == [(PLUGIN, b"def", 0)]


def test_payloads_are_views_of_what_was_read() -> None:
    """No payload byte is copied."""
    data = frame(PLUGIN, b"abc")
    [(_, piece, _)] = Demux().feed(memoryview(data))
    assert piece.obj is data


def test_an_empty_frame_is_one_empty_piece() -> None:
    """A frame without payload is legal and complete with its header."""
    demux = Demux()
    assert feed(demux, frame(RUNTIME)) == [(RUNTIME, b"", 0)]
    assert demux.at_rest


@pytest.mark.parametrize("size", range(1, len(frame(PLUGIN, b"abc"))))
def test_inside_a_frame_is_not_at_rest(size: int) -> None:
    """A demultiplexer is at rest only between frames."""
    demux = Demux()
    assert demux.at_rest
    demux.feed(memoryview(frame(PLUGIN, b"abc"))[:size])
    assert not demux.at_rest


@pytest.mark.parametrize("chunk", [1, 3, 8])
@pytest.mark.parametrize("claim", [16 * MIB + 1, 0xFFFF_FFFF])
def test_a_frame_that_is_too_long_is_refused_by_its_header(
    claim: int, chunk: int
) -> None:
    """A claim over the limit is refused before the payload arrives."""
    demux = Demux()
    *most, last = chop(MUX_HEADER.pack(PLUGIN, claim), (chunk,))
    for piece in most:
        assert demux.feed(piece) == []
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match=f"connection 1 claims {claim}"):
            demux.feed(last)
        assert tracemalloc.get_traced_memory()[1] < 64 << 10
    finally:
        tracemalloc.stop()


def test_the_longest_frame_of_an_old_runtime_is_allowed() -> None:
    """A frame of 16 MiB passes, and no memory is allocated for its claim."""
    demux = Demux()
    tracemalloc.start()
    try:
        assert demux.feed(memoryview(MUX_HEADER.pack(PLUGIN, 16 * MIB))) == []
        assert tracemalloc.get_traced_memory()[1] < 64 << 10
    finally:
        tracemalloc.stop()
    [(_, _, left)] = demux.feed(memoryview(bytes(5)))
    assert left == 16 * MIB - 5


def test_the_limit_can_be_chosen() -> None:
    """A demultiplexer with a smaller limit refuses what the default allows."""
    demux = Demux(max_frame=4)
    assert feed(demux, frame(PLUGIN, b"abcd")) == [(PLUGIN, b"abcd", 0)]
    with pytest.raises(RemoteProtocolError, match="at most 4"):
        demux.feed(memoryview(frame(PLUGIN, b"abcde")))


@pytest.mark.parametrize("body", [b"", b"x", bytes(4085), bytes(4086)])
def test_a_message_that_a_go_peer_can_buffer_is_one_frame(body: bytes) -> None:
    """Up to 4096 bytes with its header, a message is one frame."""
    head = b"0123456789"
    assert pack(PLUGIN, head, body) == frame(PLUGIN, head + body)


@pytest.mark.parametrize("size", [4087, 4096, 4097, 8182, MIB, 4 * MIB])
def test_a_longer_message_is_two_frames(size: int) -> None:
    """Over 4096 bytes, header and body travel in a frame each, and in no more."""
    head, body = b"0123456789", bytes(size)
    assert pack(RUNTIME, head, body) == frame(RUNTIME, head) + frame(RUNTIME, body)
