"""What must hold for any bytes at all: hypothesis and the fuzzers in hack/fuzzing ask.

Every function takes raw input and raises nothing, or there is a bug.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from wire.framing import (
    MUX_HEADER,
    PLUGIN,
    RUNTIME,
    TTRPC_HEADER,
    chop,
    claims,
    read_frames,
    read_messages,
)

from nriplugin.errors import RemoteProtocolError
from nriplugin.nri.testing.gopeer import GoDemux, GoReader
from nriplugin.wire.mux import Demux
from nriplugin.wire.single_frame import read_call
from nriplugin.wire.ttrpc import Answer, Call, Client, RefusedCall, Server

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nriplugin.wire.ttrpc import Decoder

Event = Call | RefusedCall | Answer

# Small, so that short inputs reach them.
MAX_FRAME, MAX_MESSAGE = 600, 80

# Calls of ours that wait for an answer, on streams 1, 3, 5...
CALLS = 6


def demux_state(demux: Demux) -> tuple[object, ...]:
    """Return everything that a demultiplexer remembers."""
    return bytes(demux._header), demux._left, demux._left and demux._id


def decoder_state(decoder: Decoder) -> tuple[object, ...]:
    """Return everything that a decoder remembers."""
    payload = bytes(decoder._payload)
    return bytes(decoder._header), decoder._current, payload, decoder._discard


class Receiver:
    """The plugin's side of a connection, without a socket."""

    def __init__(
        self,
        max_frame: int = MAX_FRAME,
        max_request: int = MAX_MESSAGE,
        max_reply: int = MAX_MESSAGE,
    ) -> None:
        self.demux = Demux(max_frame)
        self.server = Server(max_request)
        self.client = Client(max_reply)
        for _ in range(CALLS):
            self.client.call("s", "m", b"")

    def feed(self, chunks: Iterable[memoryview]) -> tuple[list[Event], str]:
        """Return the events, and the error that ended the connection, if any."""
        events: list[Event] = []
        try:
            for chunk in chunks:
                for conn_id, piece, _ in self.demux.feed(chunk):
                    if conn_id == PLUGIN:
                        events += self.server.feed(piece)
                    elif conn_id == RUNTIME:
                        events += self.client.feed(piece)
                self.check_bounds()
        except RemoteProtocolError as exc:
            return events, str(exc)
        return events, ""

    def check_bounds(self) -> None:
        """Check that at most one header and one payload are held per layer."""
        assert len(self.demux._header) < MUX_HEADER.size
        for decoder in self.server.decoder, self.client.decoder:
            assert len(decoder._header) < TTRPC_HEADER.size
            assert len(decoder._payload) <= decoder._max_message

    def state(self) -> tuple[object, ...]:
        """Return everything that the receiver remembers."""
        return (
            demux_state(self.demux),
            decoder_state(self.server.decoder),
            decoder_state(self.client.decoder),
            self.server.last_stream,
            self.client._open,
        )

    @property
    def at_rest(self) -> bool:
        """Whether no frame and no message is incomplete."""
        return self.state()[:3] == Receiver().state()[:3]


def check_cuts(data: bytes, sizes: Sequence[int]) -> None:
    """However the input is cut, the outcome is the same.

    What came before an error in the same read may be lost with the connection, so
    there only the beginning must be the same.
    """
    bytewise = Receiver()
    events, error = bytewise.feed(chop(data, (1,)))
    for chunks in [memoryview(data)], chop(data, sizes):
        receiver = Receiver()
        found, why = receiver.feed(chunks)
        assert bool(why) == bool(error)
        if error:
            assert found == events[: len(found)]
        else:
            assert found == events
            assert receiver.state() == bytewise.state()


def check_one_step(data: bytes, last_stream: int) -> None:
    """`read_call` reads one whole call as the general codecs do, and nothing else."""
    server, general = Server(MAX_MESSAGE), Receiver()
    server.last_stream = general.server.last_stream = last_stream
    call = read_call(server, PLUGIN, memoryview(data))
    events, error = general.feed([memoryview(data)])
    if call is not None:
        assert (events, error) == ([call], "")
        assert type(call) is Call
        assert server.last_stream == general.server.last_stream
        assert general.at_rest
    else:
        assert server.last_stream == last_stream
        assert not (is_one_message(data) and any(type(e) is Call for e in events))


def is_one_message(data: bytes) -> bool:
    """Whether this is one frame that holds one message, and nothing else."""
    frames = read_frames(data)
    if len(frames) != 1 or claims(data) != [len(data) - MUX_HEADER.size]:
        return False
    payload = frames[0][1]
    lengths = [length for *_, length in read_messages(payload, MAX_MESSAGE)]
    return lengths == [len(payload) - TTRPC_HEADER.size]


# The model of a Go peer


def check_go_demux(data: bytes, sizes: Sequence[int]) -> None:
    """`GoDemux` returns what `Demux` does, and its verdict ignores the cuts."""
    whole, cut, plain = GoDemux(), GoDemux(), Demux()
    fine = _judge(whole, [memoryview(data)])
    assert _judge(cut, chop(data, sizes)) == fine
    if fine:
        assert _go_state(cut) == _go_state(whole)
        plain.feed(memoryview(data))
        assert demux_state(whole) == demux_state(plain)


def _judge(demux: GoDemux, chunks: Iterable[memoryview]) -> bool:
    try:
        for chunk in chunks:
            demux.feed(chunk)
            assert len(demux._readers) <= 2
            assert len(demux._frame) <= demux._max_frame
    except RemoteProtocolError:
        return False
    return True


def _go_state(demux: GoDemux) -> list[tuple[object, ...]]:
    return [
        (conn_id, bytes(reader._header), reader._body_left, reader._queued)
        for conn_id, reader in sorted(demux._readers.items())
    ]


class NoMemory(Exception):
    """A frame does not fit the buffer into which Go reads."""


class Starved(Exception):
    """All frames were read."""


class GoTwin:
    """Go's own code, line by line: bufio.Reader over a mux connection.

    Slower and longer than the model that we use, and without its queue.
    """

    SIZE = 4096

    def __init__(self, frames: Iterable[bytes]) -> None:
        self._frames = deque(frames)
        self._buffer = b""

    def run(self) -> int:
        """Receive messages; return how many frames could be read."""
        total = len(self._frames)
        try:
            while True:
                length = int.from_bytes(self._read_full(10)[:4], "big")
                if length > 4 << 20:
                    self._discard(length)
                else:
                    self._read_full(length)
        except Starved:
            return total
        except NoMemory:
            return total - len(self._frames) - 1

    def _read_frame(self, room: int) -> bytes:
        if not self._frames:
            raise Starved
        payload = self._frames.popleft()
        if room < len(payload):
            raise NoMemory
        return payload

    def _read(self, size: int) -> bytes:
        if not self._buffer:
            if size >= self.SIZE:
                return self._read_frame(size)
            self._buffer = self._read_frame(self.SIZE)
        data, self._buffer = self._buffer[:size], self._buffer[size:]
        return data

    def _read_full(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._read(size - len(data))
        return data

    def _discard(self, size: int) -> None:
        while size:
            if not self._buffer:
                self._buffer = self._read_frame(self.SIZE)
            skipped = len(self._buffer[:size])
            self._buffer = self._buffer[skipped:]
            size -= skipped


def check_go_reader(frames: Sequence[bytes]) -> None:
    """The model fails where Go does, or earlier because of a full queue."""
    reader, survived, why = GoReader(), 0, ""
    try:
        for payload in frames:
            reader.frame(payload)
            survived += 1
    except RemoteProtocolError as exc:
        why = str(exc)
    expected = GoTwin(frames).run()
    assert survived == expected or ("queue" in why and survived < expected)
