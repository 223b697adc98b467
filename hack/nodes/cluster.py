"""`hack/cluster`: a real Kubernetes on this machine, until it is told to end.

A process in the background, the keeper, holds the control plane and the guests. They
end with it.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from nodes.cache import directory, say
from nodes.catalog import NODES
from nodes.control_plane import shared
from nodes.machine import booted, build
from nodes.programs import program
from nodes.shell import NodeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nodes.catalog import Node

WITH_KUBELET = [name for name, node in NODES.items() if node.kubelet]
LIMIT_S = 12 * 3600
STOP_S = 90
POLL_S = 0.2


def main(argv: list[str]) -> int:
    """Run a command; return 2 for a mistake of the user, 1 for any other failure."""
    if argv[:1] == ["kubectl"]:  # its options are its own
        return _kubectl(argv[1:])
    args = _parser().parse_args(argv)
    try:
        return int(COMMANDS[args.command](args))
    except NodeError as exc:
        say(str(exc))
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    up = commands.add_parser(
        "up", help="start a cluster; the first node runs three pods"
    )
    up.add_argument(
        "nodes",
        nargs="*",
        type=_node,
        metavar="NODE",
        help=f"one or more of {', '.join(WITH_KUBELET)} (default: {WITH_KUBELET[0]})",
    )
    commands.add_parser("down", help="end it; nothing of it is kept")
    commands.add_parser("kubectl", help="run kubectl with what follows")
    keep = commands.add_parser("keep")
    keep.add_argument("nodes", nargs="+", type=_node)
    return parser


def _node(name: str) -> Node:
    if name not in WITH_KUBELET:
        raise argparse.ArgumentTypeError(
            f"{name!r}, expected one of {', '.join(WITH_KUBELET)}"
        )
    return NODES[name]


def _home() -> Path:
    return directory() / "cluster"


def _keeper() -> int | None:
    """Return the keeper's pid, or None if there is none."""
    try:
        with (_home() / "keeper").open() as file:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None
            return int(file.read())
    except (FileNotFoundError, ValueError):
        return None


def _up(args: argparse.Namespace) -> int:
    nodes = args.nodes or [NODES[WITH_KUBELET[0]]]
    if _keeper() is not None:
        raise NodeError("a cluster is up; hack/cluster down ends it")
    # What has to be built is built here, where its progress is seen.
    for node in nodes:
        build(node)
    shutil.rmtree(_home(), ignore_errors=True)
    _home().mkdir(parents=True)
    log = _home() / "keeper.log"
    with log.open("w") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "nodes.cluster", "keep", *(n.name for n in nodes)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _follow(log, keeper)
    except KeyboardInterrupt:
        keeper.terminate()
        raise
    if keeper.poll() is not None:
        raise NodeError("the cluster did not come up")
    say("the cluster is up: hack/cluster kubectl get pods; hack/cluster down")
    return 0


def _follow(log: Path, keeper: subprocess.Popen[bytes]) -> None:
    """Show the keeper's progress until the cluster is up or the keeper ends."""
    with log.open() as text:
        while True:
            ended = keeper.poll() is not None or (_home() / "up").exists()
            sys.stderr.write(text.read())
            sys.stderr.flush()
            if ended:
                return
            time.sleep(POLL_S)


def _keep(args: argparse.Namespace) -> int:
    """Hold the cluster until SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def show(_: str, text: str) -> None:
        print(text, end="", file=sys.stderr, flush=True)

    with _pid_file(), contextlib.ExitStack() as stack:
        plane = stack.enter_context(shared(_home() / "control-plane"))
        for number, node in enumerate(args.nodes):
            machine = stack.enter_context(
                booted(node, limit_s=LIMIT_S, endpoint=plane.endpoint)
            )
            what = "join" if number else "show"
            done = machine.run("/node/bin/kubernetes", what, timeout_s=900, show=show)
            if done.code != 0:
                raise NodeError(f"{node.name}: exit code {done.code}")
        (_home() / "up").touch()
        while True:
            signal.pause()


@contextlib.contextmanager
def _pid_file() -> Iterator[None]:
    """Hold a lock on the file with this process's pid for as long as it lives."""
    with (_home() / "keeper").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _down(_: argparse.Namespace) -> int:
    pid = _keeper()
    if pid is None:
        say("no cluster is up")
        return 0
    say("ending the cluster")
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while _keeper() == pid:
        if time.monotonic() > deadline:
            raise NodeError(f"process {pid} has not ended after {STOP_S} s")
        time.sleep(POLL_S)
    shutil.rmtree(_home(), ignore_errors=True)
    return 0


def _kubectl(args: list[str]) -> int:
    kubeconfig = _home() / "control-plane/kubeconfig"
    if _keeper() is None or not kubeconfig.exists():
        say("no cluster is up; hack/cluster up starts one")
        return 2
    # Where the user is, who may name files.
    here = os.environ.get("CALLED_FROM")
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    argv = [str(program("kubectl") / "kubectl"), *args]
    return subprocess.run(argv, env=environ, cwd=here, check=False).returncode


COMMANDS = {"up": _up, "down": _down, "keep": _keep}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
