"""The parser of the command line, with errors that show the usage of what was called.

`parser_of` makes the parser for one command, because a parser costs a millisecond, or
for all of them, as completion scripts and manual pages need it.
"""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, Any, NoReturn

from nriplugin import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

DESCRIPTION = "cgroup v2 resources for every container on a Kubernetes node"

_MOST_DIGITS = 9  # of an option's number


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors name what is accepted, and what may have been meant."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Make a parser that does not accept shortened options."""
        super().__init__(*args, **{"allow_abbrev": False, **kwargs})

    def parse_known_args(  # type: ignore[override] # of argparse's three forms, one
        self,
        args: Any = None,  # noqa: ANN401
        namespace: Any = None,  # noqa: ANN401
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse unknown words here: the parser above would show its own usage."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            from nriplugin.suggestions import suggestion  # late: only for mistakes

            word = unknown[0].partition("=")[0]
            known = self._option_string_actions if word.startswith("-") else ()
            advice = suggestion(word, known)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:  # noqa: ANN401
        """Refuse a word that is no choice, with the names of all choices."""
        if action.choices is None or value in action.choices:
            return
        from nriplugin.suggestions import suggestion  # late, as above

        known = [str(one) for one in action.choices]
        raise argparse.ArgumentError(
            action,
            f"{value!r}, expected one of {', '.join(known)}{suggestion(value, known)}",
        )

    def error(self, message: str) -> NoReturn:
        """Show the usage and the mistake, and where more is to be read."""
        super().error(f"{message}\nTry `{self.prog} --help`.")


def whole_number(least: int) -> Callable[[str], int]:
    """Return what reads the number of an option: the `type` for `add_argument`."""
    most = 10**_MOST_DIGITS - 1

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
        if not is_number or int(text) < least:
            raise argparse.ArgumentTypeError(
                f"{text!r:.80}, expected a whole number from {least} to {most}"
            )
        return int(text)

    return read


def parser_of(
    summaries: Mapping[str, str], detailed: Iterable[str]
) -> tuple[CommandParser, dict[str, CommandParser]]:
    """Return the parser of the command line, and those of its commands.

    Args:
        summaries: a line of help for each command that the parser is to know.
        detailed: the commands whose options it is to know; their modules are imported.
    """
    parser = CommandParser(prog="nriplugin", description=DESCRIPTION)
    parser.add_argument(
        "--version", action="version", version=f"nriplugin {__version__}"
    )
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    commands = {
        command: subparsers.add_parser(command, help=summary, description=summary)
        for command, summary in summaries.items()
    }
    for command in detailed:
        module = importlib.import_module(f"nriplugin.cli.{command.replace('-', '_')}")
        module.add_arguments(commands[command])
        commands[command].set_defaults(main=module.main)
    return parser, commands
