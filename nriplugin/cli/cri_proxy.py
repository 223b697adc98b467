"""The command `nriplugin cri-proxy`: serves CRI in front of a runtime without NRI.

This module parses arguments and checks that grpcio is installed; doors/cri/ has the
proxy, and daemon/assembly.py runs it.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from nriplugin.cli.daemon_options import add_daemon_arguments, services_of
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.logs import log_to_stderr
from nriplugin.daemon.assembly import process_on
from nriplugin.daemon.serving import Instance, run_process
from nriplugin.errors import ConfigError
from nriplugin.sockets import SCHEME, parse_address, parse_mode
from nriplugin.stopping import StopFlag

if TYPE_CHECKING:
    import argparse

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Serve CRI to kubelet and crictl in the place of a runtime that has no NRI. "
        "Every call is forwarded to the runtime; requests that create or update a "
        "container get cgroup v2 files on the way."
    )
    parser.epilog = (
        "Then have kubelet use it: --container-runtime-endpoint with the address that "
        "is given to --listen."
    )
    parser.add_argument(
        "--listen",
        required=True,
        metavar="ADDRESS",
        help=f"socket to serve, such as {SCHEME}/run/nriplugin-cri/cri.sock",
    )
    parser.add_argument(
        "--runtime",
        required=True,
        metavar="ADDRESS",
        help=f"the runtime's socket, such as {SCHEME}/run/containerd/containerd.sock",
    )
    parser.add_argument(
        "--socket-mode",
        default="0600",
        metavar="OCTAL",
        help="permissions of the socket that is served (default: 0600, root alone)",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="configuration file, YAML, as for `run`"
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="never write to cgroups, only add files to requests",
    )
    add_daemon_arguments(parser)
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    log_to_stderr(verbose=args.verbose, form=args.log_format)
    listen = parse_address("--listen", args.listen)
    runtime = parse_address("--runtime", args.runtime)
    mode = parse_mode("--socket-mode", args.socket_mode)
    if os.path.realpath(listen) == os.path.realpath(runtime):
        raise ConfigError(f"--listen: {args.listen}, expected another than --runtime")
    try:
        import grpc_health.v1  # noqa: F401 - fails unless the extra `cri` is complete
    except ImportError as exc:
        raise ConfigError(
            "cri-proxy: grpcio is not installed, expected nriplugin[cri]"
        ) from exc
    from nriplugin.doors.cri.door import CRIDoor

    process = process_on(
        node_of(args),
        "cri",
        read_only=args.read_only,
        config_path=args.config,
        state_dir=args.state_dir,
        shadow=args.shadow,
    )
    if process.unreadable_because:
        _log.warning("cgroups cannot be read: %s", process.unreadable_because)
    door = CRIDoor(runtime, process.lifecycle)
    process.requests = door.requests
    process.late_s = lambda: door.late_s
    process.late_answers = lambda: door.late_answers
    stopping = StopFlag()

    def serve() -> None:
        door.open(listen, mode)
        process.notify_serving()
        _log.info("serving %s for the runtime at %s", args.listen, args.runtime)
        stopping.wait()

    services = services_of(process, args)
    instance = Instance(runtime)
    run_process(process, door, serve, stopping.set, instance=instance, beside=services)
    return 0
