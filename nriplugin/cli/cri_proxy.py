"""`nriplugin cri-proxy`: between kubelet and a runtime that has no NRI."""

from __future__ import annotations

import gc
import logging
import os
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.logs import log_to_stderr
from nriplugin.errors import CgroupError, ConfigError, NRIPluginError
from nriplugin.sockets import SCHEME, parse_address, parse_mode
from nriplugin.stopping import StopFlag, stopping_on_signals

if TYPE_CHECKING:
    import argparse

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.doors.cri.door import Door

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.description = (
        "Serve CRI to kubelet and crictl in the place of a runtime that has no NRI. "
        "Everything is passed on to the runtime; containers that are created or "
        "updated get cgroup v2 files on the way."
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
        help=f"the runtime's, such as {SCHEME}/run/containerd/containerd.sock",
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
        "-v", "--verbose", action="store_true", help="log what happens, in detail"
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="never write to cgroups, only to requests",
    )
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    log_to_stderr(verbose=args.verbose)
    listen = parse_address("--listen", args.listen)
    runtime = parse_address("--runtime", args.runtime)
    mode = parse_mode("--socket-mode", args.socket_mode)
    if os.path.realpath(listen) == os.path.realpath(runtime):
        raise ConfigError(f"--listen: {args.listen}, expected another than --runtime")
    with ExitStack() as stack:
        door = _door_of(node_of(args), runtime, stack, read_only=args.read_only)
        if args.config is not None:
            from nriplugin.config import parse_config
            from nriplugin.daemon.config_watch import ConfigWatch, watching

            watch = ConfigWatch(args.config, parse_config, door.apply)
            door.apply(watch.initial())
            stack.enter_context(watching(watch))
        stopping = StopFlag()
        stack.enter_context(stopping_on_signals(stopping.set))
        # What is imported stays: spare the collector from walking it during requests.
        gc.collect()
        gc.freeze()
        stack.enter_context(closing(door))
        door.open(listen, mode)
        _log.info("serving %s for the runtime at %s", args.listen, args.runtime)
        stopping.wait()
        _log.info("stopping")
    return 0


def _door_of(
    node: DetectedNode, runtime: str, stack: ExitStack, *, read_only: bool
) -> Door:
    """Look at the node, and return the door for it; the stack closes what is open.

    Raises:
        ConfigError: grpcio is not installed.
    """
    try:
        import grpc_health.v1  # noqa: F401 - with grpcio, the extra's last part
    except ImportError as exc:
        raise ConfigError(
            "cri-proxy: grpcio is not installed, expected nriplugin[cri]"
        ) from exc
    # Late: all of them need what may be missing, or belong to this command alone.
    from nriplugin.doors.cri.door import Door
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.node.facts import node_facts
    from nriplugin.node.ownership_records import OwnershipRecords, state_directory
    from nriplugin.state.decision_log import Refusals

    note = Refusals().note
    directory = state_directory(node)
    records = None if directory is None else OwnershipRecords(directory)
    try:
        tree = node.open_tree()
    except CgroupError as exc:
        _log.warning(
            "cgroups: cannot be read, so nothing is learned from them: %s", exc
        )
        return Door(runtime, node_facts(node, None), records=records, note=note)
    facts = node_facts(node, tree)
    hands = None
    if facts.writable and not read_only:
        try:
            hands = stack.enter_context(closing(DirectWriter.of(node, tree)))
        except NRIPluginError as exc:
            _log.warning("cgroups are not written: %s", exc)
    facts = facts._replace(writable=hands is not None)
    return Door(runtime, facts, tree=tree, hands=hands, records=records, note=note)
