from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st
from wire.framing import (
    GOLDEN,
    MUX_HEADER,
    PLUGIN,
    RUNTIME,
    TTRPC_HEADER,
    chop,
    claims,
    frame,
    message,
    read_frames,
    read_messages,
    request,
    response,
)
from wire.invariants import (
    CALLS,
    MAX_FRAME,
    MAX_MESSAGE,
    Event,
    Receiver,
    check_cuts,
    check_go_demux,
    check_go_reader,
    check_one_step,
)

from nriplugin.errors import ConnectionClosed, RemoteProtocolError
from nriplugin.nri.connection import Connection
from nriplugin.nri.testing.gopeer import GoReader, go_pack
from nriplugin.wire import mux, ttrpc
from nriplugin.wire.mux import Demux, pack
from nriplugin.wire.single_frame import write_reply
from nriplugin.wire.ttrpc import Answer, Call, Decoder, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

quick = settings(deadline=None, max_examples=200)


# Good input


class Sent(NamedTuple):
    """A message in bytes, and the event that it is for the receiver."""

    conn_id: int
    data: bytes
    event: Event


@st.composite
def traffic(draw: st.DrawFn) -> list[Sent]:
    """Draw calls and answers, on both connections."""
    sent = []
    streams = {PLUGIN: 1, RUNTIME: 1}
    sizes = st.sampled_from([0, 1, 9, 100, 4060, 4086, 4087, 9000])
    for conn_id in draw(st.lists(st.sampled_from([PLUGIN, RUNTIME]), max_size=6)):
        stream_id, payload = streams[conn_id], bytes(draw(sizes))
        streams[conn_id] += 2
        if conn_id == PLUGIN:
            timeout_ns = draw(st.integers(0, 1 << 62))
            data = request(stream_id, payload, timeout_ns=timeout_ns)
            event: Event = Call(
                stream_id, "service.Name", "Method", payload, timeout_ns
            )
        else:
            data = response(stream_id, payload)
            event = Answer(stream_id, 0, "", payload)
        sent.append(Sent(conn_id, data, event))
    return sent


def in_two(conn_id: int, head: bytes, body: bytes) -> bytes:
    """Frame a message as two frames, cut anywhere, with empty frames between."""
    data = head + body
    half = len(data) // 2
    return frame(conn_id, data[:half]) + frame(conn_id) + frame(conn_id, data[half:])


packers = st.sampled_from([pack, go_pack, in_two])
chunk_sizes = st.lists(
    st.integers(1, 60) | st.integers(1, 9000), min_size=1, max_size=8
)


@st.composite
def transfers(draw: st.DrawFn) -> tuple[list[memoryview], list[Event]]:
    """Draw chunks of bytes, and the events that they carry."""
    sent = draw(traffic())
    packed = [draw(packers)(m.conn_id, m.data[:10], m.data[10:]) for m in sent]
    cut = draw(st.one_of(st.none(), st.just([1 << 20]), chunk_sizes))
    if cut is None:  # message by message
        chunks = [memoryview(data) for data in packed]
    else:
        chunks = chop(b"".join(packed), cut)
    return chunks, [m.event for m in sent]


@quick
@given(transfers())
def test_what_is_sent_arrives(transfer: tuple[list[memoryview], list[Event]]) -> None:
    """However framed and cut, the same messages come out, in order."""
    chunks, expected = transfer
    receiver = Receiver(mux.MAX_FRAME, ttrpc.MAX_REQUEST, ttrpc.MAX_MESSAGE)
    assert receiver.feed(chunks) == (expected, "")
    assert receiver.at_rest


def receive_all(
    chunks: Sequence[memoryview], demux: Demux | None
) -> tuple[list[Event], int, str]:
    """Receive chunk by chunk from a socket.

    Returns what came, how much of it alone, and how it ended.
    """
    # Keeps what is sent apart, so that the cuts are where they were drawn.
    sock, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def send() -> None:
        with peer, contextlib.suppress(ConnectionError):
            for chunk in chunks:
                peer.send(chunk)

    connection = Connection(sock, serves=PLUGIN, calls=RUNTIME, demux=demux)
    for _ in range(CALLS):
        connection.client.call("s", "m", b"")
    sender = threading.Thread(target=send)
    sender.start()
    found: list[Event] = []
    inbox: deque[Any] = deque()
    alone = 0
    try:
        while True:
            call = connection.receive(inbox)
            found += inbox
            inbox.clear()
            if call is not None:
                found.append(call)
                alone += 1
    except (ConnectionClosed, RemoteProtocolError) as exc:
        return found, alone, str(exc)
    finally:
        connection.close()
        sender.join()


@settings(quick, max_examples=150)
@given(transfers(), st.booleans())
def test_what_is_sent_arrives_at_a_connection(
    transfer: tuple[list[memoryview], list[Event]], plain: bool
) -> None:
    """The same through a socket, with the shortcut for single frames and without."""
    chunks, expected = transfer
    found, alone, end = receive_all(chunks, None if plain else Demux())
    assert found == expected
    assert end == "end of file"
    assert plain or not alone


# Any input

stream_ids = st.integers(0, 9) | st.just(0xFFFF_FFFF)
bodies = st.one_of(
    st.binary(max_size=MAX_MESSAGE + 5),
    st.builds(lambda payload: request(1, payload)[10:], st.binary(max_size=60)),
    st.builds(lambda payload: response(1, payload)[10:], st.binary(max_size=60)),
)
odd_messages = st.one_of(
    st.builds(message, stream_ids, st.integers(0, 4), bodies, st.integers(0, 255)),
    st.builds(
        TTRPC_HEADER.pack,
        st.integers(0, 200) | st.integers(0, 0xFFFF_FFFF),
        stream_ids,
        st.integers(0, 3),
        st.just(0),
    ),
    st.binary(max_size=20),
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Draw bytes that resemble a connection, with false lengths and damage."""
    parts = []
    for data in draw(st.lists(odd_messages, max_size=8)):
        conn_id = draw(st.sampled_from([PLUGIN, PLUGIN, RUNTIME, 0, 7]))
        cut = draw(st.integers(0, 2 * len(data)))
        parts += [frame(conn_id, data[:cut]), frame(conn_id, data[cut:])]
    if draw(st.integers(0, 9)) == 0:
        lie = MUX_HEADER.pack(PLUGIN, draw(st.integers(MAX_FRAME - 1, 0xFFFF_FFFF)))
        parts.insert(draw(st.integers(0, len(parts))), lie)
    stream = bytearray(b"".join(parts))
    if stream and draw(st.booleans()):
        stream[draw(st.integers(0, len(stream) - 1))] = draw(st.integers(0, 255))
    return bytes(stream)


inputs = streams() | st.binary(max_size=300)


@quick
@given(inputs, chunk_sizes)
@example(b"".join(GOLDEN), [3])
def test_any_bytes_at_all(data: bytes, sizes: list[int]) -> None:
    """However cut, the outcome is the same; only a protocol error may be raised."""
    check_cuts(data, sizes)


# A request of 16 MiB, which is begun and never ends.
LONGEST = bytes.fromhex("0000000100000257" + "0000000100000000" * 4)


@settings(quick, max_examples=150)
@given(inputs, chunk_sizes, st.booleans())
@example(LONGEST, [1], False)
def test_any_bytes_at_a_connection(data: bytes, sizes: list[int], plain: bool) -> None:
    """The same through a socket: the connection ends with one of our errors."""
    general = Receiver(mux.MAX_FRAME, ttrpc.MAX_REQUEST, ttrpc.MAX_MESSAGE)
    events, error = general.feed(chop(data, (1,)))
    found, _, end = receive_all(chop(data, sizes), None if plain else Demux())
    if error:
        assert not end.startswith("end of file")
        assert found == events[: len(found)]
    else:
        where = "" if general.at_rest else " inside a message"
        assert end == f"end of file{where}"
        assert found == events


@quick
@given(inputs, chunk_sizes)
def test_a_demultiplexer_and_a_much_simpler_one(data: bytes, sizes: list[int]) -> None:
    """`Demux` finds the frames of a simple reader, up to one that is too long."""
    demux = Demux(MAX_FRAME)
    found, payload, error = [], b"", False
    try:
        for chunk in chop(data, sizes):
            for conn_id, piece, left in demux.feed(chunk):
                payload += piece
                if not left:
                    found.append((conn_id, payload))
                    payload = b""
    except RemoteProtocolError:
        error = True
    assert error == any(claim > MAX_FRAME for claim in claims(data))
    if not error:
        if demux._left:
            found.append((demux._id, payload))
        assert found == read_frames(data)


@quick
@given(st.lists(odd_messages, max_size=8).map(b"".join), chunk_sizes)
def test_a_decoder_and_a_much_simpler_one(data: bytes, sizes: list[int]) -> None:
    """`Decoder` finds the messages of a simple reader, also those too long."""
    decoder = Decoder(MAX_MESSAGE)
    found = [found for chunk in chop(data, sizes) for found in decoder.feed(chunk)]
    assert found == read_messages(data, MAX_MESSAGE)


# The common case in one step


@quick
@given(
    st.builds(frame, st.sampled_from([PLUGIN, RUNTIME]), odd_messages)
    | st.builds(
        lambda stream_id, payload: frame(PLUGIN, request(stream_id, payload)),
        stream_ids,
        st.binary(max_size=70),
    )
    | inputs,
    st.integers(0, 5),
)
def test_one_step_is_the_general_way(data: bytes, last_stream: int) -> None:
    """`read_call` reads one whole call as the general codecs do, and nothing else."""
    check_one_step(data, last_stream)


@quick
@given(st.integers(0, 0xFFFF_FFFF), st.binary() | st.integers(0, 5000).map(bytes))
def test_one_step_back_is_the_general_way(stream_id: int, payload: bytes) -> None:
    """`write_reply` gives the general codecs' bytes, or None for two frames."""
    data = pack(PLUGIN, *Server().reply(stream_id, payload))
    quick = write_reply(PLUGIN, stream_id, payload)
    assert quick == data if len(read_frames(data)) == 1 else quick is None


# The model of a Go peer


@quick
@given(
    st.lists(
        st.integers(0, 9000) | st.sampled_from([4085, 4086, 4087, 1 << 20]), max_size=5
    ),
    st.sampled_from([pack, go_pack]),
)
def test_a_go_peer_reads_what_is_packed(
    sizes: list[int], packer: Callable[[int, bytes, bytes], bytes]
) -> None:
    """The model of a Go peer reads messages of any size that `pack` has framed."""
    reader = GoReader()
    for size in sizes:
        data = message(1, 1, bytes(size))
        for _, payload in read_frames(packer(PLUGIN, data[:10], data[10:])):
            reader.frame(payload)


@quick
@given(
    st.lists(st.builds(frame, st.sampled_from([1, 2]), st.binary(max_size=30)))
    .map(b"".join)
    .flatmap(lambda data: st.sampled_from([data, data + frame(1, bytes(4097))])),
    chunk_sizes,
)
def test_a_go_peer_judges_frames_not_cuts(data: bytes, sizes: list[int]) -> None:
    """The verdict of the model does not depend on how the bytes arrive."""
    check_go_demux(data, sizes)


@st.composite
def go_frames(draw: st.DrawFn) -> list[bytes]:
    """Draw messages up to the limit, cut into frames somehow; the last may be cut."""
    sizes = st.sampled_from([0, 1, 4000, 4095, 4096, 4097, 9000, 4 << 20])
    data = b"".join(message(1, 1, bytes(size)) for size in draw(st.lists(sizes)))
    cuts = st.sampled_from([1, 10, 11, 90, 3996, 4095, 4096, 4097, 9000, 4 << 20])
    pieces = chop(data[:50_000], draw(st.lists(cuts, min_size=1)))
    return list(map(bytes, pieces))


@quick
@given(go_frames())
def test_the_model_of_a_go_peer_and_its_twin(frames: list[bytes]) -> None:
    """The model fails exactly where a transcript of Go's code fails."""
    check_go_reader(frames)
