"""Lines of text for a page: wrapped, in columns, with colours.

All text that comes in here has been escaped by printing.py, which prints the lines.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

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
    names_above: bool = False,
    room: int | None = None,
    colour: bool = False,
) -> list[list[str]]:
    """Return the lines of each row of a table, whose columns are two spaces apart.

    With `numbers`, all columns but the first are aligned to the right. With `room` for
    a line, cells of columns that are too wide are wrapped; with `names_above`, the
    first cell of each row then stands on a line of its own, above the others, which are
    one space apart if that is needed.
    """
    wide = _widths(cells)
    gap = 2
    names: list[list[str]] = [[] for _ in cells]
    if room is not None and sum(wide) > (free := _free(room, wide, gap)):
        if names_above:
            names = [_name_lines(row[0], indent, room, colour=colour) for row in cells]
            # What is left of the first column indents the others.
            cells = [["", *row[1:]] for row in cells]
            wide = _widths(cells)
            gap = 2 if sum(wide) <= free else 1
            free = _free(room, wide, gap)
            columns = zip(*cells, strict=True)
            _narrow(wide, free, [max(map(_longest, one)) for one in columns])
        _narrow(wide, free, [LEAST_COLUMN] * len(wide))
    rows = []
    for row, lines in zip(cells, names, strict=True):
        for part in _parts_of(row, wide):
            line = " " * indent
            for number, (cell, width) in enumerate(zip(part, wide, strict=True)):
                space = " " * (width - len(cell))
                shown = coloured(cell, colour)
                right = numbers and number
                line += (space + shown if right else shown + space) + " " * gap
            lines.append(line.rstrip())
        rows.append(lines)
    return rows


def _widths(cells: list[list[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def _free(room: int, widths: list[int], gap: int) -> int:
    """Return what a line of a table has for its cells."""
    return room - gap * (len(widths) - 1)


def _name_lines(name: str, indent: int, room: int, *, colour: bool) -> list[str]:
    depth = len(name) - len(name.lstrip())
    return text_lines(
        [name], indent=indent, hanging=depth + 2, width=indent + room, colour=colour
    )


def _narrow(widths: list[int], room: int, least: list[int]) -> None:
    """Make the widest columns narrower until all of them fit or are at their least."""
    while sum(widths) > room:
        wider = [at for at, width in enumerate(widths) if width > least[at]]
        if not wider:
            return
        widths[max(wider, key=widths.__getitem__)] -= 1


def _longest(cell: str) -> int:
    """Return how long the longest word of a cell is."""
    return max(map(len, cell.split(" ")))


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
    if len(cell) <= width:
        return [cell]
    words: list[_Word] = [
        (piece, None) for word in cell.split(" ") for piece in _broken(word, width)
    ]
    return [" ".join(word for word, _ in line) for line in _filled(words, width)]


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
