"""`hack/node`: build, boot and use throw-away nodes."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.cache import directory, say
from nodes.catalog import NODES, Node
from nodes.control_plane import shared
from nodes.machine import booted, build, joining, qemu_command
from nodes.programs import program
from nodes.shell import NodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.control_plane import Endpoint


def main(argv: list[str]) -> int:
    """Run a command; return 2 for a mistake of the user, 1 for any other failure."""
    args = _parser().parse_args(argv)
    # SIGTERM ends the programs that a build has started, too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(COMMANDS[args.command](args))
    except NodeError as exc:
        say(str(exc))
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/node", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list", help="the nodes there are")
    builder = commands.add_parser("build", help="build a node, or all of them")
    builder.add_argument("nodes", nargs="*", type=_node, metavar="NAME")
    builder.add_argument(
        "--ready",
        type=Path,
        metavar="FILE",
        help="append each node's name when it is built",
    )
    runner = commands.add_parser("run", help="boot, run a command, power off")
    runner.add_argument("node", type=_node, metavar="NAME")
    runner.add_argument(
        "--with",
        dest="share",
        type=Path,
        metavar="DIR",
        help="the guest has it in /with",
    )
    runner.add_argument(
        "--limit", type=float, default=1800, metavar="SECONDS", help="hard time limit"
    )
    runner.add_argument("argv", nargs="+", metavar="-- COMMAND")
    shell = commands.add_parser("shell", help="boot and open a shell (exit: power off)")
    shell.add_argument("node", type=_node, metavar="NAME")
    commands.add_parser("clean", help="remove everything that was built")
    return parser


def _node(name: str) -> Node:
    if name not in NODES:
        raise argparse.ArgumentTypeError(
            f"{name!r}, expected one of {', '.join(NODES)}"
        )
    return NODES[name]


def _list(_: argparse.Namespace) -> int:
    for node in NODES.values():
        there = "built" if [*directory().glob(f"payload-{node.name}-*/")] else ""
        print(f"{node.name:18} {there:6} {node.about}")
    return 0


def _build(args: argparse.Namespace) -> int:
    for node in args.nodes or NODES.values():
        build(node)
        if node.kubelet:
            program("control-plane")
        if args.ready is not None:
            with args.ready.open("a") as file:
                file.write(f"{node.name}\n")
    return 0


def _run(args: argparse.Namespace) -> int:
    def show(stream: str, text: str) -> None:
        print(text, end="", file=getattr(sys, stream), flush=True)

    with (
        cluster_of(args.node) as endpoint,
        booted(args.node, args.share, args.limit, endpoint=endpoint) as machine,
    ):
        return machine.run(*args.argv, timeout_s=args.limit, show=show).code


def _shell(args: argparse.Namespace) -> int:
    disks = build(args.node)
    with cluster_of(args.node) as endpoint:
        joined = joining(args.node, endpoint)
        append = f"node.shell {joined.append}"
        say("booting; leave with 'exit', or with Ctrl-A X if it hangs")
        argv = qemu_command(
            disks, "-serial", "mon:stdio", *joined.options, append=append
        )
        return subprocess.run(argv, check=False).returncode


@contextlib.contextmanager
def cluster_of(node: Node) -> Iterator[Endpoint | None]:
    """Run a control plane for a node that has a kubelet."""
    if not node.kubelet:
        yield None
        return
    home = Path(tempfile.mkdtemp(prefix="nriplugin-cluster-"))
    with shared(home) as cluster:
        yield cluster.endpoint


def _clean(_: argparse.Namespace) -> int:
    say(f"removing {directory()}")
    shutil.rmtree(directory(), ignore_errors=True)
    return 0


COMMANDS = {
    "list": _list,
    "build": _build,
    "run": _run,
    "shell": _shell,
    "clean": _clean,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
