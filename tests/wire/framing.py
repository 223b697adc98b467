"""Frames and messages made by hand, and a reader that is too simple to be wrong.

Independent of the code under test on purpose: own layouts, own limits, and the reader
wants all bytes at once. The fuzz targets in hack/fuzzing use it too.
"""

from __future__ import annotations

from itertools import cycle
from struct import Struct
from typing import TYPE_CHECKING

from nriplugin.api.ttrpc_pb2 import KeyValue, Request, Response, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MUX_HEADER = Struct(">II")
TTRPC_HEADER = Struct(">IIBB")

REQUEST, RESPONSE, DATA = 1, 2, 3
PLUGIN, RUNTIME = 1, 2

MIB = 1 << 20

# From the protocol's reference, byte by byte.
REGISTER = bytes.fromhex(
    "00000002 00000044"
    "0000003a 00000001 01 00"
    "0a1c 6e72692e706b672e6170692e7631616c706861312e52756e74696d65"
    "120e 5265676973746572506c7567696e"
    "1a0a 0a0474657374 12023030"
)
REGISTERED = bytes.fromhex("00000002 0000000a 00000000 00000001 02 00")
CONFIGURED = bytes.fromhex("00000001 0000000f 00000005 00000001 02 00 1203 10ff0f")
UNIMPLEMENTED = bytes.fromhex(
    "00000001 0000001a 00000010 00000003 02 00 0a0e 080c 120a 6d6574686f6420466f6f"
)
GOLDEN = (REGISTER, REGISTERED, CONFIGURED, UNIMPLEMENTED)


def frame(conn_id: int, payload: bytes = b"") -> bytes:
    """Return one mux frame."""
    return MUX_HEADER.pack(conn_id, len(payload)) + payload


def message(stream_id: int, type_: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """Return one ttRPC message."""
    return TTRPC_HEADER.pack(len(payload), stream_id, type_, flags) + payload


def request(
    stream_id: int,
    payload: bytes = b"",
    *,
    timeout_ns: int = 0,
    metadata: Sequence[tuple[str, str]] = (),
) -> bytes:
    """Return a call of service.Name/Method."""
    envelope = Request(
        service="service.Name",
        method="Method",
        payload=payload,
        timeout_nano=timeout_ns,
        metadata=[KeyValue(key=key, value=value) for key, value in metadata],
    )
    return message(stream_id, REQUEST, envelope.SerializeToString())


def response(
    stream_id: int, payload: bytes = b"", status: Status | None = None
) -> bytes:
    """Return an answer."""
    envelope = Response(payload=payload, status=status)
    return message(stream_id, RESPONSE, envelope.SerializeToString())


def chop(data: bytes, sizes: Iterable[int]) -> list[memoryview]:
    """Cut into pieces of these sizes, which are used in turn."""
    view = memoryview(data)
    pieces = []
    for size in cycle(sizes):
        if not view:
            break
        pieces.append(view[:size])
        view = view[size:]
    return pieces


def cuts(data: bytes) -> list[list[memoryview]]:
    """Return `data` cut into two pieces, at every place, and into single bytes."""
    halves = [chop(data, (at, len(data))) for at in range(1, len(data))]
    return [*halves, chop(data, (1,))]


def read_frames(data: bytes) -> list[tuple[int, bytes]]:
    """Return id and payload of every frame; the last one may be cut off."""
    frames = []
    while len(data) >= MUX_HEADER.size:
        conn_id, length = MUX_HEADER.unpack_from(data)
        end = MUX_HEADER.size + length
        frames.append((conn_id, data[MUX_HEADER.size : end]))
        data = data[end:]
    return frames


def claims(data: bytes) -> list[int]:
    """Return the length that every frame's header claims."""
    lengths = []
    while len(data) >= MUX_HEADER.size:
        lengths.append(MUX_HEADER.unpack_from(data)[1])
        data = data[MUX_HEADER.size + lengths[-1] :]
    return lengths


def read_messages(data: bytes, limit: int) -> list[tuple[int, int, bytes | None, int]]:
    """Return the whole messages, and those over the limit from their header on."""
    messages: list[tuple[int, int, bytes | None, int]] = []
    while len(data) >= TTRPC_HEADER.size:
        length, stream_id, type_, _ = TTRPC_HEADER.unpack_from(data)
        end = TTRPC_HEADER.size + length
        payload = data[TTRPC_HEADER.size : end]
        data = data[end:]
        if length > limit:
            messages.append((stream_id, type_, None, length))
        elif len(payload) == length:
            messages.append((stream_id, type_, payload, length))
    return messages
