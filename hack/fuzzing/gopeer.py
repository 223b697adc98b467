"""The model of a Go peer: any bytes, and frames of any size.

The first byte of an input chooses. Even: four bytes say how the rest is cut. Odd: the
rest is a program of 16-bit numbers, because what the model is about only happens to
messages of thousands of bytes.
"""

from __future__ import annotations

from struct import iter_unpack, pack

from wire.framing import GOLDEN, PLUGIN, TTRPC_HEADER, chop, frame, request
from wire.invariants import check_go_demux, check_go_reader

# The two highest bits of a number say what it is, the others how much.
_MESSAGE, _FRAME, _LARGE_MESSAGE, _FRAMES = range(4)


def _program(*steps: tuple[int, int]) -> bytes:
    return b"\x01" + pack(
        f">{len(steps)}H", *(what << 14 | size for what, size in steps)
    )


SEEDS = [
    *(b"\x00\x07\x00\x13\x03" + data for data in GOLDEN),
    b"\x00\x07\x00\x13\x03" + b"".join(GOLDEN) + frame(PLUGIN, request(1)) * 2,
    _program((_MESSAGE, 4086), (_FRAME, 4096)),
    _program((_MESSAGE, 4087), (_FRAME, 4097)),
    _program((_MESSAGE, 9000), (_FRAME, 10), (_FRAME, 9000)),
    _program((_MESSAGE, 9000), (_FRAME, 4096), (_FRAME, 4914)),
    _program((_MESSAGE, 250), (_FRAMES, 1), (_MESSAGE, 0), (_FRAME, 10)),
    _program((_LARGE_MESSAGE, 4096), (_FRAMES, 4096)),
]


def check(data: bytes) -> None:
    """Check what holds for the runtime's side."""
    if data[:1] and data[0] & 1:
        check_go_reader(_run(data[1:]))
    elif data[5:]:
        check_go_demux(data[5:], [1 + byte for byte in data[1:5]])


def _run(program: bytes) -> list[bytes]:
    """Return frames: the stream of all messages, cut up."""
    stream, sizes = b"", []
    for (number,) in iter_unpack(">H", program[: len(program) // 2 * 2]):
        what, size = number >> 14, number & 0x3FFF
        if what == _MESSAGE:
            stream += TTRPC_HEADER.pack(size, 1, 1, 0) + bytes(size)
        elif what == _LARGE_MESSAGE:  # only as much of it as the model needs to see
            stream += TTRPC_HEADER.pack(size << 10, 1, 1, 0) + bytes(
                min(size, 32) << 10
            )
        else:
            sizes += [1 + size] * (300 if what == _FRAMES else 1)
        if len(stream) > 64 << 10:
            break
    return [bytes(piece) for piece in chop(stream, sizes)] if sizes else []
