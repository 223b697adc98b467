from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from wire.framing import (
    CONFIGURED,
    DATA,
    MIB,
    PLUGIN,
    REGISTER,
    REGISTERED,
    REQUEST,
    RESPONSE,
    RUNTIME,
    TTRPC_HEADER,
    UNIMPLEMENTED,
    chop,
    cuts,
    message,
    read_frames,
    request,
    response,
)
from wire.invariants import decoder_state

from nriplugin.api import nri_pb2 as nri
from nriplugin.api.ttrpc_pb2 import Response, Status
from nriplugin.errors import LocalProtocolError, RemoteProtocolError
from nriplugin.nri.methods import RUNTIME_SERVICE
from nriplugin.wire.mux import pack
from nriplugin.wire.ttrpc import (
    MAX_MESSAGE,
    MAX_REQUEST,
    Answer,
    Call,
    Client,
    Code,
    Decoder,
    Message,
    RefusedCall,
    Server,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Field 1 of either envelope, claiming more bytes than there are; and one whose text is
# not UTF-8 (the service of a request, the status message of a response).
TRUNCATED = b"\x0a\x7f"
NOT_UTF8 = {REQUEST: b"\x0a\x01\xff", RESPONSE: b"\x0a\x03\x12\x01\xff"}


def call(stream_id: int, payload: bytes = b"", timeout_ns: int = 0) -> Call:
    """Return the Call that a server reads from `framing.request`."""
    return Call(stream_id, "service.Name", "Method", payload, timeout_ns)


def serve(*messages: bytes, limit: int = MAX_REQUEST) -> list[Call | RefusedCall]:
    """Feed a new server."""
    return Server(limit).feed(memoryview(b"".join(messages)))


def calling(calls: int = 1, limit: int = MAX_MESSAGE) -> Client:
    """Return a client with this many open calls, on streams 1, 3, 5 and so on."""
    client = Client(limit)
    for _ in range(calls):
        client.call("s", "m", b"")
    return client


def answer(*messages: bytes, calls: int = 1, limit: int = MAX_MESSAGE) -> list[Answer]:
    """Feed a client that has open calls."""
    return calling(calls, limit).feed(memoryview(b"".join(messages)))


# The reference's golden bytes, both ways


def payload_of(data: bytes) -> memoryview:
    """Return the payload of the only frame."""
    [(_, payload)] = read_frames(data)
    return memoryview(payload)


def test_golden_registration_written() -> None:
    """A client's call is the reference's, byte for byte."""
    body = nri.RegisterPluginRequest(plugin_name="test", plugin_idx="00")
    stream_id, *parts = Client().call(
        RUNTIME_SERVICE, "RegisterPlugin", body.SerializeToString()
    )
    assert stream_id == 1
    assert pack(RUNTIME, *parts) == REGISTER


def test_golden_registration_read() -> None:
    """A server reads the reference's call."""
    [event] = Server().feed(payload_of(REGISTER))
    assert isinstance(event, Call)
    assert event[:3] == (1, RUNTIME_SERVICE, "RegisterPlugin")
    assert event.timeout_ns == 0
    body = nri.RegisterPluginRequest.FromString(event.payload)
    assert (body.plugin_name, body.plugin_idx) == ("test", "00")


def test_golden_answers_written() -> None:
    """A server's answers, empty, full and failed, are the reference's."""
    server = Server()
    configured = nri.ConfigureResponse(events=0x7FF).SerializeToString()
    failure = server.fail(3, Code.UNIMPLEMENTED, "method Foo")
    assert pack(RUNTIME, *server.reply(1, b"")) == REGISTERED
    assert pack(PLUGIN, *server.reply(1, configured)) == CONFIGURED
    assert pack(PLUGIN, *failure) == UNIMPLEMENTED


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (REGISTERED, Answer(1, 0, "", b"")),
        (CONFIGURED, Answer(1, 0, "", b"\x10\xff\x0f")),
        (UNIMPLEMENTED, Answer(3, 12, "method Foo", b"")),
    ],
)
def test_golden_answers_read(data: bytes, expected: Answer) -> None:
    """A client reads the reference's answers."""
    assert calling(2).feed(payload_of(data)) == [expected]


def test_status_codes_are_those_of_grpc() -> None:
    """The status codes have gRPC's numbers."""
    assert {code.name: int(code) for code in Code} == {
        "OK": 0,
        "UNKNOWN": 2,
        "INVALID_ARGUMENT": 3,
        "DEADLINE_EXCEEDED": 4,
        "RESOURCE_EXHAUSTED": 8,
        "UNIMPLEMENTED": 12,
        "INTERNAL": 13,
    }


# The decoder


STREAM = message(1, REQUEST, b"abc") + message(0, 0) + message(9, RESPONSE, b"d", 255)
MESSAGES = [
    Message(1, REQUEST, b"abc", 3),
    Message(0, 0, b"", 0),
    Message(9, RESPONSE, b"d", 1),
]


def test_messages_survive_every_cut() -> None:
    """Wherever the bytes are cut, the same messages come out and nothing is left."""
    for chunks in cuts(STREAM):
        decoder = Decoder()
        found = [found for chunk in chunks for found in decoder.feed(chunk)]
        assert found == MESSAGES
        assert decoder.at_rest
        assert decoder_state(decoder) == decoder_state(Decoder())


@pytest.mark.parametrize("size", range(1, len(message(1, REQUEST, b"abc"))))
def test_inside_a_message_is_not_at_rest(size: int) -> None:
    """A decoder is at rest only between messages."""
    decoder = Decoder()
    assert decoder.at_rest
    decoder.feed(memoryview(message(1, REQUEST, b"abc"))[:size])
    assert not decoder.at_rest
    assert decoder.feed(memoryview(b"")) == []
    assert not decoder.at_rest


@pytest.mark.parametrize("sizes", [(13,), (12, 1)])
def test_a_payload_outlives_the_buffer_it_was_read_into(sizes: tuple[int, ...]) -> None:
    """A message owns its bytes, because the receive buffer is reused."""
    decoder, found = Decoder(), []
    for chunk in chop(message(1, REQUEST, b"abc"), sizes):
        buffer = bytearray(chunk)
        found += decoder.feed(memoryview(buffer))
        buffer[:] = bytes(len(buffer))
    assert found == MESSAGES[:1]


def test_a_message_that_is_too_long_is_discarded_as_it_arrives() -> None:
    """A message over the limit is reported once and not kept; the next is read."""
    too_long = message(1, REQUEST, b"12345")
    for chunks in cuts(too_long + message(3, REQUEST, b"1234")):
        decoder, found = Decoder(max_message=4), []
        for chunk in chunks:
            found += decoder.feed(chunk)
            assert len(decoder._payload) <= 4
        assert found == [Message(1, REQUEST, None, 5), Message(3, REQUEST, b"1234", 4)]
        assert decoder.at_rest


def test_a_discarded_message_is_not_at_rest() -> None:
    """While a message is being discarded, the next byte does not start another."""
    decoder = Decoder(max_message=4)
    head, body = chop(message(1, REQUEST, b"12345"), (10, 5))
    assert decoder.feed(head) == [Message(1, REQUEST, None, 5)]
    assert not decoder.at_rest
    assert decoder.feed(body) == []
    assert decoder.at_rest


def test_the_longest_claim_reserves_nothing() -> None:
    """A header that claims 4 GiB is reported at once and allocates nothing."""
    decoder = Decoder()
    head = TTRPC_HEADER.pack(0xFFFF_FFFF, 1, REQUEST, 0)
    assert decoder.feed(memoryview(head)) == [Message(1, REQUEST, None, 0xFFFF_FFFF)]
    assert decoder.feed(memoryview(bytes(MIB))) == []
    assert not decoder._payload


# The server


def test_two_messages_in_one_piece() -> None:
    """Several calls that arrive together come out together, in order."""
    assert serve(request(1, b"a"), request(3, b"b")) == [call(1, b"a"), call(3, b"b")]


def test_one_message_in_many_frames() -> None:
    """A server sees no frame boundaries."""
    server, data = Server(), request(1, b"abc")
    found = [event for piece in chop(data, (3,)) for event in server.feed(piece)]
    assert found == [call(1, b"abc")]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (request(1, timeout_ns=2_000_000_000), call(1, timeout_ns=2_000_000_000)),
        (request(1, b"x"), call(1, b"x")),
        (request(1, metadata=[("traceparent", "00-1"), ("", "")]), call(1)),
        (request(1)[:9] + b"\xff" + request(1)[10:], call(1)),
        (message(1, REQUEST), Call(1, "", "", b"", 0)),
        (request(0xFFFF_FFFF), call(0xFFFF_FFFF)),
    ],
    ids=["timeout", "no timeout", "metadata", "flags", "empty", "largest stream id"],
)
def test_what_a_server_accepts(data: bytes, expected: Call) -> None:
    """A server accepts tracing metadata, flags and absent fields."""
    assert serve(data) == [expected]


@pytest.mark.parametrize("type_", [0, RESPONSE, DATA, 4, 255])
def test_a_server_ignores_what_is_no_request(type_: int) -> None:
    """A server ignores messages of any other type."""
    noise = message(3, type_, TRUNCATED) + message(5, type_, bytes(300))
    assert serve(noise, request(1), limit=200) == [call(1)]


@pytest.mark.parametrize(
    ("stream_id", "reason"),
    [
        (0, "stream id 0 is even"),
        (2, "stream id 2 is even"),
        (8, "stream id 8 is even"),
        (5, "stream id 5 is not above 5"),
        (3, "stream id 3 is not above 5"),
    ],
)
def test_a_server_refuses_a_bad_stream_id(stream_id: int, reason: str) -> None:
    """An even, reused or lower id is refused on that id, and the next call served."""
    first, refusal, last = serve(request(5), request(stream_id), request(7))
    assert (first, last) == (call(5), call(7))
    assert isinstance(refusal, RefusedCall)
    assert refusal[:2] == (stream_id, Code.INVALID_ARGUMENT)
    assert refusal.reason.startswith(reason)


@pytest.mark.parametrize("envelope", [TRUNCATED, NOT_UTF8[REQUEST]])
def test_a_server_refuses_an_undecodable_envelope(envelope: bytes) -> None:
    """A bad envelope is refused on its stream; the next call is served."""
    refusal, again, last = serve(message(1, REQUEST, envelope), request(1), request(3))
    assert isinstance(refusal, RefusedCall)
    assert refusal[:2] == (1, Code.INVALID_ARGUMENT)
    assert "cannot be decoded" in refusal.reason
    assert isinstance(again, RefusedCall)
    assert last == call(3)


def test_a_server_refuses_what_is_too_long() -> None:
    """One byte over the limit is refused by size; the limit itself is served."""
    body = len(request(1, bytes(99))) - TTRPC_HEADER.size
    data = request(1, bytes(100)), request(1), request(3, bytes(99))
    refusal, again, last = serve(*data, limit=body)
    assert refusal == RefusedCall(
        1, Code.RESOURCE_EXHAUSTED, f"message of {body + 1} bytes, limit {body}"
    )
    assert isinstance(again, RefusedCall)
    assert last == call(3, bytes(99))


def test_sixteen_mib_is_the_limit() -> None:
    """By default a request of exactly 16 MiB is taken, and no longer one."""
    head = TTRPC_HEADER.pack(16 * MIB + 1, 1, REQUEST, 0)
    [refusal] = serve(head)
    assert isinstance(refusal, RefusedCall)
    assert refusal.code == Code.RESOURCE_EXHAUSTED
    envelope = len(request(1, bytes(16 * MIB))) - 10 - 16 * MIB
    [event] = serve(request(1, bytes(16 * MIB - envelope)))
    assert event == call(1, bytes(16 * MIB - envelope))


def test_an_answer_of_four_mib_is_the_longest() -> None:
    """A client accepts answers of up to 4 MiB from a runtime of any release."""
    envelope = len(response(1, bytes(4 * MIB))) - 10 - 4 * MIB
    [taken] = answer(response(1, bytes(4 * MIB - envelope)))
    assert taken.code == Code.OK
    [refused] = answer(response(1, bytes(4 * MIB - envelope + 1)))
    assert refused.code == Code.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("payload", [b"", b"x", bytes(200)])
def test_a_reply_reads_back(payload: bytes) -> None:
    """A client reads what a server replied, an empty reply included."""
    head, body = Server().reply(1, payload)
    assert bool(body) == bool(payload)
    assert answer(head, body) == [Answer(1, 0, "", payload)]


def test_a_failure_reads_back() -> None:
    """A client reads how a server failed."""
    data = Server().fail(1, Code.INTERNAL, "no")
    assert answer(*data) == [Answer(1, Code.INTERNAL, "no", b"")]


def test_a_long_reason_is_cut() -> None:
    """An error message never makes an answer too long."""
    [failed] = answer(*Server().fail(1, Code.UNKNOWN, "é" * 5_000_000))
    assert failed.reason == "é" * 1024


def test_a_reason_need_not_be_unicode() -> None:
    """A handler's exception may quote a file name that is not UTF-8."""
    reason = "cannot use " + os.fsdecode(b"/sys/fs/cgroup/\xff")
    [failed] = answer(*Server().fail(1, Code.UNKNOWN, reason))
    assert failed.code == Code.UNKNOWN
    assert failed.reason.startswith("cannot use /sys/fs/cgroup/")


def longest(send: Callable[[bytes], object]) -> int:
    """Return how long a payload, of up to 200 bytes, can be sent."""
    for size in range(200, 0, -1):
        try:
            send(bytes(size))
        except LocalProtocolError:
            continue
        return size
    return 0


def test_a_reply_that_is_too_long_is_not_sent() -> None:
    """The limit holds for the message, envelope included."""
    server = Server(max_reply=100)
    size = longest(lambda payload: server.reply(1, payload))
    assert len(server.reply(1, bytes(size))[1]) == 100
    with pytest.raises(LocalProtocolError, match="reply of 101 bytes, at most 100"):
        server.reply(1, bytes(size + 1))


def test_a_reply_of_four_mib_is_the_longest() -> None:
    """A Go peer does not survive a longer one."""
    envelope = 5
    head, body = Server().reply(1, bytes(4 * MIB - envelope))
    assert (len(head), len(body)) == (10, 4 * MIB)
    with pytest.raises(LocalProtocolError):
        Server().reply(1, bytes(4 * MIB - envelope + 1))


# The client


def test_stream_ids_are_odd_and_count_up() -> None:
    """A client numbers its calls 1, 3, 5."""
    client = Client()
    assert [client.call("s", "m", b"")[0] for _ in range(3)] == [1, 3, 5]


def test_a_call_reads_back() -> None:
    """A server reads what a client called, deadline and metadata included."""
    _, head, body = Client().call("s", "m", b"p", 5, {"traceparent": "00", "k": ""})
    assert serve(head, body) == [Call(1, "s", "m", b"p", 5)]
    assert (head + body).endswith(
        b"\x2a\x11\x0a\x0btraceparent\x12\x0200\x2a\x03\x0a\x01k"
    )


def test_a_call_that_is_too_long_is_not_sent() -> None:
    """A refused call uses no stream id; a shorter one can be sent."""
    client = Client(max_message=100)
    size = longest(lambda payload: Client(100).call("s", "m", payload))
    with pytest.raises(LocalProtocolError, match="m request of 101 bytes, at most 100"):
        client.call("s", "m", bytes(size + 1))
    assert client.feed(memoryview(response(1))) == []
    stream_id, head, body = client.call("s", "m", bytes(size))
    assert (stream_id, len(head), len(body)) == (1, 10, 100)


def test_a_call_of_four_mib_is_the_longest() -> None:
    """The default limit is that of every ttRPC implementation."""
    envelope = 5
    _, _, body = Client().call("", "", bytes(4 * MIB - envelope))
    assert len(body) == 4 * MIB
    with pytest.raises(LocalProtocolError):
        Client().call("", "", bytes(4 * MIB - envelope + 1))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (message(1, RESPONSE), Answer(1, 0, "", b"")),
        (response(1, b"x", Status(code=0)), Answer(1, 0, "", b"x")),
        (response(1, b"x", Status(code=5, message="no")), Answer(1, 5, "no", b"x")),
        (message(1, RESPONSE, b"\x0a\x04\x08\x02\x1a\x00"), Answer(1, 2, "", b"")),
        (message(1, RESPONSE, b"", 7), Answer(1, 0, "", b"")),
    ],
    ids=["empty", "status 0", "both", "status with details", "flags"],
)
def test_what_a_client_accepts(data: bytes, expected: Answer) -> None:
    """An empty answer and a status of zero are a success."""
    assert answer(data) == [expected]


def test_answers_in_any_order() -> None:
    """An answer belongs to the call on its stream, in any order."""
    data = response(5, b"c"), response(1, b"a"), response(3, b"b")
    found = [(found.stream_id, found.payload) for found in answer(*data, calls=3)]
    assert found == [(5, b"c"), (1, b"a"), (3, b"b")]


@pytest.mark.parametrize("stream_id", [0, 2, 3, 0xFFFF_FFFF])
@pytest.mark.parametrize("type_", [0, REQUEST, RESPONSE, DATA, 255])
def test_a_client_ignores_unknown_streams(stream_id: int, type_: int) -> None:
    """A client ignores messages on streams without a call."""
    noise = message(stream_id, type_, TRUNCATED), message(stream_id, type_, bytes(99))
    assert answer(*noise, response(1, b"x"), limit=50) == [Answer(1, 0, "", b"x")]


def test_a_second_answer_is_ignored() -> None:
    """A client ignores further messages on a stream that was answered."""
    found = answer(response(1, b"a"), response(1, b"b"), message(1, DATA))
    assert [answer.payload for answer in found] == [b"a"]


def test_a_late_answer_is_ignored() -> None:
    """A client ignores the answer to a call that it gave up."""
    client = calling(2)
    client.forget(1)
    client.forget(99)
    late = response(1, b"late") + message(1, DATA) + response(3, b"x")
    assert client.feed(memoryview(late)) == [Answer(3, 0, "", b"x")]


@pytest.mark.parametrize("type_", [0, REQUEST, DATA, 4, 255])
def test_another_type_where_an_answer_is_due(type_: int) -> None:
    """A message that is no response, on the stream of a call, is an error."""
    text = f"message type {type_} on stream 1"
    with pytest.raises(RemoteProtocolError, match=text):
        answer(message(1, type_))


@pytest.mark.parametrize("envelope", [TRUNCATED, NOT_UTF8[RESPONSE]])
def test_a_client_reports_an_undecodable_envelope(envelope: bytes) -> None:
    """The call fails, and the connection goes on."""
    bad, good = answer(message(1, RESPONSE, envelope), response(3, b"x"), calls=2)
    assert bad[:2] == (1, Code.INTERNAL)
    assert "cannot be decoded" in bad.reason
    assert good == Answer(3, 0, "", b"x")


def test_a_client_reports_an_answer_that_is_too_long() -> None:
    """The call fails with the size, and the next answer is read."""
    fits = Response(payload=bytes(98)).SerializeToString()
    assert len(fits) == 100
    data = message(1, RESPONSE, fits + b"x"), message(3, RESPONSE, fits)
    for chunks in cuts(b"".join(data)):
        client = calling(2, limit=100)
        bad, good = [found for chunk in chunks for found in client.feed(chunk)]
        reason = "answer of 101 bytes, limit 100"
        assert bad == Answer(1, Code.RESOURCE_EXHAUSTED, reason, b"")
        assert good == Answer(3, 0, "", bytes(98))


# Without the C parser

PURE_PYTHON = f"""
from nriplugin.api.ttrpc_pb2 import Request
from nriplugin.wire.mux import HEADER as MUX
from nriplugin.wire.single_frame import read_call
from nriplugin.wire.ttrpc import HEADER, Client, Server
request, response = {NOT_UTF8[REQUEST]!r}, {NOT_UTF8[RESPONSE]!r}
call = memoryview(HEADER.pack(len(request), 1, 1, 0) + request)
answer = memoryview(HEADER.pack(len(response), 1, 2, 0) + response)
assert read_call(Server(), 1, memoryview(MUX.pack(1, len(call)) + call)) is None
[refusal] = Server().feed(call)
client = Client()
client.call("s", "m", b"")
[failure] = client.feed(answer)
print(refusal.code, failure.code)
"""


def test_text_that_is_not_utf8_with_the_pure_python_parser() -> None:
    """Pure-Python protobuf, as on musl, refuses bad text as the C parser does."""
    done = subprocess.run(
        [sys.executable, "-c", PURE_PYTHON],
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "3 13\n", done.stderr
