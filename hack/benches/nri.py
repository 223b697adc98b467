"""The NRI door against the Go reference, on the real runtime library.

Plugins take turns on one runtime, so that other load of the machine hits all of them;
each turn of a plugin is a process of its own. The scenarios:

nriplugin              the default configuration, asked about replicas of one container
all differ             the same, but no two containers have the same sizes, so that
                       every decision is made anew
all handlers           every handler on, and rules; no access to cgroups
annotated              the same with a pod that has three annotations
annotated, all differ  the same, and no two containers have the same sizes
and writes             every handler on, and files of the pod's cgroup are written
                       before the answer, in a tree of plain files; each container is
                       started, stopped and removed before the next, which is not timed
go                     the conversions alone, on the Go library's plugin side
floor                  a plugin that parses nothing and answers a constant (floor.py)

Every figure is the median over the turns; every share is the median of the shares
within a turn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from benches.tables import add_output_options, print_result
from support.gopeers import NEWEST, Child, GoRuntime, build_go_peers, nriplugin_command
from support.trees import make_v2

REQUEST_BYTES = 3000
CONTAINERS = 100
WARM_UP = 300
SYNC_SIZES = (2000, 8000)
PRESENT = (10, 1000, 10_000)
PRESENT_FIGURES = ("p50_us", "p99_us", "rss_after_mb")
WIDTHS = (31, 24)  # of the first column and of the others
TITLES = {
    "request": f"CreateContainer, {REQUEST_BYTES} bytes, {CONTAINERS} containers",
    "share": "share of Go's and of the floor's (medians over the turns), and size",
    "synchronize": "Synchronize, by number of containers",
    "present": "CreateContainer, by number of containers present",
    "start": "from exec",
}

# The pod that the runtime makes up for its requests, and those of its containers that
# are removed after their creation (tests/interop/go/runtime/bench.go).
POD = "/kubepods/burstable/pod0c7a3d52-9c1e-4f6b-8d35-000000900000"
FINISHED = [f"{POD}/c{index:06}" for index in range(16)]
# Every handler sets at least one file; the two rules do not match the pod.
EVERYTHING = """
memoryQoS: {enabled: true, swap: 0, oomGroup: true}
cpuBurst: {enabled: true, percent: 50}
cpuQoS: {enabled: true, level: BE}
memoryQoSLevel: {enabled: true, level: HLS}
unifiedAnnotations: {enabled: true, allowed: [pids.max, memory.high]}
rules:
- {match: {namespace: "team-*"}, cpuBurst: {enabled: false}}
- {match: {labels: {app: db}, podGroup: "train-*"}, memoryQoS: {enabled: false}}
"""

Figures = dict[str, float]
Kind = dict[str, object]  # further fields of the runtime's command

ANNOTATED: Kind = {
    "annotations": {
        "cpu-burst.cgroup2.nri.io": "20%",
        "memory-request.cgroup2.nri.io/container.server": "128Mi",
        "pids.max.cgroup2.nri.io": "1024",
    }
}
DIFFER: Kind = {"differ": True}
FINISH: Kind = {"finish": True}


class Plugin(NamedTuple):
    """A plugin, and what kind of containers it is asked about."""

    command: list[str]
    kind: Kind | None = None


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"bench: {text}", file=sys.stderr)


class Bench:
    """One runtime and the plugins that take turns on it."""

    def __init__(self, peers: Path, runtime: GoRuntime) -> None:
        self._runtime = runtime
        self._syncs = 0
        tree = Path(runtime.socket).with_name("cgroup")
        config = Path(runtime.socket).with_name("config.yaml")
        config.write_text(EVERYTHING)
        make_v2(tree, ("/kubepods", "/kubepods/burstable", POD, *FINISHED))
        (tree / POD.lstrip("/") / "cpu.max").write_text("400000 100000\n")
        handlers = [
            *nriplugin_command(runtime.socket, "--config", str(config)),
            *("--cgroup-root", str(tree)),
        ]
        floor = str(Path(__file__).with_name("floor.py"))
        stub = str(peers / f"stubplugin-{runtime.version}")
        default = list(nriplugin_command(runtime.socket))
        answers = [*handlers, "--read-only"]
        self.scenarios = {
            "nriplugin": Plugin(default),
            "all differ": Plugin(default, DIFFER),
            "all handlers": Plugin(answers),
            "annotated": Plugin(answers, ANNOTATED),
            "annotated, all differ": Plugin(answers, {**ANNOTATED, **DIFFER}),
            "and writes": Plugin(handlers, FINISH),
        }
        self.others = {
            "go": Plugin([stub, "-socket-path", runtime.socket, "-idx", "99"]),
            "floor": Plugin([sys.executable, floor, runtime.socket]),
        }
        self.plugins = {**self.scenarios, **self.others}

    def turn(self, plugin: str, requests: int) -> Figures:
        """Start a plugin, time requests, and stop it."""
        command, kind = self.plugins[plugin]
        started = time.perf_counter()
        with Child(*command) as child:
            self._syncs += 1
            sync = self._runtime.wait_sync(self._syncs)[-1]
            figures = {"start_ms": 1000 * (time.perf_counter() - started)}
            if sync["error"]:
                raise SystemExit(f"bench: {plugin}: {sync['error']}")
            figures["sync_ms"] = sync["micros"] / 1000
            figures["rss_mb"] = child.memory_kib() / 1024
            if requests:
                reply = self._runtime(
                    "bench",
                    count=requests,
                    warmup=WARM_UP,
                    request_bytes=REQUEST_BYTES,
                    **(kind or {}),
                )
                micros = [nanos / 1000 for nanos in reply["nanos"]]
                percentiles = quantiles(micros, n=100)
                for percent in (50, 90, 99):
                    figures[f"p{percent}_us"] = percentiles[percent - 1]
                figures["rss_after_mb"] = child.memory_kib() / 1024
        while self._runtime("plugins")["connected"]:
            time.sleep(0.01)
        return figures

    def containers(self, count: int) -> None:
        """Set how many containers the runtime has."""
        self._runtime("set_containers", containers=count, container_bytes=1500)


def medians(turns: list[Figures]) -> Figures:
    """Return the median of each figure."""
    return {name: median(turn[name] for turn in turns) for name in turns[0]}


def share(turns: list[Figures], others: list[Figures], figure: str) -> float:
    """Return the median of a figure's share of the other's, turn by turn."""
    return median(
        turn[figure] / other[figure] for turn, other in zip(turns, others, strict=True)
    )


def measure(args: argparse.Namespace) -> dict[str, dict[str, Figures]]:
    """Run everything; return figures by part and plugin."""
    peers = build_go_peers()
    result: dict[str, dict[str, Figures]] = {}
    with GoRuntime(peers, args.nri) as runtime:
        # Longer than the library's 2 s, within which a busy machine may not synchronize
        # with thousands of containers.
        runtime.start(containers=CONTAINERS, request_timeout_ms=20_000)
        bench = Bench(peers, runtime)
        turns: dict[str, list[Figures]] = {name: [] for name in bench.plugins}
        for turn in range(args.turns):
            say(f"turn {turn + 1} of {args.turns}: {args.requests} requests each")
            for name in bench.plugins:
                turns[name].append(bench.turn(name, args.requests))
        result["request"] = {name: medians(figures) for name, figures in turns.items()}
        result["share"] = {
            name: {
                "p50_of_go": share(turns[name], turns["go"], "p50_us"),
                "p99_of_go": share(turns[name], turns["go"], "p99_us"),
                "p50_of_floor": share(turns[name], turns["floor"], "p50_us"),
                "rss_mb": result["request"][name]["rss_after_mb"],
                "exec_to_sync_ms": result["request"][name]["start_ms"],
            }
            for name in bench.plugins
        }
        result["synchronize"] = {}
        for size in SYNC_SIZES:
            say(f"Synchronize with {size} containers")
            bench.containers(size)
            tested, go = [], []
            for _ in range(args.turns):
                tested.append(bench.turn("nriplugin", 0))
                go.append(bench.turn("go", 0))
            result["synchronize"][str(size)] = {
                "nriplugin_ms": median(turn["sync_ms"] for turn in tested),
                "go_ms": median(turn["sync_ms"] for turn in go),
                "share_of_go": share(tested, go, "sync_ms"),
            }
        result["present"] = {}
        for count in PRESENT:
            say(f"requests with {count} containers present")
            bench.containers(count)
            both: dict[str, list[Figures]] = {"nriplugin": [], "go": []}
            for _ in range(min(3, args.turns)):
                for name, figures in both.items():
                    figures.append(bench.turn(name, args.requests))
            result["present"][str(count)] = {
                f"{name}_{figure}": value
                for name, figures in both.items()
                for figure, value in medians(figures).items()
                if figure in PRESENT_FIGURES
            }
    say("python -c pass")
    bare = []
    for _ in range(10):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(1000 * (time.perf_counter() - started))
    result["start"] = {
        name: {"to_synchronized_ms": figures["start_ms"]}
        for name, figures in result["request"].items()
        if not bench.plugins[name].kind
    }
    result["start"]["python -c pass"] = {"to_exit_ms": median(bare)}
    return result


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(
        prog="hack/bench nri",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--nri", default=NEWEST, help="release of the Go library")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--requests", type=int, default=1000)
    add_output_options(parser)
    args = parser.parse_args()
    print_result(measure(args), TITLES, args.output, WIDTHS)


if __name__ == "__main__":
    main()
