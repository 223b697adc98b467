"""What the CRI proxy adds to a call: through it and straight, taking turns.

With --koord, the calls go through Koordinator's koord-runtime-proxy, too. It has no
hook server, so it reads the calls and decides nothing.

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
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

from doors.hook.bundles import Bundle
from nodes.programs import program
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
POD = "p" * 64
# About what kubelet gets for a small node.
PASSED_BYTES = 2000
# koord-runtime-proxy makes it, to look there for hook servers.
HOOK_SERVERS = Path("/etc/runtime/hookserver.d")


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"bench: {text}", file=sys.stderr)


def play_runtime(path: str) -> None:
    """Answer every call at once; in a process of its own."""
    import grpc

    from nriplugin.api import cri_pb2 as cri

    created = cri.CreateContainerResponse(container_id="c" * 64).SerializeToString()
    version = cri.VersionResponse(runtime_name="bench").SerializeToString()
    # `info` is the same field in the answer of Status.
    status = cri.PodSandboxStatusResponse(info={"info": "x" * PASSED_BYTES})
    answers = {
        f"{RUNTIME}/RunPodSandbox": cri.RunPodSandboxResponse(
            pod_sandbox_id=POD
        ).SerializeToString(),
        f"{RUNTIME}/CreateContainer": created,
        f"{RUNTIME}/Version": version,
        f"{RUNTIME}/Status": status.SerializeToString(),
    }

    class All(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401
            answer = answers.get(handler_call_details.method, b"")
            return grpc.unary_unary_rpc_method_handler(lambda request, context: answer)

    server = grpc.server(ThreadPoolExecutor(32), handlers=[All()])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    signal.pause()


def pod_config() -> Any:  # noqa: ANN401
    """Return the configuration of the pod, in which the containers are created."""
    from nriplugin.api import cri_pb2 as cri

    config = cri.PodSandboxConfig()
    metadata = cri.PodSandboxMetadata(name="web", uid="u", namespace="default")
    config.metadata.CopyFrom(metadata)
    config.labels.update({f"label-{n}": "x" * 30 for n in range(20)})
    return config


def run_pod(path: str) -> None:
    """Have a proxy see the pod's start; in a process of its own."""
    import grpc

    from nriplugin.api import cri_pb2 as cri

    request = cri.RunPodSandboxRequest(config=pod_config()).SerializeToString()
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(f"unix:{path}", options=options) as channel:
        call: Any = channel.unary_unary(f"{RUNTIME}/RunPodSandbox")
        call(request, wait_for_ready=True)


def requests() -> dict[str, tuple[str, bytes]]:
    """Return what is measured: a method and its request."""
    from nriplugin.api import cri_pb2 as cri

    create = cri.CreateContainerRequest(pod_sandbox_id=POD)
    create.config.metadata.name = "app"
    create.config.linux.resources.CopyFrom(
        cri.LinuxContainerResources(
            cpu_shares=512,
            cpu_quota=50_000,
            cpu_period=100_000,
            memory_limit_in_bytes=1 << 27,
        )
    )
    create.sandbox_config.CopyFrom(pod_config())
    return {
        # Status has no field that has to be set.
        "passed": (f"{RUNTIME}/Status", b""),
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


@contextmanager
def koord_proxy(directory: Path, runtime: str) -> Iterator[tuple[str, Child]]:
    """Koordinator's proxy as a process."""
    path = str(directory / "koord.sock")
    before = HOOK_SERVERS.exists()
    command = (
        program("koord-runtime-proxy") / "koord-runtime-proxy",
        f"--koord-runtimeproxy-endpoint={path}",
        f"--remote-runtime-service-endpoint={runtime}",
    )
    try:
        with Child(*command) as child:
            wait_for(path)
            yield path, child
    finally:
        if not before:
            with suppress(OSError):  # someone else uses it now, or it was not made
                HOOK_SERVERS.rmdir()
                HOOK_SERVERS.parent.rmdir()


def wait_for(path: str) -> None:
    """Wait until a process accepts connections on a socket."""
    deadline = time.monotonic() + 20
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise SystemExit(f"bench: {path} does not come")
        time.sleep(0.02)


def measure_calls(turns: int, count: int, *, koord: bool) -> dict[str, Any]:
    """Let all ways take turns."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        directory = Path(scratch)
        runtime = str(directory / "runtime.sock")
        spawn = multiprocessing.get_context("spawn")
        played = spawn.Process(target=play_runtime, args=(runtime,), daemon=True)
        played.start()
        stack.callback(played.join)
        stack.callback(played.kill)
        wait_for(runtime)
        proxies = {"nriplugin": proxy} | ({"koord": koord_proxy} if koord else {})
        ways = {"direct": runtime}
        children: dict[str, Child] = {}
        for name, started in proxies.items():
            ways[name], children[name] = stack.enter_context(
                started(directory, runtime)
            )
            first = spawn.Process(target=run_pod, args=(ways[name],))
            first.start()
            first.join()
            if first.exitcode:
                raise SystemExit(f"bench: {name} does not start a pod")
        memory = {
            name: {"idle_mb": child.memory_kib() / 1024}
            for name, child in children.items()
        }
        calls: dict[str, dict[str, list[float]]] = {}
        for number in range(turns):
            say(f"turn {number + 1} of {turns}")
            for name, what in requests().items():
                for clients in CLIENTS:
                    key = f"{name}, {clients} client{'s' * (clients > 1)}"
                    one = calls.setdefault(key, {way: [] for way in ways})
                    for way, path in ways.items():
                        one[way] += turn(path, what, clients, count)
        for name, child in children.items():
            memory[name]["loaded_mb"] = child.memory_kib() / 1024
    return {
        "calls": {key: figures(one) for key, one in calls.items()},
        "memory": memory,
    }


def figures(taken: dict[str, list[float]]) -> dict[str, float]:
    """Return percentiles of all ways, and what each proxy adds."""
    result = {}
    for percent in (50, 99):
        all_ = {way: quantiles(one, n=100)[percent - 1] for way, one in taken.items()}
        for way, value in all_.items():
            result[f"{way}_p{percent}_us"] = value
            if way != "direct":
                result[f"{way}_added_p{percent}_us"] = value - all_["direct"]
    return result


def measure_starts(runs: int) -> dict[str, float]:
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
        for _ in range(runs):
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
    ways = (
        "direct",
        *(way for proxy in found["memory"] for way in (proxy, f"{proxy}_added")),
    )
    print(f"{'µs':24}" + "".join(f"{way.replace('_', ' '):>18}" for way in ways))
    for name, one in found["calls"].items():
        for percent in (50, 99):
            columns = (one[f"{way}_p{percent}_us"] for way in ways)
            print(f"{name:20} p{percent}" + "".join(f"{c:18.0f}" for c in columns))
    for name, memory in found["memory"].items():
        idle, loaded = memory["idle_mb"], memory["loaded_mb"]
        print(f"memory: {name}: {idle:.1f} MB idle, {loaded:.1f} MB loaded")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="hack/bench cri", description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--count", type=int, default=2000, help="calls in a turn")
    parser.add_argument("--runs", type=int, default=STARTS, help="starts of the hook")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--koord",
        action="store_true",
        help="also koord-runtime-proxy, which is built (five minutes the first time)",
    )
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--starts", action="store_true", help="only the cold start of the OCI hook"
    )
    only.add_argument("--calls", action="store_true", help="only the calls")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    if not args.starts:
        found |= measure_calls(args.turns, args.count, koord=args.koord)
    if not args.calls:
        found["starts_ms"] = measure_starts(args.runs)
    if args.json:
        print(json.dumps(found))
        return 0
    if not args.starts:
        print_calls(found)
    for name, took in found.get("starts_ms", {}).items():
        print(f"cold start: {took:.0f} ms, {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
