"""The NRI door against the Go reference, on the real runtime library.

Plugins take turns on one runtime, so that whatever else the machine does hits all of
them: ours as it comes, ours with every handler on and with rules (and once more where
it may write cgroups, in a tree of plain files), the conversions alone on the Go stub,
and the floor (floor.py). They are asked about replicas of one container; ours is also
asked about those of a pod with annotations, and about containers of which no two have
the same sizes, so that every decision is made anew.
Every figure is the median over the turns; every ratio is the median of the ratios
within a turn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from support.gopeers import NEWEST, Child, GoRuntime, build_go_peers, nriplugin_command
from support.trees import make_v2

REQUEST_BYTES = 3000
CONTAINERS = 100
WARM_UP = 300
SYNC_SIZES = (2000, 8000)
PRESENT = (10, 1000, 10_000)
WIDTH = 31  # of the first column

# The pod that the runtime makes up for its requests.
POD = "/kubepods/burstable/pod0c7a3d52-9c1e-4f6b-8d35-000000900000"
# Two rules that do not match the pod, and every handler with something to say.
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


class Plugin(NamedTuple):
    """A plugin, and what kind of containers it is asked about."""

    command: list[str]
    kind: Kind | None = None


def say(text: str) -> None:
    """Tell what takes so long."""
    print(f"bench: {text}", file=sys.stderr)


class Bench:
    """One runtime and the plugins that take turns on it."""

    def __init__(self, peers: Path, runtime: GoRuntime) -> None:
        self._runtime = runtime
        self._syncs = 0
        tree = Path(runtime.socket).with_name("cgroup")
        config = Path(runtime.socket).with_name("config.yaml")
        config.write_text(EVERYTHING)
        make_v2(tree, ("/kubepods", "/kubepods/burstable", POD))
        (tree / POD.lstrip("/") / "cpu.max").write_text("400000 100000\n")
        handlers = [
            *nriplugin_command(runtime.socket, "--config", str(config)),
            *("--cgroup-root", str(tree)),
        ]
        floor = str(Path(__file__).with_name("floor.py"))
        stub = str(peers / f"stubplugin-{runtime.version}")
        ours = list(nriplugin_command(runtime.socket))
        answers = [*handlers, "--read-only"]
        self.ours = {
            "nriplugin": Plugin(ours),
            "all differ": Plugin(ours, DIFFER),
            "all handlers": Plugin(answers),
            "annotated": Plugin(answers, ANNOTATED),
            "annotated, all differ": Plugin(answers, {**ANNOTATED, **DIFFER}),
            "and writes": Plugin(handlers),
        }
        self.others = {
            "go": Plugin([stub, "-socket-path", runtime.socket, "-idx", "99"]),
            "floor": Plugin([sys.executable, floor, runtime.socket]),
        }
        self.plugins = {**self.ours, **self.others}

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


def ratios(turns: list[Figures], others: list[Figures]) -> Figures:
    """Return the median of each figure's ratio within a turn."""
    return {
        name: median(a[name] / b[name] for a, b in zip(turns, others, strict=True))
        for name in turns[0]
    }


def measure(args: argparse.Namespace) -> dict[str, dict[str, Figures]]:
    """Run everything; return figures by part and plugin."""
    peers = build_go_peers()
    result: dict[str, dict[str, Figures]] = {}
    with GoRuntime(peers, args.nri) as runtime:
        runtime.start(containers=CONTAINERS)
        bench = Bench(peers, runtime)
        turns: dict[str, list[Figures]] = {name: [] for name in bench.plugins}
        for turn in range(args.turns):
            say(f"turn {turn + 1} of {args.turns}: {args.requests} requests each")
            for name in bench.plugins:
                turns[name].append(bench.turn(name, args.requests))
        result["request"] = {name: medians(figures) for name, figures in turns.items()}
        result["ratio"] = {
            f"{name} to {other}": ratios(turns[name], turns[other])
            for name in bench.ours
            for other in bench.others
        }
        result["synchronize"] = {}
        for size in SYNC_SIZES:
            say(f"Synchronize with {size} containers")
            bench.containers(size)
            ours, go = [], []
            for _ in range(args.turns):
                ours.append(bench.turn("nriplugin", 0))
                go.append(bench.turn("go", 0))
            result["synchronize"][str(size)] = {
                "nriplugin_ms": median(turn["sync_ms"] for turn in ours),
                "go_ms": median(turn["sync_ms"] for turn in go),
                "ratio": ratios(ours, go)["sync_ms"],
            }
        result["present"] = {}
        for count in PRESENT:
            say(f"requests with {count} containers present")
            bench.containers(count)
            figures = [bench.turn("nriplugin", args.requests) for _ in range(3)]
            result["present"][str(count)] = medians(figures)
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


def print_table(result: dict[str, dict[str, Figures]]) -> None:
    """Print the figures for people."""
    titles = {
        "request": f"CreateContainer, {REQUEST_BYTES} bytes, {CONTAINERS} containers",
        "ratio": "ours to others' (medians of the ratios within a turn)",
        "synchronize": "Synchronize, by number of containers",
        "present": "nriplugin's CreateContainer, by number of containers present",
        "start": "from exec",
    }
    print(f"{sys.executable}: Python {sys.version}")
    for part, rows in result.items():
        columns = list(dict.fromkeys(name for row in rows.values() for name in row))
        print(f"\n{titles[part]}")
        print(f"{'':{WIDTH}}" + "".join(f"{column:>19}" for column in columns))
        for row, figures in rows.items():
            cells = (
                f"{figures[name]:.2f}" if name in figures else "" for name in columns
            )
            print(f"{row:{WIDTH}}" + "".join(f"{cell:>19}" for cell in cells))


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="hack/bench nri", description=__doc__)
    parser.add_argument("--nri", default=NEWEST, help="release of the Go library")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = measure(args)
    if args.json:
        print(json.dumps(result))
    else:
        print_table(result)


if __name__ == "__main__":
    main()
