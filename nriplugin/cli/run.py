"""The command `nriplugin run`: serves the plugin on the runtime's NRI socket.

This module parses arguments and connects the parts; daemon/assembly.py runs them.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from google.protobuf.internal import api_implementation

from nriplugin.cli.daemon_options import add_daemon_arguments, services_of
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.logs import log_to_stderr
from nriplugin.daemon.assembly import process_on
from nriplugin.daemon.serving import Instance, run_process
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.doors.nri.responses import adjustment
from nriplugin.errors import ConfigError
from nriplugin.nri.launch import (
    DEFAULT_INDEX,
    DEFAULT_NAME,
    DEFAULT_SOCKET,
    launch_from,
)
from nriplugin.nri.runner import Runner

if TYPE_CHECKING:
    import argparse

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; those with a single dash are spelled as in Go plugins."""
    parser.add_argument(
        "--nri-socket",
        "-socket-path",
        metavar="PATH",
        help=f"the runtime's NRI socket (default: {DEFAULT_SOCKET})",
    )
    parser.add_argument(
        "--name", "-name", help=f"name to register under (default: {DEFAULT_NAME})"
    )
    parser.add_argument(
        "--idx",
        "-idx",
        metavar="NN",
        help=f"two digits, the order among plugins (default: {DEFAULT_INDEX})",
    )
    parser.add_argument(
        "--config", "-config", metavar="FILE", help="configuration file, YAML"
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="never write to cgroups, only answer; settings that need direct writes "
        "are skipped",
    )
    add_daemon_arguments(parser)
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    log_to_stderr(verbose=args.verbose, form=args.log_format)
    launch = launch_from(
        os.environ, name=args.name, idx=args.idx, socket_path=args.nri_socket
    )
    process = process_on(
        node_of(args),
        "nri",
        read_only=args.read_only,
        config_path=args.config,
        state_dir=args.state_dir,
        render=adjustment,
        shadow=args.shadow,
    )
    plugin = NodePlugin(process.lifecycle, process.unreadable_because)
    if api_implementation.Type() != "upb":
        _log.warning(
            "protobuf is the %s implementation, many times slower than upb: "
            "use an image with glibc",
            api_implementation.Type(),
        )
    runner = Runner(plugin, launch)
    process.nri_stats = runner.stats
    process.requests = runner.stats.by_operation
    process.late_s = lambda: runner.late_s
    process.late_answers = lambda: runner.stats.late

    def serve() -> None:
        # The plugin's only sockets are those of its services. A runtime that is away
        # must not keep systemd from starting what is ordered after the plugin.
        process.notify_serving()
        try:
            runner.run()
        except OSError as exc:
            raise ConfigError(
                f"--nri-socket: {launch.socket_path}: {exc.strerror}, "
                "expected a socket that can be dialled"
            ) from exc

    # A plugin that the runtime has launched does not know the runtime's socket.
    socket_path = launch.socket_path or DEFAULT_SOCKET
    launched = launch.inherited_fd is not None
    run_process(
        process,
        plugin,
        serve,
        runner.stop,
        instance=Instance(socket_path, launched=launched),
        beside=services_of(process, args),
    )
    return 0
