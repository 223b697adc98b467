"""ttRPC as NRI uses it: unary calls, in the roles of server and client.

A message is a 10-byte big-endian header (length, stream id, type, flags) and a
payload. The payload of a request and of a response is a protobuf envelope, `Request`
or `Response` of proto/nriplugin/api/ttrpc.proto. `Server` turns received bytes into
calls, `Client` turns them into answers; both return the bytes to send as a header and
a body for `mux.pack`.

Rules of this module:
- A bad request is refused on its own stream and the connection goes on, as in the Go
  implementation. Only a client can find the connection unusable.
- Memory grows with the bytes that arrive, never with the length that a header claims.
- NRI has no streaming: flags are written as zero, and a server ignores data messages.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from nriplugin.api.ttrpc_pb2 import Request, Response, Status
from nriplugin.errors import LocalProtocolError, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADER = Struct(">IIBB")

# The longest payload that ttRPC implementations accept. A Go receiver discards a longer
# one through its buffer of 4096 bytes, which fails behind the NRI mux and closes the
# connection, so neither `Server` nor `Client` ever sends more.
MAX_MESSAGE = 4 << 20

# The longest request that `Server` accepts. Go senders up to NRI 0.6.1 do not know the
# limit of 4 MiB and cannot send a Synchronize in several messages: on a node with
# thousands of containers theirs is one message of many megabytes. 16 MiB is the most
# that the mux of those releases can carry.
MAX_REQUEST = 16 << 20

REQUEST = 1
RESPONSE = 2

# What parsing raises on bad bytes. Pure-Python protobuf raises UnicodeDecodeError for
# text that is not UTF-8; the compiled implementation raises DecodeError for it, too.
UNDECODABLE = (DecodeError, UnicodeDecodeError)


class Code(IntEnum):
    """The gRPC status codes that ttRPC peers use."""

    OK = 0
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13


class Message(NamedTuple):
    """One ttRPC message; `payload` is None if it was too long and was discarded."""

    stream_id: int
    type: int
    payload: bytes | None
    length: int


class Decoder:
    """Cuts the bytes of one logical connection into messages.

    Holds at most one incomplete header and one incomplete payload of up to
    `max_message` bytes. A longer payload is reported at its header and then discarded
    byte by byte as it arrives.
    """

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        self._max_message = max_message
        # At most one of these is in use: the start of a header; a header (length,
        # stream id, type) with the start of its payload; a number of bytes to discard.
        self._header = bytearray()
        self._current: tuple[int, int, int] | None = None
        self._payload = bytearray()
        self._discard = 0

    @property
    def at_rest(self) -> bool:
        """Whether no message is incomplete, so that the next byte begins a message."""
        return not self._header and self._current is None and not self._discard

    def feed(self, data: memoryview) -> list[Message]:
        """Return the messages that `data` completes."""
        messages: list[Message] = []
        pos, end = 0, len(data)
        while True:
            if self._discard:
                take = min(self._discard, end - pos)
                self._discard -= take
                pos += take
            if self._current is None:
                if pos >= end:
                    return messages
                if not self._header and end - pos >= HEADER.size:
                    length, stream_id, type_, _ = HEADER.unpack_from(data, pos)
                    pos += HEADER.size
                else:
                    take = min(HEADER.size - len(self._header), end - pos)
                    self._header += data[pos : pos + take]
                    pos += take
                    if len(self._header) < HEADER.size:
                        return messages
                    length, stream_id, type_, _ = HEADER.unpack(self._header)
                    self._header.clear()
                if length > self._max_message:
                    messages.append(Message(stream_id, type_, None, length))
                    self._discard = length
                    continue
                if end - pos >= length:  # the whole payload is there: one copy
                    payload = bytes(data[pos : pos + length])
                    pos += length
                    messages.append(Message(stream_id, type_, payload, length))
                    continue
                self._current = length, stream_id, type_
            length, stream_id, type_ = self._current
            take = min(length - len(self._payload), end - pos)
            self._payload += data[pos : pos + take]
            pos += take
            if len(self._payload) < length:
                return messages
            messages.append(Message(stream_id, type_, bytes(self._payload), length))
            self._payload, self._current = bytearray(), None


class Call(NamedTuple):
    """A request that a server has to answer. `timeout_ns` is 0 if there is no limit."""

    stream_id: int
    service: str
    method: str
    payload: bytes
    timeout_ns: int


class RefusedCall(NamedTuple):
    """A request that a server refuses; the caller is to be sent this error status."""

    stream_id: int
    code: Code
    reason: str


class Server:
    """The side of a logical connection that is called.

    `last_stream` is the highest stream id so far. It and `max_request` are public
    because `single_frame.read_call` accepts calls in place of `accept`.
    """

    def __init__(
        self, max_request: int = MAX_REQUEST, max_reply: int = MAX_MESSAGE
    ) -> None:
        self.max_request = max_request
        self._max_reply = max_reply
        self.decoder = Decoder(max_request)
        self.last_stream = 0

    def feed(self, data: memoryview) -> list[Call | RefusedCall]:
        """Return the calls that `data` completes, served or refused, in their order."""
        accepted = map(self.accept, self.decoder.feed(data))
        return [call for call in accepted if call is not None]

    def accept(self, message: Message) -> Call | RefusedCall | None:
        """Return the call in a message; None for a type that a server ignores."""
        stream_id, type_, payload, length = message
        if type_ != REQUEST:
            return None
        if stream_id % 2 == 0:
            reason = f"stream id {stream_id} is even, a client's are odd"
            return RefusedCall(stream_id, Code.INVALID_ARGUMENT, reason)
        if stream_id <= self.last_stream:
            reason = f"stream id {stream_id} is not above {self.last_stream}"
            return RefusedCall(stream_id, Code.INVALID_ARGUMENT, reason)
        self.last_stream = stream_id
        if payload is None:
            reason = f"message of {length} bytes, limit {self.max_request}"
            return RefusedCall(stream_id, Code.RESOURCE_EXHAUSTED, reason)
        try:
            request = Request.FromString(payload)
        except UNDECODABLE:
            reason = "the request envelope cannot be decoded"
            return RefusedCall(stream_id, Code.INVALID_ARGUMENT, reason)
        return Call(
            stream_id,
            request.service,
            request.method,
            request.payload,
            request.timeout_nano,
        )

    def reply(self, stream_id: int, payload: bytes) -> tuple[bytes, bytes]:
        """Return header and body of a successful answer.

        Raises:
            LocalProtocolError: the answer is longer than a message may be.
        """
        body = Response(payload=payload).SerializeToString() if payload else b""
        if len(body) > self._max_reply:
            raise LocalProtocolError(
                f"reply of {len(body)} bytes, at most {self._max_reply} are allowed"
            )
        return HEADER.pack(len(body), stream_id, RESPONSE, 0), body

    def fail(self, stream_id: int, code: int, reason: str) -> tuple[bytes, bytes]:
        """Return header and body of an error answer."""
        # A reason may quote bytes that the peer or a user chose, so its length is cut,
        # and surrogates, which protobuf cannot encode, are replaced.
        reason = reason[:1024].encode("utf-8", "replace").decode()
        status = Status(code=code, message=reason)
        body = Response(status=status).SerializeToString()
        return HEADER.pack(len(body), stream_id, RESPONSE, 0), body


class Answer(NamedTuple):
    """The outcome of a call that a client made; `code` is 0 for success."""

    stream_id: int
    code: int
    reason: str
    payload: bytes


class Client:
    """The side of a logical connection that calls. Stream ids are 1, 3, 5 and so on."""

    def __init__(self, max_message: int = MAX_MESSAGE) -> None:
        self._max_message = max_message
        self.decoder = Decoder(max_message)
        self._next_stream = 1
        self._open: set[int] = set()

    def call(
        self,
        service: str,
        method: str,
        payload: bytes,
        timeout_ns: int = 0,
        metadata: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes, bytes]:
        """Return stream id, header and body of a new call.

        Raises:
            LocalProtocolError: the request is longer than a message may be.
        """
        request = Request(
            service=service, method=method, payload=payload, timeout_nano=timeout_ns
        )
        for key, value in (metadata or {}).items():
            request.metadata.add(key=key, value=value)
        body = request.SerializeToString()
        if len(body) > self._max_message:
            raise LocalProtocolError(
                f"{method} request of {len(body)} bytes, "
                f"at most {self._max_message} are allowed"
            )
        stream_id = self._next_stream
        self._next_stream += 2
        self._open.add(stream_id)
        return stream_id, HEADER.pack(len(body), stream_id, REQUEST, 0), body

    def forget(self, stream_id: int) -> None:
        """Stop waiting for the answer to a call; a late answer is ignored."""
        self._open.discard(stream_id)

    def feed(self, data: memoryview) -> list[Answer]:
        """Return the answers that `data` completes, to calls that are still open.

        Raises:
            RemoteProtocolError: the stream of an open call carries another message
                than a response.
        """
        answers: list[Answer] = []
        for message in self.decoder.feed(data):
            if message.stream_id not in self._open:
                continue  # never asked for, or answered after `forget`
            if message.type != RESPONSE:
                raise RemoteProtocolError(
                    f"message type {message.type} on stream {message.stream_id}, "
                    "a response was due"
                )
            self._open.discard(message.stream_id)
            answers.append(self._read(message))
        return answers

    def _read(self, message: Message) -> Answer:
        stream_id = message.stream_id
        if message.payload is None:
            reason = f"answer of {message.length} bytes, limit {self._max_message}"
            return Answer(stream_id, Code.RESOURCE_EXHAUSTED, reason, b"")
        try:
            response = Response.FromString(message.payload)
        except UNDECODABLE:
            reason = "the response envelope cannot be decoded"
            return Answer(stream_id, Code.INTERNAL, reason, b"")
        status = response.status
        return Answer(stream_id, status.code, status.message, response.payload)
