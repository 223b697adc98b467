"""The daemon around the request path: what metrics, HTTP and the control API cost.

The daemons, on the real runtime library, with cgroups of plain files:

core          `--control off --http off`
metrics       `--control off`, scraped
everything    control API and HTTP; scraped, asked for its status, and watched
handlers      everything, and every handler that decides is on
policies      handlers, and those are on that act while containers run, every second
go            the conversions alone, on the Go library's plugin side

`policy_ms` is the CPU time of one look at all containers by the policies. Memory is
read after a Synchronize with 500 containers and 500 more that are made, started,
stopped and removed. Requests are timed in turns, with the same containers;
during the turns of `everything` a process scrapes the metrics every second and watches
the events. Every figure is the median over the turns; every share is the median of the
shares within a turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from math import inf
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from benches.tables import add_output_options, print_result
from faulting import clients
from faulting.clients import Clients, scrape, status
from nodes.ports import free_ports
from support.gopeers import NEWEST, Child, GoRuntime, build_go_peers, nriplugin_command
from support.trees import make_v2

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINERS = 500
REQUEST_BYTES = 3000
WARM_UP = 300
SCRAPES = 5
LOOKS = 5
TARGETS_MB = {"core": 24, "metrics": 34, "everything": 50}
TARGET_SHARE = 0.03
WIDTHS = (14, 16)  # of the first column and of the others
TITLES = {
    "memory": f"memory with {CONTAINERS} containers",
    "request": f"CreateContainer, {REQUEST_BYTES} bytes, {CONTAINERS} containers; "
    "`everything` is scraped and watched; shares of Go's",
}
HANDLERS = """
memoryQoS: {enabled: true, swap: 0, oomGroup: true}
cpuBurst: {enabled: true, percent: 50}
cpuQoS: {enabled: true, level: BE}
adopt: {enabled: true}
repair: {enabled: true}
"""

# Every policy that acts while containers run.
POLICIES = """
policies: {intervalSeconds: 1}
quotaBurst: {enabled: true}
startupBoost: {enabled: true}
memoryGuard: {enabled: true}
proactiveReclaim: {enabled: true}
"""

# As tests/interop/go/runtime/synthetic.go names them.
PARENT = "/kubepods/burstable/pod0c7a3d52-9c1e-4f6b-8d35-"
# The pod of the containers that are made and removed, and those (bench.go).
MADE = 900_000
REMOVED = 16

Figures = dict[str, float]


class Daemon(NamedTuple):
    """A daemon, and which of its services are on."""

    command: list[str]
    control: str = ""
    http: str = ""


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"bench: {text}", file=sys.stderr)


def cgroups() -> Iterator[str]:
    """Return the cgroups of all containers, each after those above it."""
    yield from ("/kubepods", "/kubepods/burstable")
    pod = 0
    for index in range(1, CONTAINERS + 1):
        if index % 3:
            pod += 1
            yield f"{PARENT}{pod:012}"
        yield f"{PARENT}{pod:012}/c{index:06}"
    yield f"{PARENT}{MADE:012}"
    for index in range(REMOVED):
        yield f"{PARENT}{MADE:012}/c{index:06}"


class Bench:
    """One runtime and the daemons that take turns on it."""

    def __init__(self, peers: Path, runtime: GoRuntime, directory: Path) -> None:
        self._runtime = runtime
        self._syncs = 0
        make_v2(directory / "cgroup", cgroups())
        (directory / "config.yaml").write_text(HANDLERS)
        (directory / "policies.yaml").write_text(HANDLERS + POLICIES)
        control = f"unix://{directory}/c.sock"
        http = f"127.0.0.1:{free_ports(1)[0]}"
        core = nriplugin_command(
            runtime.socket, "--cgroup-root", str(directory / "cgroup")
        )
        command = list(core)
        everything = [*command, "--http", http, "--control", control]
        config = ("--config", str(directory / "config.yaml"))
        policies = ("--config", str(directory / "policies.yaml"))
        state = ("--state-dir", str(directory / "state"))
        stub = str(peers / f"stubplugin-{runtime.version}")
        self.daemons = {
            "core": Daemon(command),
            "metrics": Daemon([*command, "--http", http], http=http),
            "everything": Daemon(everything, control, http),
            "handlers": Daemon([*everything, *config, *state], control, http),
            "policies": Daemon([*everything, *policies, *state], control, http),
            "go": Daemon([stub, "-socket-path", runtime.socket, "-idx", "99"]),
        }

    @contextmanager
    def _running(self, name: str) -> Iterator[Child]:
        with Child(*self.daemons[name].command) as child:
            self._syncs += 1
            sync = self._runtime.wait_sync(self._syncs, 30)[-1]
            if sync["error"]:
                raise SystemExit(f"bench: {name}: {sync['error']}")
            yield child
        while self._runtime("plugins")["connected"]:
            time.sleep(0.01)

    def _requests(self, count: int) -> list[float]:
        reply = self._runtime(
            "bench",
            count=count,
            warmup=WARM_UP,
            request_bytes=REQUEST_BYTES,
            finish=True,
        )
        return [nanos / 1000 for nanos in reply["nanos"]]

    def memory(self, name: str) -> Figures:
        """Return the memory of a daemon after some use of all that it serves."""
        daemon = self.daemons[name]
        with self._running(name) as child:
            self._requests(CONTAINERS - WARM_UP)
            with Clients(daemon.control, daemon.http, bool(daemon.control)):
                for _ in range(SCRAPES if daemon.http else 0):
                    scrape(daemon.http)
                    time.sleep(0.2)
                if daemon.control:
                    status(daemon.control)
                time.sleep(0.5)
                looks = look_ms(daemon.control) if name == "policies" else {}
                return looks | {
                    "rss_mb": child.memory_kib() / 1024,
                    "pss_mb": child.pss_kib() / 1024,
                    "threads": child.threads(),
                    "descriptors": child.open_files(),
                }

    def turn(self, name: str, count: int) -> Figures:
        """Start a daemon and time requests."""
        daemon = self.daemons[name]
        with self._running(name), watching(daemon):
            percentiles = quantiles(self._requests(count), n=100)
        return {f"p{percent}_us": percentiles[percent - 1] for percent in (50, 90, 99)}


def look_ms(address: str) -> Figures:
    """Return the CPU time of one look at all containers."""
    begin = now = status(address).policies
    while now.looks < begin.looks + LOOKS:
        time.sleep(0.5)
        now = status(address).policies
    spent_s = now.cpu_seconds - begin.cpu_seconds
    return {"policy_ms": spent_s / (now.looks - begin.looks) * 1000}


@contextmanager
def watching(daemon: Daemon) -> Iterator[None]:
    """Scrape and watch the daemon, in another process, if it serves that."""
    if not daemon.control:
        yield
        return
    command = [sys.executable, clients.__file__, daemon.control, daemon.http]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(2)  # until the process has loaded its modules
        yield
    finally:
        process.kill()
        process.wait()


def medians(turns: list[Figures]) -> Figures:
    """Return the median of each figure."""
    return {name: median(turn[name] for turn in turns) for name in turns[0]}


def measure(args: argparse.Namespace) -> dict[str, dict[str, Figures]]:
    """Run everything; return figures by part and daemon."""
    peers = build_go_peers()
    result: dict[str, dict[str, Figures]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="nri-") as directory,
        GoRuntime(peers, args.nri) as runtime,
    ):
        # Longer than the library's 2 s, which may not be enough on a busy machine.
        runtime.start(containers=CONTAINERS, request_timeout_ms=20_000)
        bench = Bench(peers, runtime, Path(directory))
        memory = result["memory"] = {}
        for name in bench.daemons:
            say(f"memory: {name}")
            memory[name] = medians([bench.memory(name) for _ in range(3)])
            if name in TARGETS_MB:
                memory[name]["target_mb"] = TARGETS_MB[name]
        timed = ("core", "metrics", "everything", "handlers", "policies", "go")
        turns: dict[str, list[Figures]] = {name: [] for name in timed}
        for number in range(args.turns):
            say(f"turn {number + 1} of {args.turns}: {args.requests} requests each")
            for name in timed:
                turns[name].append(bench.turn(name, args.requests))
    result["request"] = {name: medians(figures) for name, figures in turns.items()}
    for name in timed:
        for figure in ("p50_us", "p99_us"):
            shares = [
                (own[figure] / go[figure], (own[figure] - core[figure]) / go[figure])
                for own, core, go in zip(
                    turns[name], turns["core"], turns["go"], strict=True
                )
            ]
            row, short = result["request"][name], figure.removesuffix("_us")
            row[f"{short}_of_go"] = median(share for share, _ in shares)
            row[f"{short}_above_core"] = median(above for _, above in shares)
    result["request"]["everything"]["target"] = TARGET_SHARE
    return result


def missed(result: dict[str, dict[str, Figures]]) -> list[str]:
    """Return a sentence for each figure that misses its target."""
    found = [
        f"memory of {name}: {figures['rss_mb']:.1f} MB, expected at most {most:g} MB"
        for name, figures in result["memory"].items()
        if figures["rss_mb"] > (most := figures.get("target_mb", inf))
    ]
    everything = result["request"]["everything"]
    above, most = everything["p50_above_core"], everything["target"]
    if above > most:
        found.append(f"p50 of everything: {above:.3f} of Go's above core, not {most:g}")
    return found


def main() -> int:
    """Parse arguments, measure, print; return 1 if a target is missed."""
    parser = argparse.ArgumentParser(
        prog="hack/bench daemon",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nri", default=NEWEST, help="release of the Go library")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--requests", type=int, default=5000)
    add_output_options(parser)
    args = parser.parse_args()
    result = measure(args)
    print_result(result, TITLES, args.output, WIDTHS)
    problems = missed(result)
    for problem in problems:
        say(problem)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
