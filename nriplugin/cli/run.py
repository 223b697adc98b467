"""`nriplugin run`: the plugin on the node's NRI socket."""

from __future__ import annotations

import gc
import logging
import os
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING

from google.protobuf.internal import api_implementation

from nriplugin.cgroup.journal.journal import DATABASE
from nriplugin.cli.detect import add_node_arguments, node_of
from nriplugin.cli.logs import log_to_stderr
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.errors import CgroupError, ConfigError
from nriplugin.node.facts import node_facts
from nriplugin.node.ownership_records import OwnershipRecords, state_directory
from nriplugin.nri.launch import (
    DEFAULT_INDEX,
    DEFAULT_NAME,
    DEFAULT_SOCKET,
    launch_from,
)
from nriplugin.nri.runner import Runner
from nriplugin.stopping import stopping_on_signals

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from nriplugin.cgroup.locate.detect import DetectedNode

_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options; the single-dash ones are Go plugins' spellings."""
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
        "-v", "--verbose", action="store_true", help="log what happens, in detail"
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="never write to cgroups, only answer; what needs more is left alone",
    )
    parser.add_argument(
        "--grpc",
        metavar="ADDRESS",
        help="also answer NRI's Plugin service over gRPC, without doing anything, on "
        "a socket such as unix:///run/nriplugin/plugin.sock",
    )
    add_node_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    log_to_stderr(verbose=args.verbose)
    launch = launch_from(
        os.environ, name=args.name, idx=args.idx, socket_path=args.nri_socket
    )
    plugin = _plugin_for(node_of(args), read_only=args.read_only)
    reloading: AbstractContextManager[None] = nullcontext()
    if args.config is not None:
        from nriplugin.config import parse_config
        from nriplugin.daemon.config_watch import ConfigWatch, watching

        watch = ConfigWatch(args.config, parse_config, plugin.apply)
        plugin.apply(watch.initial())
        reloading = watching(watch)
    if api_implementation.Type() != "upb":
        _log.warning(
            "protobuf is the %s implementation, many times slower than upb: "
            "use an image with glibc",
            api_implementation.Type(),
        )
    runner = Runner(plugin, launch)
    # What is imported stays: spare the collector from walking it during requests.
    gc.collect()
    gc.freeze()
    with (
        closing(plugin),
        _serving_grpc(plugin, args.grpc),
        stopping_on_signals(runner.stop),
        reloading,
    ):
        try:
            runner.run()
        except OSError as exc:
            raise ConfigError(
                f"--nri-socket: {launch.socket_path}: {exc.strerror}, "
                "expected a socket that can be dialled"
            ) from exc
    return 0


def _plugin_for(node: DetectedNode, *, read_only: bool) -> NodePlugin:
    """Look at the node, and return the plugin for it."""
    directory = state_directory(node)
    records = None if directory is None else OwnershipRecords(directory)
    try:
        tree = node.open_tree()
    except CgroupError as exc:
        facts = node_facts(node, None)
        return NodePlugin(facts, blind_because=str(exc), records=records)
    facts = node_facts(node, tree)
    if read_only or not facts.writable:
        facts = facts._replace(writable=False)
        return NodePlugin(facts, tree, records=records)
    from nriplugin.doors.nri.writing import WritingPlugin
    from nriplugin.node.direct_writes import DirectWriter

    before = os.path.exists(os.path.join(directory or "", DATABASE))
    plugin = WritingPlugin(
        *(facts, tree, lambda: DirectWriter.of(node, tree), records),
        written_before=before,
    )
    if before:
        from nriplugin.config import Config

        plugin.apply(Config())  # without a file, nothing else would open the journal
    return plugin


@contextmanager
def _serving_grpc(plugin: NodePlugin, address: str | None) -> Iterator[None]:
    """Answer over gRPC for a while, if there is an address to do so.

    Raises:
        ConfigError: grpcio is not installed, or there can be no such socket.
    """
    if address is None:
        yield
        return
    # Late: whoever does not want it does not pay for it.
    from nriplugin.sockets import parse_address

    path = parse_address("--grpc", address)
    try:
        from nriplugin.daemon.plugin_service import PluginService
    except ImportError as exc:
        raise ConfigError(
            "--grpc: grpcio is not installed, expected nriplugin[grpc]"
        ) from exc
    service = PluginService(plugin)
    service.open(path)
    try:
        yield
    finally:
        service.close()
