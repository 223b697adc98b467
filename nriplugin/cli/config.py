"""`nriplugin config check FILE`: whether a configuration is valid, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cli.printing import print_line
from nriplugin.config import read_config
from nriplugin.convert.curves import AUTO

if TYPE_CHECKING:
    import argparse

    from nriplugin.engine.settings import Settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="read a file as `run` would; nothing is changed",
        description="read a file as `run` would; exit code 2 if it has a mistake",
        allow_abbrev=False,
    )
    check.add_argument("file", metavar="FILE", help="configuration file, YAML")


def main(args: argparse.Namespace) -> int:
    """Say what the configuration switches on; a mistake is raised."""
    config = read_config(args.file)
    curve = AUTO if config.engine.curve is None else config.engine.curve.value
    print_line(f"{args.file}: valid")
    print_line(f"curve           {curve}")
    print_line(f"failure policy  {config.failure_policy.value}")
    print_line(f"adopt           {'on' if config.adopt.enabled else 'off'}")
    print_line(f"repair          {'on' if config.repair.enabled else 'off'}")
    _print_handlers("handlers", config.engine.base)
    for rule in config.engine.rules:
        _print_handlers(rule.settings.rule, rule.settings)
    return 0


def _print_handlers(label: str, settings: Settings) -> None:
    names = [
        f"{name} (fail)" if name in settings.failing else name
        for name in settings.active
    ]
    print_line(f"{label.ljust(15)} {', '.join(sorted(names)) or 'none'}")
