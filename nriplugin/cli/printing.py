"""Printing for all commands: lines, tables and JSON.

A process in a container may give a cgroup any name: with control sequences for the
terminal, with line breaks, with bytes that are not UTF-8. So every character that is
not printable is shown as `\\xNN`, `\\uNNNN` or `\\UNNNNNNNN`, and one line of text is
always one line on the screen. Backslashes are not escaped, because the names of systemd
units contain them.

No other module calls `print`, except output.py for the end of a process, and there is
no other table printer.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO


def printable(text: str) -> str:
    """Return the text with every character that is not printable escaped."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _escaped(one) for one in text)


def print_line(text: str = "", *, flush: bool = False) -> None:
    """Print one line."""
    _print(text, sys.stdout, flush=flush)


def print_error(text: str) -> None:
    """Print one line on standard error, after the name of the program.

    It is no failure of the command if nobody reads standard error.
    """
    with suppress(OSError):
        _print(f"nriplugin: {text}", sys.stderr)


def print_table(
    rows: Iterable[Sequence[str]],
    *,
    widths: Sequence[int] = (),
    indent: int = 0,
    numbers: bool = False,
    flush: bool = False,
) -> None:
    """Print rows in columns that are two spaces apart.

    Args:
        rows: the cells, as many in each row.
        widths: the least width of the first columns, for tables that are printed in
            parts and have to line up with the part before.
        indent: spaces before each row.
        numbers: whether all columns but the first are aligned to the right.
        flush: whether a reader has to see the rows at once.
    """
    cells = [[_shown(cell, sys.stdout) for cell in row] for row in rows]
    columns = list(zip(*cells, strict=True))
    least = [*widths, *([0] * (len(columns) - len(widths)))]
    wide = [
        max(width, *map(len, column))
        for width, column in zip(least, columns, strict=True)
    ]
    for row in cells:
        padded = [
            cell.rjust(width) if numbers and number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, wide, strict=True))
        ]
        print_line((" " * indent + "  ".join(padded)).rstrip(), flush=flush)


def print_json(
    value: object, *, indent: int | None = None, flush: bool = False
) -> None:
    """Print a value as JSON, in ASCII."""
    for line in as_json(value, indent=indent).split("\n"):
        print_line(line, flush=flush)


def as_json(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON, in ASCII."""
    import json  # late: most commands print text

    return json.dumps(_without_surrogates(value), indent=indent)


def _print(text: str, stream: TextIO | None, *, flush: bool = False) -> None:
    # The stream is None if it was closed when the process was started.
    if stream is not None:
        print(_shown(text, stream), file=stream, flush=flush)


def _shown(text: str, stream: TextIO | None) -> str:
    """Return text as a stream can show it; not every encoding has every character."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return printable(text).encode(encoding, "backslashreplace").decode(encoding)


def _escaped(one: str) -> str:
    number = ord(one)
    if 0xDC80 <= number <= 0xDCFF:
        number -= 0xDC00  # the byte that Python could not decode
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _without_surrogates(value: Any) -> Any:  # noqa: ANN401 - anything that JSON has
    """Return a value in which bytes that were no UTF-8 are escaped as `\\xNN`.

    Python holds such bytes as lone surrogates, which JSON readers refuse.
    """
    if isinstance(value, str):
        return "".join(_escaped(c) if "\ud800" <= c <= "\udfff" else c for c in value)
    if isinstance(value, dict):
        return {
            _without_surrogates(key): _without_surrogates(one)
            for key, one in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_surrogates(one) for one in value]
    return value
