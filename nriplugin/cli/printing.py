"""Printing for all commands: lines, tables and JSON.

A process in a container may give a cgroup any name: with control sequences for the
terminal, with line breaks, with bytes that are not UTF-8. So every character that is
not printable is shown as `\\xNN`, `\\uNNNN` or `\\UNNNNNNNN`, and one line of text is
always one line on the screen. Backslashes are not escaped, because the names of systemd
units contain them.

A `Page` is for people: its texts are wrapped to the width of the terminal, and have
colours there. Colours are added to text that has been escaped, so no name can have any.

No other module calls `print`, except output.py for the end of a process, and there is
no other table printer.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from nriplugin import DOCUMENT_VERSION
from nriplugin.cli.layout import Note, Tone, Toned, coloured, table_rows, text_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TextIO

# The width of a page that goes to a file or a pipe, and the least width of any page.
PAGE_WIDTH = 80
LEAST_WIDTH = 40
# No row of a table is longer.
ANY_WIDTH = 10_000


class Page:
    """Lines for people, collected first, so that a screen can be drawn at once."""

    def __init__(self, width: int | None = None, *, colour: bool | None = None) -> None:
        """Begin an empty page; what is not given follows from standard output."""
        terminal = on_terminal()
        if width is None:
            width = _terminal_size().columns if terminal else PAGE_WIDTH
        if colour is None:
            plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
            colour = terminal and not plain
        self.width = max(width, LEAST_WIDTH)
        self._colour = colour
        self._indent = 0
        self._label = ""
        self.lines: list[str] = []

    def section(self, label: str = "", indent: int = 0) -> None:
        """Indent what comes next, with the label before its first line."""
        self._label, self._indent = label, indent

    def text(self, *parts: str, indent: int = 0, hanging: int = 0) -> None:
        """Add a text in parts, which are wrapped together with a space in between."""
        self._add(
            text_lines(
                [_escaped_text(part) for part in parts],
                indent=self._indent + indent,
                hanging=hanging,
                width=self.width,
                colour=self._colour,
            )
        )

    def table(
        self,
        rows: Iterable[Sequence[str]],
        *,
        notes: Sequence[Sequence[str | Note]] = (),
        indent: int = 0,
        numbers: bool = False,
        values: bool = False,
    ) -> None:
        """Add rows in columns; cells of columns that are too wide are wrapped.

        The notes of each row are texts that are added below it.
        """
        indent += self._indent
        lines_of_rows = table_rows(
            [[_escaped_text(cell) for cell in row] for row in rows],
            indent=indent,
            numbers=numbers,
            values=values,
            room=self.width - indent,
            colour=self._colour,
        )
        for lines, texts in zip_longest(lines_of_rows, notes, fillvalue=()):
            self._add([*lines])
            for text in texts:
                note = text if isinstance(text, Note) else Note((text,))
                self.text(*note.parts, indent=2 + note.indent, hanging=note.hanging)

    def _add(self, lines: list[str]) -> None:
        label, self._label = self._label, ""
        if label and lines:
            shown = coloured(Toned(label, Tone.TITLE), self._colour)
            lines[0] = shown + lines[0][len(label) :]
        self.lines += lines

    def show(self, *, flush: bool = False) -> None:
        """Print the lines."""
        if sys.stdout is not None:
            print(*self.lines, sep="\n", file=sys.stdout, flush=flush)

    def redraw(self) -> None:
        """Print the lines in the place of all that the terminal shows.

        Lines for which the terminal is too low are left out, and the last line says so.
        """
        rows = _terminal_size().lines - 1
        lines = self.lines
        if len(lines) > rows > 1:
            left = len(lines) - rows + 1
            note = f"... {left} more lines: make the terminal higher"
            lines = [*lines[: rows - 1], note]
        text = "\n".join(lines)
        print(f"\x1b[H\x1b[2J{text}", file=sys.stdout, flush=True)


def table_page() -> Page:
    """Return a page for rows, which in a pipe are as long as they have to be."""
    return Page(None if on_terminal() else ANY_WIDTH)


def add_output_argument(
    parser: argparse.ArgumentParser, what: str, *, alias: bool = False
) -> None:
    """Declare the option of a command that prints a page, JSON or YAML.

    `alias` is for the commands that had `--json` before they had `-o`.
    """
    parser.add_argument(
        *("-o", "--output"),
        choices=("table", "json", "yaml"),
        default="table",
        help=f"{what} (default: table)",
    )
    if alias:
        parser.add_argument(
            "--json",
            dest="output",
            action="store_const",
            const="json",
            help="the same as -o json",
        )


def on_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


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


def print_document(
    kind: str, content: Mapping[str, object], output: str, *, stream: bool = False
) -> None:
    """Print what a command has found, as JSON or YAML.

    Every document says what it is: programs that read them can tell a later form of it.

    Args:
        kind: what the document is about, as in objects of Kubernetes.
        content: JSON values by their names.
        output: `json` or `yaml`.
        stream: whether it is one document of many; JSON then takes one line.
    """
    document = {"apiVersion": DOCUMENT_VERSION, "kind": kind, **content}
    print_json_or_yaml(document, output, stream=stream)


def print_json_or_yaml(document: object, output: str, *, stream: bool = False) -> None:
    """Print a whole document."""
    if output == "yaml":
        print_yaml(document, flush=True)
    else:
        print_json(document, indent=None if stream else 2, flush=True)


def print_yaml(value: object, *, flush: bool = False) -> None:
    """Print a value as a YAML document, in ASCII."""
    import yaml  # late: only a few commands have it

    text = yaml.safe_dump(_without_surrogates(value), sort_keys=False)
    for line in f"---\n{text}".splitlines():
        print_line(line, flush=flush)


def _print(text: str, stream: TextIO | None, *, flush: bool = False) -> None:
    # The stream is None if it was closed when the process was started.
    if stream is not None:
        print(_shown(text, stream), file=stream, flush=flush)


def _terminal_size() -> os.terminal_size:
    import shutil  # late: most commands do not wrap

    return shutil.get_terminal_size((PAGE_WIDTH, 24))


def _escaped_text(text: str) -> str:
    shown = _shown(text, sys.stdout)
    if isinstance(text, Toned):
        return Toned(shown, text.tone, whole=text.whole)
    return shown


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
