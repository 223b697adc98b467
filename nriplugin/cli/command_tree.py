"""The commands with their options as data, read from the parsers.

For what is made from them: completion scripts and manual pages.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

from nriplugin.cli.main import COMMANDS
from nriplugin.cli.parser import DESCRIPTION, parser_of

_FILES = ("FILE", "DIR", "PATH")


class CommandOption(NamedTuple):
    """An option: its spellings, the name of its value, the words that it accepts."""

    names: tuple[str, ...]
    value: str
    words: tuple[str, ...]
    summary: str

    @property
    def is_file(self) -> bool:
        """Whether the value is the name of a file or directory."""
        return self.value in _FILES


class CommandArgument(NamedTuple):
    """A word of the command line that is no option."""

    value: str
    words: tuple[str, ...]
    summary: str


class Command(NamedTuple):
    """A command, or an action of one; the path of the whole program is empty."""

    path: tuple[str, ...]
    summary: str
    description: str
    usage: str
    options: tuple[CommandOption, ...]
    arguments: tuple[CommandArgument, ...]
    below: tuple[Command, ...]

    @property
    def name(self) -> str:
        """Return the last word of the path."""
        return self.path[-1] if self.path else "nriplugin"

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that the first argument accepts."""
        return self.arguments[0].words if self.arguments else ()

    @property
    def takes_files(self) -> bool:
        """Whether an argument is the name of a file."""
        return any(one.value in _FILES for one in self.arguments)


def command_tree() -> Command:
    """Return the whole program."""
    parser, _ = parser_of(COMMANDS, COMMANDS)
    return _command(parser, (), DESCRIPTION)


def _command(
    parser: argparse.ArgumentParser, path: tuple[str, ...], summary: str
) -> Command:
    options, arguments, below = [], [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help or "" for one in action._choices_actions}
            below = [
                _command(one, (*path, name), helps.get(name, ""))
                for name, one in action.choices.items()
            ]
            continue
        words = tuple(str(one) for one in action.choices or ())
        told = (action.help or "") % {"default": action.default, "prog": parser.prog}
        value = action.metavar or action.dest.upper()
        shown = value if isinstance(value, str) else " ".join(value)
        if action.option_strings:
            takes = shown if action.nargs != 0 else ""
            names = tuple(action.option_strings)
            options.append(CommandOption(names, takes, words, told))
        else:
            arguments.append(CommandArgument(shown, words, told))
    formatter = argparse.HelpFormatter(prog=parser.prog, width=10_000)
    formatter.add_usage(parser.usage, parser._actions, [], prefix="")
    usage = " ".join(formatter.format_help().split())
    description = parser.description or summary
    return Command(
        path,
        summary,
        description,
        usage,
        tuple(options),
        tuple(arguments),
        tuple(below),
    )
