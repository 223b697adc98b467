"""`nriplugin reload`: has the running daemon read its configuration again.

The daemon also does so on SIGHUP and when the file changes; this command waits for the
result and shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cli.control_client import add_control_argument, client_of
from nriplugin.cli.printing import add_output_argument, print_document, print_line
from nriplugin.daemon.plain import plain
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    import argparse

# A new configuration may have the daemon look at every container.
PATIENCE_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Has the running daemon read its configuration file again. A mistake in the "
        "file is shown, and the exit code is 2; the earlier configuration then stays "
        "in force."
    )
    add_output_argument(parser, "how the result is printed")
    add_control_argument(parser)


def main(args: argparse.Namespace) -> int:
    """Reload and print which configuration is in force."""
    answer = client_of(args).call(
        "Reload", control.ReloadRequest(), control.ReloadResponse, PATIENCE_S
    )
    if not answer.applied:
        raise ConfigError(answer.error)
    config = answer.configuration
    if args.output != "table":
        print_document("Reload", plain(config), args.output)
        return 0
    print_line(f"in force: {config.path}, SHA-256 {config.hash}...")
    return 0
