from __future__ import annotations

import socket
import struct
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
from wire.framing import (
    DATA,
    MIB,
    MUX_HEADER,
    PLUGIN,
    REQUEST,
    RESPONSE,
    RUNTIME,
    TTRPC_HEADER,
    chop,
    frame,
    message,
    request,
    response,
)

from nriplugin.errors import ConnectionClosed, LocalProtocolError, RemoteProtocolError
from nriplugin.nri.connection import READ_BUFFER, Connection
from nriplugin.nri.testing.gopeer import GoDemux, go_pack
from nriplugin.wire.mux import pack
from nriplugin.wire.ttrpc import Answer, Call, Code, RefusedCall

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = Call(1, "service.Name", "Method", b"a", 0)
THIRD = Call(3, "service.Name", "Method", b"c", 0)


class Ends:
    """A plugin's connection and the socket at its other end."""

    def __init__(self) -> None:
        sock, self.peer = socket.socketpair()
        self.connection = Connection(sock, serves=PLUGIN, calls=RUNTIME)

    def close(self) -> None:
        """Close both ends."""
        self.connection.close()
        self.peer.close()

    def read(self, *chunks: bytes) -> list[Any]:
        """Send chunk by chunk; return the events that each chunk completes."""
        inbox: deque[Any] = deque()
        for chunk in chunks:
            self.peer.sendall(chunk)
            alone = self.connection.receive(inbox)
            if alone is not None:
                inbox.append(alone)
        return list(inbox)

    def read_to_end(self, data: bytes) -> str:
        """Send, close the other end, and return why reading ended."""
        self.peer.sendall(data)
        self.peer.shutdown(socket.SHUT_WR)
        try:
            while True:
                self.connection.receive(deque())
        except ConnectionClosed as exc:
            return str(exc)


@pytest.fixture
def ends() -> Iterator[Ends]:
    both = Ends()
    yield both
    both.close()


# Reading


def test_a_call_that_comes_alone_is_returned(ends: Ends) -> None:
    """A call that is one whole frame is returned and not put into the inbox."""
    inbox: deque[Any] = deque()
    ends.peer.sendall(frame(PLUGIN, request(1, b"a")))
    assert ends.connection.receive(inbox) == FIRST
    assert not inbox


def test_a_header_without_its_payload_is_waited_for() -> None:
    """A frame whose header and payload arrive apart, as from Go, is read at once."""
    sock, peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection, inbox = Connection(sock, serves=PLUGIN, calls=RUNTIME), deque[Any]()
    with sock, peer:
        data = frame(PLUGIN, request(1, b"a"))
        peer.send(data[:8])
        peer.send(data[8:])
        assert connection.receive(inbox) == FIRST
        assert not inbox


def test_eight_bytes_inside_a_frame_are_not_a_header(ends: Ends) -> None:
    """Eight bytes in the middle of a frame do not make `receive` wait for more."""
    ends.connection.limit_waiting(receive_s=0.5)  # rather than hang
    data = frame(PLUGIN, request(1, b"a"))
    assert ends.read(data[:-8], data[-8:]) == [FIRST]


def test_two_frames_that_come_together(ends: Ends) -> None:
    """Calls that arrive in one read are queued in their order."""
    data = frame(PLUGIN, request(1, b"a")) + frame(PLUGIN, request(3, b"c"))
    assert ends.read(data) == [FIRST, THIRD]


def test_two_messages_in_one_frame(ends: Ends) -> None:
    """A reader ignores where frames end."""
    data = frame(PLUGIN, request(1, b"a") + request(3, b"c"))
    assert ends.read(data) == [FIRST, THIRD]


@pytest.mark.parametrize("size", [1, 9, 10, 11])
def test_one_message_in_two_frames(ends: Ends, size: int) -> None:
    """A message may be cut anywhere, with frames of another id in between."""
    ends.connection.client.call("s", "m", b"")
    data = request(1, b"a")
    first, second = frame(PLUGIN, data[:size]), frame(PLUGIN, data[size:])
    between = frame(RUNTIME, response(1, b"x"))
    assert ends.read(first + between, second) == [Answer(1, 0, "", b"x"), FIRST]


@pytest.mark.parametrize(
    "start",
    [
        MUX_HEADER.pack(9, 0)[:4],
        MUX_HEADER.pack(9, 1000) + b"x",
        MUX_HEADER.pack(PLUGIN, 1000) + message(1, DATA) + b"\x00",
        frame(PLUGIN, request(1, bytes(900))[:3]),
        frame(PLUGIN, request(1, bytes(900))[:12]),
        frame(PLUGIN, TTRPC_HEADER.pack(5 * MIB, 1, REQUEST, 0)),
        frame(RUNTIME, response(1, bytes(900))[:3]),
        frame(RUNTIME, response(1, bytes(900))[:12]),
        frame(RUNTIME, TTRPC_HEADER.pack(5 * MIB, 1, RESPONSE, 0)),
    ],
)
def test_inside_a_message_nothing_passes_for_a_call(ends: Ends, start: bytes) -> None:
    """Bytes that look like a whole call are payload while a message is incomplete."""
    decoy = frame(PLUGIN, request(3, b"c"))
    inbox: deque[Any] = deque()
    for chunk in start, decoy:
        ends.peer.sendall(chunk)
        assert ends.connection.receive(inbox) is None
    other = Ends()
    assert list(inbox) == other.read(
        *(bytes(byte) for byte in chop(start + decoy, (1,)))
    )
    other.close()


@pytest.mark.parametrize("conn_id", [0, 3, 77, 0xFFFF_FFFF])
@pytest.mark.parametrize("payload", [b"", request(1, b"x"), bytes(5000)])
def test_frames_of_other_connections_are_dropped(
    ends: Ends, conn_id: int, payload: bytes
) -> None:
    """Frames for other ids have no effect, not even on the stream ids."""
    data = frame(PLUGIN, request(1, b"a"))
    assert ends.read(frame(conn_id, payload) + data[:20], data[20:]) == [FIRST]
    assert ends.read(frame(conn_id, payload)) == []
    assert ends.read(frame(PLUGIN, request(3, b"c"))) == [THIRD]


@pytest.mark.parametrize("conn_id", [PLUGIN, RUNTIME])
def test_empty_frames_are_harmless(ends: Ends, conn_id: int) -> None:
    """Empty frames may arrive between messages and inside a message."""
    data = request(1, b"a")
    chunks = frame(conn_id), frame(PLUGIN, data[:15]), frame(conn_id)
    assert ends.read(*chunks, frame(PLUGIN, data[15:])) == [FIRST]


def test_each_service_has_streams_of_its_own(ends: Ends) -> None:
    """A call and an answer may have the same stream id."""
    ends.connection.client.call("s", "m", b"")
    calls, answers = frame(PLUGIN, request(1, b"a")), frame(RUNTIME, response(1))
    assert ends.read(answers + calls) == [Answer(1, 0, "", b""), FIRST]


def test_a_message_that_is_too_long(ends: Ends) -> None:
    """A message over the limit is refused at its header, and the next is served."""
    body = bytes(16 * MIB + 1)
    size = READ_BUFFER // 2
    [refusal] = ends.read(frame(PLUGIN, TTRPC_HEADER.pack(len(body), 1, REQUEST, 0)))
    assert isinstance(refusal, RefusedCall)
    assert refusal[:2] == (1, Code.RESOURCE_EXHAUSTED)
    # In two frames: one has room for 16 MiB, and no more.
    data = frame(PLUGIN, body[MIB:]) + frame(PLUGIN, body[:MIB])
    data += frame(PLUGIN, request(3, b"c"))
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    assert ends.read(*chunks) == [THIRD]
    assert not ends.connection.server.decoder._payload


@pytest.mark.parametrize("more", [b"", b"x"])
def test_a_frame_of_four_gib_breaks_the_connection(ends: Ends, more: bytes) -> None:
    """A header that claims 4 GiB ends the connection before the payload arrives."""
    ends.peer.sendall(MUX_HEADER.pack(PLUGIN, 0xFFFF_FFFF) + more)
    ends.peer.shutdown(socket.SHUT_WR)
    with pytest.raises(RemoteProtocolError, match="claims 4294967295 bytes"):
        ends.connection.receive(deque())


def test_another_type_where_an_answer_is_due(ends: Ends) -> None:
    """A message that is no response, on the stream of a call, ends the connection."""
    ends.connection.client.call("s", "m", b"")
    with pytest.raises(RemoteProtocolError, match="message type 3 on stream 1"):
        ends.read(frame(RUNTIME, message(1, 3)))


# The end


@pytest.mark.parametrize(
    "data",
    [
        b"",
        frame(PLUGIN, request(1)),
        frame(9),
        frame(PLUGIN),
        frame(PLUGIN, request(2)),
    ],
    ids=["nothing", "a call", "a frame of nobody", "an empty frame", "a bad stream id"],
)
def test_the_end_between_messages(ends: Ends, data: bytes) -> None:
    """An end of file between messages is reported as such."""
    assert ends.read_to_end(data) == "end of file"


@pytest.mark.parametrize(
    "data",
    [
        frame(PLUGIN, request(1))[:1],
        frame(PLUGIN, request(1))[:7],
        frame(PLUGIN, request(1))[:8],
        frame(PLUGIN, request(1))[:9],
        frame(PLUGIN, request(1))[:-1],
        frame(PLUGIN, request(1)[:3]),
        frame(PLUGIN, request(1)[:10]),
        frame(PLUGIN, request(1)[:-1]),
        frame(RUNTIME, response(1, b"x")[:-1]),
        frame(PLUGIN, TTRPC_HEADER.pack(5 * MIB, 1, REQUEST, 0)),
        frame(9, b"x")[:-1],
    ],
)
def test_the_end_inside_a_message(ends: Ends, data: bytes) -> None:
    """An end of file inside a header or a payload is reported as such."""
    assert ends.read_to_end(data) == "end of file inside a message"


def test_a_reset_is_an_end() -> None:
    """A peer that closes with unread bytes resets the connection, which ends it."""
    ends = Ends()
    ends.connection.send(b"unread")
    ends.peer.close()
    with pytest.raises(ConnectionClosed, match="receive: Connection reset by peer"):
        ends.connection.receive(deque())
    with pytest.raises(ConnectionClosed, match="send: Broken pipe"):
        ends.connection.send(b"x")
    ends.connection.close()


@pytest.mark.parametrize("start", [b"", frame(PLUGIN, request(1))[:8]])
def test_a_silent_peer_is_given_up(ends: Ends, start: bytes) -> None:
    """With a limit on receiving, silence ends the connection."""
    ends.connection.limit_waiting(receive_s=0.01)
    ends.peer.sendall(start)
    with pytest.raises(ConnectionClosed, match="silent for too long"):
        ends.connection.receive(deque())


def test_a_peer_that_does_not_read_is_given_up(ends: Ends) -> None:
    """With a limit on sending, a socket that stays full ends the connection."""
    ends.connection.limit_waiting(send_s=0.01)
    with pytest.raises(ConnectionClosed, match="send: "):
        ends.connection.send(bytes(MIB))


def kernel_limit_s(connection: Connection, option: int) -> float:
    """Return how long the kernel lets a receive or a send wait."""
    with socket.socket(fileno=socket.dup(connection.fileno())) as sock:
        seconds, micros = struct.unpack(
            "ll", sock.getsockopt(socket.SOL_SOCKET, option, 16)
        )
    return float(seconds + micros / 1_000_000)


@pytest.mark.parametrize(
    ("limits", "receive_s", "send_s"),
    [({}, 0, 0), ({"receive_s": 0.25}, 0.25, 0), ({"send_s": 91.5}, 0, 91.5)],
)
def test_limits_reach_the_kernel(
    ends: Ends, limits: dict[str, float], receive_s: float, send_s: float
) -> None:
    """Each limit is set in the kernel, within 10 ms; 0 means no limit."""
    ends.connection.limit_waiting(receive_s=5, send_s=5)
    ends.connection.limit_waiting(**limits)
    found = [
        kernel_limit_s(ends.connection, option)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)
    ]
    assert found == pytest.approx([receive_s, send_s], abs=0.01)


def test_ending_wakes_both_sides(ends: Ends) -> None:
    """After `end`, both sides read an end of file; ending twice is no error."""
    ends.connection.end()
    ends.connection.end()
    with pytest.raises(ConnectionClosed, match="end of file"):
        ends.connection.receive(deque())
    assert ends.peer.recv(1) == b""
    ends.connection.close()
    ends.connection.end()


def test_ending_only_the_reading(ends: Ends) -> None:
    """After `end(reading_only=True)` an answer can still be sent."""
    ends.connection.end(reading_only=True)
    with pytest.raises(ConnectionClosed, match="end of file"):
        ends.connection.receive(deque())
    ends.connection.send(b"bye")
    assert ends.peer.recv(10) == b"bye"


# Writing


def test_what_a_connection_writes(ends: Ends) -> None:
    """Answers leave on the id that is served, calls on the id that is called."""
    connection = ends.connection
    assert connection.reply(1, b"x") == frame(PLUGIN, response(1, b"x"))
    failure = connection.failure(3, Code.UNKNOWN, "no")
    assert failure == frame(PLUGIN, message(3, RESPONSE, b"\n\x06\x08\x02\x12\x02no"))
    _, head, body = connection.client.call("service.Name", "Method", b"a")
    connection.send_call(head, body)
    assert ends.peer.recv(1000) == frame(RUNTIME, request(1, b"a"))
    with pytest.raises(LocalProtocolError):
        connection.reply(1, bytes(4 * MIB))


def test_a_connection_that_speaks_and_listens_like_go() -> None:
    """A given demultiplexer sees each frame, and a given packer writes each."""
    sock, peer = socket.socketpair()
    connection = Connection(
        sock, serves=RUNTIME, calls=PLUGIN, demux=GoDemux(), packer=go_pack
    )
    inbox: deque[Any] = deque()
    with sock, peer:
        peer.sendall(frame(RUNTIME, request(1, b"a")))
        assert connection.receive(inbox) is None
        assert list(inbox) == [FIRST]
        peer.sendall(frame(RUNTIME, request(3, bytes(5000))))
        with pytest.raises(RemoteProtocolError, match="cannot allocate memory"):
            connection.receive(inbox)
        head, body = connection.server.reply(1, bytes(5000))
        assert connection.reply(1, bytes(5000)) == go_pack(RUNTIME, head, body)
        assert connection.reply(1, bytes(5000)) != pack(RUNTIME, head, body)


def test_nothing_follows_half_a_frame(ends: Ends) -> None:
    """After a send that timed out halfway, the connection sends nothing more."""
    ends.connection.limit_waiting(send_s=0.01)
    with pytest.raises(ConnectionClosed, match="send"):
        ends.connection.send(b"x" * MIB)
    got = len(ends.peer.recv(MIB))  # there is room again
    with pytest.raises(ConnectionClosed, match="send"):
        ends.connection.send(b"next")
    while part := ends.peer.recv(MIB):
        assert not part.strip(b"x")
        got += len(part)
    assert got < MIB
