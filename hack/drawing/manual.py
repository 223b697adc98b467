"""Writes man/man1, a manual page for nriplugin and for each of its commands.

The pages are made from the parsers, in man(7), because every `man` reads it. They are
kept in the repository, because a wheel is built without the packages that the parsers
need.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nriplugin import __version__
from nriplugin.cli.command_tree import command_tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.cli.command_tree import Command

DIRECTORY = Path(__file__).parents[2] / "man" / "man1"

_CODES = (
    ("0", "success"),
    ("1", "a failure of nriplugin or of the machine"),
    ("2", "a mistake in the command line or in a file"),
    ("130", "Ctrl-C"),
    ("141", "the reader closed the output early"),
)


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check say whether they are up to date."""
    pages = manual_pages()
    kept = {one.name: one.read_text(encoding="utf-8") for one in DIRECTORY.glob("*.1")}
    if "--check" in arguments:
        stale = sorted(
            name for name in pages | kept if pages.get(name) != kept.get(name)
        )
        print(
            "\n".join(f"man/man1/{name}: run hack/man" for name in stale)
            or "up to date"
        )
        return int(bool(stale))
    os.makedirs(DIRECTORY, exist_ok=True)
    for name in kept.keys() - pages.keys():
        (DIRECTORY / name).unlink()
    for name, text in pages.items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
    print(f"{len(pages)} pages")
    return 0


def manual_pages() -> dict[str, str]:
    """Return the text of each page by the name of its file."""
    top = command_tree()
    pages = {"nriplugin.1": _page(top, list(top.below))}
    for command in top.below:
        pages[f"nriplugin-{command.name}.1"] = _page(command, [])
    return pages


def _page(command: Command, listed: list[Command]) -> str:
    name = "-".join(("nriplugin", *command.path))
    return "\n".join(
        [
            f'.TH "{name.upper()}" "1" "" "nriplugin {__version__}" "nriplugin"',
            *(".SH NAME", f"{_text(name)} \\- {_text(command.summary)}"),
            ".SH SYNOPSIS",
            *_usages(command, deep=not listed),
            *(".SH DESCRIPTION", _text(command.description)),
            *_options(command, "OPTIONS"),
            *(line for one in command.below if not listed for line in _action(one)),
            *_commands(listed),
            ".SH EXIT STATUS",
            *(line for code, told in _CODES for line in _item(f"\\fB{code}\\fR", told)),
            ".SH SEE ALSO",
            "\\fBnriplugin\\fR(1)" if command.path else "\\fBnriplugin\\-run\\fR(1)",
            "",
        ]
    )


def _usages(command: Command, *, deep: bool) -> Iterator[str]:
    yield _text(command.usage)
    for below in command.below if deep else ():
        yield ".br"
        yield _text(below.usage)


def _commands(listed: list[Command]) -> Iterator[str]:
    if listed:
        yield ".SH COMMANDS"
    for one in listed:
        yield from _item(f"\\fBnriplugin\\-{_text(one.name)}\\fR(1)", one.summary)


def _action(command: Command) -> Iterator[str]:
    yield from _options(command, " ".join(command.path).upper(), command.description)


def _options(command: Command, title: str, about: str = "") -> Iterator[str]:
    yield f".SH {_text(title)}"
    if about:
        yield _text(about)
    for argument in command.arguments:
        yield from _item(f"\\fI{_text(argument.value)}\\fR", argument.summary)
    for option in command.options:
        value = f" \\fI{_text(option.value)}\\fR" if option.value else ""
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in option.names)
        words = f" One of: {', '.join(option.words)}." if option.words else ""
        yield from _item(names + value, option.summary + words)


def _item(tag: str, told: str) -> Iterator[str]:
    yield from (".TP", tag, _text(told) or "\\&")


def _text(text: str) -> str:
    """Return a text as man(7) shows it unchanged, in one line."""
    shown = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{shown}" if shown[:1] in (".", "'") else shown


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
