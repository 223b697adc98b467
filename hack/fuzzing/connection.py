"""A plugin's connection: any bytes, cut anyhow.

The first four bytes of an input say how the rest is cut.
"""

from __future__ import annotations

from wire.framing import (
    DATA,
    GOLDEN,
    PLUGIN,
    REQUEST,
    RUNTIME,
    TTRPC_HEADER,
    chop,
    frame,
    message,
    request,
    response,
)
from wire.invariants import check_cuts, check_one_step

_CUT = bytes([7, 0, 19, 3])
_FIRST, _THIRD = request(1, b"x"), request(3, b"yz", timeout_ns=9)

SEEDS = [
    _CUT + data
    for data in (
        *GOLDEN,
        b"".join(GOLDEN),
        frame(PLUGIN, _FIRST),
        frame(PLUGIN, _FIRST + _THIRD) + frame(RUNTIME, response(1, b"x")),
        b"".join(frame(PLUGIN, bytes(piece)) for piece in chop(_FIRST, (9,))),
        frame(RUNTIME) + frame(77, _FIRST) + frame(PLUGIN, request(2)),
        frame(PLUGIN, TTRPC_HEADER.pack(99, 1, REQUEST, 0) + bytes(99) + _THIRD),
        frame(RUNTIME, message(1, DATA)),
        b"\xff" * 8,
    )
]


def check(data: bytes) -> None:
    """Check what holds for a plugin's side."""
    sizes, data = [1 + byte for byte in data[:4]], data[4:]
    if sizes:
        check_cuts(data, sizes)
        check_one_step(data, sizes[0] - 1)
