"""Cycles of containers through the daemon with everything on: nothing may grow.

Each cycle is a pod and a container of its own: made, started, resized, stopped and
removed, by the real runtime library, with cgroups of plain files, direct writes and
their journal. Metrics are scraped every second, and one client watches the events.

The daemon's memory, file descriptors and threads are read before the cycles, after each
tenth of them, and one verification interval after the last. The exit code is 1 if at
the end there are more descriptors or threads than after the first tenth, or if the
resident memory has grown by more than 3 MB since then. The first tenth fills what has a
fixed size: the ring of events, the decision cache, the allocator's arenas.
"""

from __future__ import annotations

import argparse
import json
import select
import subprocess
import sys
import time

from benches.tables import add_output_options
from faulting import clients
from faulting.clients import scrape, status
from faulting.played_node import PATIENT_MS, PlayedNode
from support.gopeers import Child, build_go_peers

CONFIG = """
memoryQoS: {enabled: true}
cpuBurst: {enabled: true, percent: 50}
adopt: {enabled: true}
repair: {enabled: true, everySeconds: 5}
"""
INTERVAL_S = 5
# Fewer than a kernel has, because making them takes most of a cycle.
FILES = (
    *("cgroup.controllers", "cpu.weight", "cpu.max", "cpu.max.burst", "cpu.idle"),
    *("memory.max", "memory.high", "memory.low", "memory.min", "memory.current"),
    *("memory.swap.max", "memory.events", "cpu.stat"),
)
GROWTH_MB = 3.0
PARTS = 10
# At most so many in one command, so that nothing waits long for the runtime.
AT_ONCE = 500
READINGS = 20

Figures = dict[str, float]


def figures_of(plugin: Child, cycles: int, began: float) -> Figures:
    """Return what must not grow.

    The scraper and the watching client come and go, so the lowest number of descriptors
    and threads within a second counts.
    """
    descriptors, threads = plugin.open_files(), plugin.threads()
    for _ in range(READINGS - 1):
        time.sleep(1 / READINGS)
        descriptors = min(descriptors, plugin.open_files())
        threads = min(threads, plugin.threads())
    return {
        "cycles": cycles,
        "seconds": time.monotonic() - began,
        "rss_mb": plugin.memory_kib() / 1024,
        "pss_mb": plugin.pss_kib() / 1024,
        "descriptors": descriptors,
        "threads": threads,
    }


def soak(cycles: int, parts: int = PARTS) -> list[Figures]:
    """Run so many cycles; return the figures of the daemon over time."""
    rows: list[Figures] = []
    peers = build_go_peers()
    with PlayedNode(peers, CONFIG, files=FILES) as node:
        node.start_runtime(PATIENT_MS)
        plugin = node.start_plugin()
        node.wait_sync()
        # What is loaded at its first use is loaded now.
        status(node.control)
        scrape(node.http)
        command = [sys.executable, clients.__file__, node.control, node.http]
        watching = subprocess.Popen(command, stdout=subprocess.PIPE)
        said = watching.stdout
        assert said
        try:
            failed: list[str] = []

            def watches() -> bool:
                """Make some events, and return whether the client has seen one."""
                failed.extend(node.play("cycle", 0, count=20))
                return bool(select.select([said], [], [], 0.2)[0])

            node.wait_until(watches, "the client has seen an event")
            began = time.monotonic()
            rows.append(figures_of(plugin, 0, began))
            done = 0
            for part in range(1, parts + 1):
                while done < cycles * part // parts:
                    count = min(AT_ONCE, cycles * part // parts - done)
                    failed += node.play("cycle", 1000 + done, count=count)
                    done += count
                    if failed:
                        raise SystemExit(f"soak: {failed[0]}")
                rows.append(figures_of(plugin, done, began))
                print(f"soak: {done} cycles: {row(rows[-1])}", file=sys.stderr)
            time.sleep(INTERVAL_S + 2)
            rows.append(figures_of(plugin, done, began))
            node.wait_until(lambda: knows_none(node), "no container was known")
        finally:
            watching.kill()
            watching.wait()
            said.close()
    return rows


def knows_none(node: PlayedNode) -> bool:
    """Return whether the daemon knows no container any more."""
    known = status(node.control).containers
    return not (known.managed + known.adopted + known.missed + known.drifted)


def row(figures: Figures) -> str:
    """Return one line of the table."""
    return "".join(f"{name} {value:<10.6g} " for name, value in figures.items())


def grown(rows: list[Figures]) -> list[str]:
    """Return what has grown since the first tenth."""
    first, last = rows[1], rows[-1]
    found = [
        f"{name}: {first[name]:.0f} after the first tenth, {last[name]:.0f} at the end"
        for name in ("descriptors", "threads")
        if last[name] > first[name]
    ]
    if last["rss_mb"] > first["rss_mb"] + GROWTH_MB:
        found.append(
            f"memory: {first['rss_mb']:.1f} MB after the first tenth, "
            f"{last['rss_mb']:.1f} at the end"
        )
    return found


def main() -> int:
    """Parse arguments, run, print."""
    parser = argparse.ArgumentParser(
        prog="hack/bench soak",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cycles", type=int, default=100_000)
    add_output_options(parser)
    args = parser.parse_args()
    rows = soak(args.cycles)
    if args.output == "json":
        print(json.dumps(rows))
    else:
        print(f"{sys.executable}: Python {sys.version}\n")
        print("".join(f"{name:>12}" for name in rows[0]))
        for one in rows:
            print("".join(f"{value:>12.1f}" for value in one.values()))
    problems = grown(rows)
    for problem in problems:
        print(f"soak: {problem}", file=sys.stderr)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
