"""Lines of text for a page: wrapped, in columns, with colours.

All text that comes in here has been escaped by printing.py, which prints the lines.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    _Word = tuple[str, "Tone | None"]

# A column of a page's table is not made narrower than this.
LEAST_COLUMN = 8


class Tone(StrEnum):
    """What a colour means; the values are the terminal's numbers for colours."""

    GOOD = "32"
    WARNING = "33"
    BAD = "31"
    TITLE = "1"
    FAINT = "2"


class Toned(str):
    """Text that has a colour on a terminal."""

    __slots__ = ("tone", "whole")

    def __new__(cls, text: str, tone: Tone | None, *, whole: bool = False) -> Toned:
        """Give a text a tone; None is the terminal's own colour.

        A text that is `whole` is not wrapped at its spaces.
        """
        made = super().__new__(cls, text)
        made.tone = tone
        made.whole = whole
        return made

    tone: Tone | None
    whole: bool


class Note(NamedTuple):
    """A text in parts below a row of a table; its first line is indented further."""

    parts: Sequence[str]
    indent: int = 0
    hanging: int = 0


def titles(*names: str) -> tuple[str, ...]:
    """Return the first row of a table."""
    return tuple(Toned(name.upper(), Tone.FAINT) for name in names)


def text_lines(
    parts: Sequence[str], *, indent: int, hanging: int, width: int, colour: bool
) -> list[str]:
    """Return the lines of a text in parts, which may differ in tone.

    All lines but the first are indented by `hanging` more.
    """
    room = width - indent - hanging
    words: list[_Word] = [
        (piece, _tone_of(part))
        for part in parts
        for word in ([part] if _is_whole(part) else part.split(" "))
        for piece in _broken(word, room)
    ]
    lines: list[str] = []
    for line in _filled(words, room, hanging):
        runs = [
            Toned(" ".join(word for word, _ in run), tone)
            for tone, run in groupby(line, key=lambda word: word[1])
        ]
        shown = " ".join(coloured(run, colour) for run in runs)
        spaces = indent + hanging if lines else indent
        lines.append((" " * spaces + shown).rstrip())
    return lines


def table_rows(
    cells: list[list[str]],
    *,
    indent: int = 0,
    numbers: bool = False,
    values: bool = False,
    room: int | None = None,
    colour: bool = False,
) -> list[list[str]]:
    """Return the lines of each row of a table, whose columns are two spaces apart.

    With `numbers`, all columns but the first are aligned to the right. With `room` for
    a line, cells of columns that are too wide are wrapped. A number is never broken: if
    there is no room for the numbers of a row, or hardly any beside them, they are below
    its name. The same holds for `values`, which are aligned to the left.
    """
    columns = list(zip(*cells, strict=True))
    natural = [max(map(len, column)) for column in columns]
    least = [LEAST_COLUMN] * len(natural)
    if numbers or values:
        least[1:] = [max(LEAST_COLUMN, _longest_word(one)) for one in columns[1:]]
    wide = [*natural]
    if room is not None:
        _narrow(wide, least, room - 2 * (len(wide) - 1))
    rows = [_row_lines(row, wide, indent, numbers, colour) for row in cells]
    if not (numbers or values) or room is None or wide == natural:
        return rows
    below = _values_below(cells, natural, indent, numbers, room, colour)
    fits = sum(wide) + 2 * (len(wide) - 1) <= room
    return rows if fits and _count(rows) <= _count(below) else below


def _row_lines(
    row: list[str], widths: list[int], indent: int, numbers: bool, colour: bool
) -> list[str]:
    """Return the lines of a row; of `numbers`, only the first cell is at the left."""
    lines = []
    for part in _parts_of(row, widths):
        line = " " * indent
        for number, (cell, width) in enumerate(zip(part, widths, strict=True)):
            space = " " * (width - len(cell))
            shown = coloured(cell, colour)
            right = numbers and number
            line += (space + shown if right else shown + space) + "  "
        lines.append(line.rstrip())
    return lines


def _values_below(
    cells: list[list[str]],
    widths: list[int],
    indent: int,
    numbers: bool,
    room: int,
    colour: bool,
) -> list[list[str]]:
    """Return the lines of each row: those of its name, and below them its values."""
    ends = [1]
    for at in range(1, len(widths)):
        if sum(width + 2 for width in widths[ends[-1] : at + 1]) > room:
            ends.append(at)
    spans = list(zip(ends, [*ends[1:], len(widths)], strict=True))
    rows = []
    for row in cells:
        lines = _row_lines(row[:1], [min(widths[0], room)], indent, False, colour)
        for start, end in spans:
            # The empty first cell puts two spaces before the values.
            part, wide = ["", *row[start:end]], [0, *widths[start:end]]
            lines += _row_lines(part, wide, indent, numbers, colour)
        rows.append(lines)
    return rows


def _narrow(widths: list[int], least: list[int], room: int) -> None:
    """Make the widest columns narrower until all of them fit, or none may be."""
    while sum(widths) > room:
        wide = [one for one in range(len(widths)) if widths[one] > least[one]]
        if not wide:
            return
        widths[max(wide, key=widths.__getitem__)] -= 1


def _longest_word(cells: Sequence[str]) -> int:
    return max(len(word) for cell in cells for word in cell.split(" "))


def _count(rows: list[list[str]]) -> int:
    return sum(map(len, rows))


def _parts_of(row: list[str], widths: list[int]) -> list[list[str]]:
    """Return the lines that a row of a table takes, each with all of its cells."""
    wrapped = [_wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    tones = [_tone_of(cell) for cell in row]
    return [
        [
            Toned(cell[at] if at < len(cell) else "", tone)
            for cell, tone in zip(wrapped, tones, strict=True)
        ]
        for at in range(max(map(len, wrapped)))
    ]


def _wrapped(cell: str, width: int) -> list[str]:
    """Return the lines of a cell; all of them begin with the spaces of the first."""
    if len(cell) <= width:
        return [cell]
    text = cell.lstrip(" ")
    spaces = min(len(cell) - len(text), width // 2)
    room = width - spaces
    words: list[_Word] = [
        (piece, None) for word in text.split(" ") for piece in _broken(word, room)
    ]
    return [
        " " * spaces + " ".join(word for word, _ in line)
        for line in _filled(words, room)
    ]


def _broken(word: str, width: int) -> list[str]:
    """Return the pieces of a word that is too long for a line."""
    pieces = []
    while len(word) > width > 0:
        at = 1 + max(word.rfind(sign, 0, width) for sign in "/,=-")
        at = at if 2 * at > width else width
        pieces.append(word[:at])
        word = word[at:]
    return [*pieces, word]


def _filled(words: list[_Word], width: int, more: int = 0) -> list[list[_Word]]:
    """Return lines of words; no line is longer than the width unless a word is.

    The first line may be longer by `more`.
    """
    lines: list[list[_Word]] = [[]]
    used = -1 - more
    for word in words:
        used += 1 + len(word[0])
        if used > width and lines[-1]:
            lines.append([])
            used = len(word[0])
        lines[-1].append(word)
    return lines


def _tone_of(text: str) -> Tone | None:
    return text.tone if isinstance(text, Toned) else None


def _is_whole(text: str) -> bool:
    return isinstance(text, Toned) and text.whole


def coloured(text: str, colour: bool) -> str:
    tone = _tone_of(text)
    return f"\x1b[{tone}m{text}\x1b[0m" if colour and tone and text else str(text)
