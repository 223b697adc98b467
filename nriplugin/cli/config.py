"""`nriplugin config check FILE`: whether a configuration is valid, and what it enables.

The file is read by the same code as in `run`, so a file that passes here is accepted
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cli.printing import print_line, print_table
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
        help="check a file as `run` would read it; nothing is changed",
        description="Check a file as `run` would read it. The exit code is 2 if it has "
        "a mistake.",
        allow_abbrev=False,
    )
    check.add_argument("file", metavar="FILE", help="configuration file, YAML")


def main(args: argparse.Namespace) -> int:
    """Print what the configuration switches on; a mistake in it is raised."""
    config = read_config(args.file)
    curve = AUTO if config.engine.curve is None else config.engine.curve.value
    rules = [rule.settings for rule in config.engine.rules]
    print_line(f"{args.file}: valid")
    print_table(
        [
            ("curve", curve),
            ("failure policy", config.failure_policy.value),
            ("adopt", "on" if config.adopt.enabled else "off"),
            ("verify", "on" if config.verify.enabled else "off"),
            ("repair", "on" if config.repair.enabled else "off"),
            ("checkpoint", config.checkpoint_path or "not used"),
            ("handlers", _handlers(config.engine.base)),
            *((settings.rule, _handlers(settings)) for settings in rules),
        ]
    )
    return 0


def _handlers(settings: Settings) -> str:
    names = [
        f"{name} (fail)" if name in settings.failing else name
        for name in settings.active
    ]
    listed = ", ".join(sorted(names)) or "none"
    return f"{listed} (shadow mode)" if settings.shadow else listed
