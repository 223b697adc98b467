"""Finds libraries that files of the image are linked with and that it lacks.

Wheels may expect a library of the system, such as libstdc++. Without it protobuf
silently falls back to an implementation that is many times slower, so a build has to
look.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRINGS = 1, 5


def missing_libraries(*trees: Path) -> dict[str, set[str]]:
    """Return by the name of a library that is in no tree which files need it."""
    files = [
        path
        for tree in trees
        for path in tree.rglob("*")
        if path.is_file() and not path.is_symlink()
    ]
    there = {path.name for tree in trees for path in tree.glob("usr/lib/**/*.so*")}
    missing: dict[str, set[str]] = {}
    for path in files:
        with path.open("rb") as file:
            if file.read(5) != b"\x7fELF\x02":
                continue
        for name in needed(path.read_bytes()):
            if name not in there and not (path.parent / name).exists():
                missing.setdefault(name, set()).add(path.name)
    return missing


def needed(content: bytes) -> Iterator[str]:
    """Yield the libraries that a 64-bit little-endian ELF file is linked with."""
    (start,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    # Type, flags, offset in the file, address in memory, -, size in the file.
    headers = [
        struct.unpack_from("<IIQQQQ", content, start + size * number)
        for number in range(count)
    ]
    loaded = [header for header in headers if header[0] == _LOAD]

    def offset_of(address: int) -> int:
        for _, _, offset, begin, _, length in loaded:
            if begin <= address < begin + length:
                return int(offset + address - begin)
        raise ValueError(f"address {address:#x} is in no segment")

    for kind, _, offset, _, _, length in headers:
        if kind == _DYNAMIC:
            entries = list(struct.iter_unpack("<qQ", content[offset : offset + length]))
            strings = offset_of(
                next(value for tag, value in entries if tag == _STRINGS)
            )
            for tag, value in entries:
                if tag == _NEEDED:
                    begin = strings + value
                    yield content[begin : content.index(b"\0", begin)].decode()
