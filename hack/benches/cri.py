"""What the CRI proxy adds to a call: through it and straight, taking turns.

The runtime is played by a process that only answers, so all that is measured is the way
there and back. Each client is a process of its own with one connection, and calls as
fast as it gets answers; with 16 of them on few processors, most of the time is waiting
for a turn on both ways. `rewritten` is CreateContainer, which is read, decided about
and changed; `passed` goes through as bytes. Every figure is over all calls of a kind.

Last, the cold start of the OCI hook next to that of Python alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from doors.hook.bundles import Bundle
from support.gopeers import ALONE, Child
from support.trees import make_v2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from multiprocessing.synchronize import Barrier

RUNTIME = "/runtime.v1.RuntimeService"
WARM_UP = 50
CLIENTS = (1, 16)
STARTS = 15
# About what kubelet asks and gets for a small node.
PASSED_BYTES = 2000


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"bench: {text}", file=sys.stderr)


def play_runtime(path: str) -> None:
    """Answer every call at once; in a process of its own."""
    import grpc

    from nriplugin.api import cri_pb2 as cri

    created = cri.CreateContainerResponse(container_id="c" * 64).SerializeToString()
    version = cri.VersionResponse(runtime_name="bench").SerializeToString()
    answers = {
        f"{RUNTIME}/CreateContainer": created,
        f"{RUNTIME}/Version": version,
        f"{RUNTIME}/Status": b"x" * PASSED_BYTES,
    }

    class All(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401
            answer = answers.get(handler_call_details.method, b"")
            return grpc.unary_unary_rpc_method_handler(lambda request, context: answer)

    server = grpc.server(ThreadPoolExecutor(32), handlers=[All()])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    signal.pause()


def requests() -> dict[str, tuple[str, bytes]]:
    """Return what is measured: a method and its request."""
    from nriplugin.api import cri_pb2 as cri

    create = cri.CreateContainerRequest(pod_sandbox_id="p" * 64)
    create.config.metadata.name = "app"
    create.config.linux.resources.CopyFrom(
        cri.LinuxContainerResources(
            cpu_shares=512,
            cpu_quota=50_000,
            cpu_period=100_000,
            memory_limit_in_bytes=1 << 27,
        )
    )
    metadata = cri.PodSandboxMetadata(name="web", uid="u", namespace="default")
    create.sandbox_config.metadata.CopyFrom(metadata)
    create.sandbox_config.labels.update({f"label-{n}": "x" * 30 for n in range(20)})
    return {
        "passed": (f"{RUNTIME}/Status", b"x" * 100),
        "rewritten": (f"{RUNTIME}/CreateContainer", create.SerializeToString()),
    }


def call_again_and_again(
    path: str,
    method: str,
    request: bytes,
    count: int,
    begin: Barrier,
    out: Connection,
) -> None:
    """Time calls; in a process of its own."""
    import grpc

    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(f"unix:{path}", options=options) as channel:
        call: Any = channel.unary_unary(method)
        for _ in range(WARM_UP):
            call(request)
        begin.wait()
        taken = []
        for _ in range(count):
            began = time.perf_counter()
            call(request)
            taken.append(1e6 * (time.perf_counter() - began))
        out.send(taken)


def turn(path: str, what: tuple[str, bytes], clients: int, count: int) -> list[float]:
    """Return the microseconds of every call of so many clients."""
    spawn = multiprocessing.get_context("spawn")
    begin = spawn.Barrier(clients)
    pairs = [spawn.Pipe(duplex=False) for _ in range(clients)]
    processes = [
        spawn.Process(
            target=call_again_and_again,
            args=(path, *what, max(1, count // clients), begin, sender),
        )
        for _, sender in pairs
    ]
    for process in processes:
        process.start()
    taken = [one for receiver, _ in pairs for one in receiver.recv()]
    for process in processes:
        process.join()
    return taken


@contextmanager
def proxy(directory: Path, runtime: str) -> Iterator[tuple[str, Child]]:
    """The proxy as a process, with a cgroup v2 tree of plain files."""
    path = str(directory / "proxy.sock")
    (directory / "cgroup").mkdir()
    make_v2(directory / "cgroup", ("/", "/kubepods"))
    argv = [sys.executable, "-m", "nriplugin", "cri-proxy", "--read-only", *ALONE]
    argv += ["--listen", f"unix://{path}", "--runtime", f"unix://{runtime}"]
    with Child(*argv, "--cgroup-root", directory / "cgroup") as child:
        wait_for(path)
        yield path, child


def wait_for(path: str) -> None:
    """Wait until a process accepts connections on a socket."""
    deadline = time.monotonic() + 20
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: {path} does not come")
        time.sleep(0.02)


def measure_calls(turns: int, count: int) -> dict[str, Any]:
    """Let both ways take turns."""
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        runtime = str(directory / "runtime.sock")
        spawn = multiprocessing.get_context("spawn")
        played = spawn.Process(target=play_runtime, args=(runtime,), daemon=True)
        played.start()
        wait_for(runtime)
        calls: dict[str, dict[str, list[float]]] = {}
        try:
            with proxy(directory, runtime) as (path, child):
                idle = child.memory_kib() / 1024
                for number in range(turns):
                    say(f"turn {number + 1} of {turns}")
                    for name, what in requests().items():
                        for clients in CLIENTS:
                            key = f"{name}, {clients} client{'s' * (clients > 1)}"
                            one = calls.setdefault(key, {"direct": [], "proxy": []})
                            one["direct"] += turn(runtime, what, clients, count)
                            one["proxy"] += turn(path, what, clients, count)
                memory = {"idle_mb": idle, "loaded_mb": child.memory_kib() / 1024}
        finally:
            played.kill()
            played.join()
    return {"calls": {key: figures(one) for key, one in calls.items()}, **memory}


def figures(taken: dict[str, list[float]]) -> dict[str, float]:
    """Return percentiles of both ways, and the difference."""
    result = {}
    for percent in (50, 99):
        both = {way: quantiles(all_, n=100)[percent - 1] for way, all_ in taken.items()}
        for way, value in both.items():
            result[f"{way}_p{percent}_us"] = value
        result[f"added_p{percent}_us"] = both["proxy"] - both["direct"]
    return result


def measure_starts() -> dict[str, float]:
    """Return the milliseconds of Python alone, and of the hook for one container.

    By default a runtime has written everything already; with more handlers on, there is
    something to write, and its journal.
    """
    with tempfile.TemporaryDirectory() as scratch:
        bundle = Bundle(Path(scratch))
        config = Path(scratch) / "config.yaml"
        config.write_text("cpuBurst: {enabled: true, percent: 20}\n")
        hook = ["-m", "nriplugin", "hook", *bundle.options()]
        commands = {
            "python -c pass": ["-c", "pass"],
            "hook, nothing to write": hook,
            "hook, cpuBurst to write": [*hook, "--config", str(config)],
        }
        state = json.dumps(bundle.state).encode()
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(STARTS):
            for name, argv in commands.items():
                bundle.write("cpu.max.burst", "0")
                began = time.perf_counter()
                subprocess.run(
                    [sys.executable, *argv],
                    check=True,
                    capture_output=True,
                    input=state,
                )
                taken[name].append(1000 * (time.perf_counter() - began))
        assert bundle.read("cpu.max.burst") == {"cpu.max.burst": "10000"}
    return {name: median(times) for name, times in taken.items()}


def print_calls(found: dict[str, Any]) -> None:
    """Print what `measure_calls` found."""
    print(f"{'µs':24}{'direct':>16}{'through proxy':>16}{'added':>16}")
    for name, one in found["calls"].items():
        for percent in (50, 99):
            columns = (
                one[f"{way}_p{percent}_us"] for way in ("direct", "proxy", "added")
            )
            print(f"{name:20} p{percent}" + "".join(f"{c:16.0f}" for c in columns))
    print(f"memory: {found['idle_mb']:.1f} MB idle, {found['loaded_mb']:.1f} MB loaded")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="hack/bench cri", description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--count", type=int, default=2000, help="calls in a turn")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--starts", action="store_true", help="only the cold start of the OCI hook"
    )
    args = parser.parse_args()
    found = {} if args.starts else measure_calls(args.turns, args.count)
    found["starts_ms"] = measure_starts()
    if args.json:
        print(json.dumps(found))
        return 0
    if not args.starts:
        print_calls(found)
    for name, took in found["starts_ms"].items():
        print(f"cold start: {took:.0f} ms, {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
