from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from wire.framing import (
    GOLDEN,
    MIB,
    PLUGIN,
    REQUEST,
    RUNTIME,
    chop,
    cuts,
    frame,
    message,
    read_frames,
    request,
)

from nriplugin.errors import RemoteProtocolError
from nriplugin.nri.testing.gopeer import GoDemux, GoReader, go_pack
from nriplugin.wire.mux import Demux, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Packer = Callable[[int, bytes, bytes], bytes]

SIZES = [0, 1, 4085, 4086, 4087, 4096, 4097, 8182, 8192, MIB, 4 * MIB]


def parts(size: int) -> tuple[bytes, bytes]:
    """Return header and body of a message with a body of the given length."""
    data = message(1, REQUEST, bytes(size))
    return data[:10], data[10:]


def judge(frames: Iterable[bytes]) -> None:
    """Pass the frames to the model of Go's reader."""
    reader = GoReader()
    for payload in frames:
        reader.frame(payload)


def payloads(data: bytes) -> list[bytes]:
    """Return the payloads of the frames in `data`."""
    return [payload for _, payload in read_frames(data)]


@pytest.mark.parametrize(
    ("size", "lengths"),
    [
        (0, [10]),
        (4086, [4096]),
        (4087, [4096, 1]),
        (8182, [4096, 4096]),
        (4 * MIB, [4096, 4 * MIB + 10 - 4096]),
    ],
)
def test_how_go_writes(size: int, lengths: list[int]) -> None:
    """Go writes one frame, or 4096 bytes and then all the rest."""
    frames = read_frames(go_pack(RUNTIME, *parts(size)))
    assert [conn_id for conn_id, _ in frames] == [RUNTIME] * len(lengths)
    assert [len(payload) for _, payload in frames] == lengths
    assert b"".join(payload for _, payload in frames) == b"".join(parts(size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("packer", [pack, go_pack])
def test_what_we_and_go_write_can_be_read(packer: Packer, size: int) -> None:
    """Messages of every size that `pack` or Go frames can be read."""
    one = payloads(packer(PLUGIN, *parts(size)))
    judge(one * 3)
    judge(one * 300 if size < MIB else one)


@pytest.mark.parametrize("size", [size for size in SIZES if size > 4086])
def test_one_long_frame_kills(size: int) -> None:
    """A message of more than 4096 bytes in one frame ends the connection."""
    with pytest.raises(RemoteProtocolError, match=r"reads 4096: cannot allocate"):
        judge([b"".join(parts(size))])


def test_one_frame_of_4096_bytes_is_the_longest() -> None:
    """A frame of 4096 bytes, with a body of 4086, can be read."""
    judge([b"".join(parts(4086))])


@pytest.mark.parametrize("size", [1, 100, 4096])
def test_too_many_small_frames_kill(size: int) -> None:
    """A message may have 256 frames; one more ends the connection."""
    fits = message(1, REQUEST, bytes(256 * size - 10))
    judge([bytes(piece) for piece in chop(fits, (size,))] * 2)
    too_many = message(1, REQUEST, bytes(256 * size - 9))
    with pytest.raises(RemoteProtocolError, match="queue overflows"):
        judge(bytes(piece) for piece in chop(too_many, (size,)))


def test_the_queue_is_empty_after_each_message() -> None:
    """Frames count for the queue until their message is complete."""
    small = [bytes(piece) for piece in chop(message(1, REQUEST, bytes(190)), (1,))]
    empty = [bytes(piece) for piece in chop(message(1, REQUEST), (1,))]
    judge([*small, *empty] * 5)


def test_empty_frames_are_queued_too() -> None:
    """An empty frame takes a place in the queue."""
    reader = GoReader()
    for _ in range(256):
        reader.frame(b"")
    with pytest.raises(RemoteProtocolError, match="queue overflows"):
        reader.frame(b"")


def test_a_header_in_pieces() -> None:
    """A ttRPC header may arrive in several frames."""
    head, body = parts(5000)
    judge([head[:1], head[1:9], head[9:], body])


def test_a_body_in_two_large_pieces() -> None:
    """A long frame can be read if it holds no more than the rest of the body."""
    head, body = parts(20_000)
    judge([head, body[:10_000], body[10_000:]])


@pytest.mark.parametrize("missing", [4096, 4097, 10_000])
def test_the_next_message_behind_a_large_body_kills(missing: int) -> None:
    """A long frame with the start of the next message ends the connection."""
    head, body = parts(missing)
    judge([head, body])
    with pytest.raises(RemoteProtocolError, match=f"reads {missing}: cannot"):
        judge([head, body + b"x"])


def test_the_next_message_behind_a_small_body_is_buffered() -> None:
    """Messages may share a frame of up to 4096 bytes."""
    head, body = parts(4000)
    following = b"".join(parts(86))
    assert len(body + following) == 4096
    judge([head, body + following, head, body])
    with pytest.raises(RemoteProtocolError, match="reads 4096: cannot"):
        judge([head, body + following + b"x"])


@pytest.mark.parametrize("packer", [pack, go_pack])
def test_a_message_over_the_limit_kills(packer: Packer) -> None:
    """A message over 4 MiB ends the connection when Go discards it."""
    with pytest.raises(RemoteProtocolError):
        judge(payloads(packer(PLUGIN, *parts(4 * MIB + 1))))


# The demultiplexer


def test_every_frame_is_judged_once_it_is_whole() -> None:
    """A frame that is too long is found with its last byte, however it arrives."""
    bad = frame(PLUGIN, b"".join(parts(4087)))
    for sizes in ((1,), (7, 5), (4104, 1)):
        demux, chunks = GoDemux(), chop(bad, sizes)
        for chunk in chunks[:-1]:
            demux.feed(chunk)
        with pytest.raises(RemoteProtocolError, match="4097 bytes where a Go peer"):
            demux.feed(chunks[-1])


def test_it_reads_what_any_demultiplexer_reads() -> None:
    """`GoDemux` returns the same pieces as `Demux`."""
    data = b"".join(GOLDEN) + frame(PLUGIN) + pack(RUNTIME, *parts(5000))
    for chunks in [*cuts(data)[:200], chop(data, (4000,)), chop(data, (1,))]:
        model, plain = GoDemux(), Demux()
        assert list(map(model.feed, chunks)) == list(map(plain.feed, chunks))
        assert model.at_rest


def test_connections_are_judged_apart() -> None:
    """Each logical connection has its own reader."""
    head, body = parts(5000)
    call = frame(RUNTIME, request(1))
    data = frame(PLUGIN, head) + call + frame(PLUGIN, body) + call
    GoDemux().feed(memoryview(data))
    with pytest.raises(RemoteProtocolError):
        GoDemux().feed(memoryview(frame(PLUGIN, head) + frame(RUNTIME, body)))


@pytest.mark.parametrize("conn_id", [0, 3, 0xFFFF_FFFF])
def test_connections_that_are_not_open_are_not_judged(conn_id: int) -> None:
    """Frames for other ids are dropped, however long and many they are."""
    demux = GoDemux()
    demux.feed(memoryview(frame(conn_id, bytes(5000))))
    demux.feed(memoryview(frame(conn_id) * 300))
    assert conn_id not in demux._readers
