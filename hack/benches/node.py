"""What a plugin costs a container's start on a real node: `crictl create`, timed.

No plugin, nriplugin, and the same conversions on the Go stub take turns on one node;
each turn makes some containers in one pod. Every figure is the median of all creations.
The node is emulated, so only the comparison means anything, not the milliseconds.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from nodes.cache import say
from nodes.catalog import NODES
from nodes.machine import booted
from support.gopeers import build_go_peers
from support.kubelet import Kubelet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Pod

RESOURCES = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 2**27,
}
# The NRI version of each node's runtime, for the Go stub of the same.
NRI_OF = {"containerd-2": "0.8.0", "containerd-1.7": "0.6.1", "crio": "0.11.0"}

# Runs in the guest: makes containers, times `crictl create` of each, and says whether
# a plugin was in it.
SCRIPT = """
import json, subprocess, sys, time
pod_id, container, pod, count = sys.argv[1:]
config = json.load(open(container))
for number in range(int(count)):
    config["metadata"]["name"] = f"bench-{time.time_ns()}"
    json.dump(config, open("/tmp/bench.json", "w"))
    argv = ["crictl", "create", "--no-pull", pod_id, "/tmp/bench.json", pod]
    began = time.perf_counter()
    made = subprocess.run(argv, check=True, capture_output=True, text=True)
    took = time.perf_counter() - began
    name = made.stdout.strip()
    inspected = subprocess.run(["crictl", "inspect", name], capture_output=True)
    print(json.dumps([1000 * took, b"cpu.weight" in inspected.stdout]), flush=True)
    subprocess.run(["crictl", "rm", "-f", name], capture_output=True)
"""


class Bench:
    """A node with one pod, in which containers come and go."""

    def __init__(self, machine: Machine, pod: Pod, configs: tuple[str, str]) -> None:
        self._machine = machine
        self._make = ["python3", "-c", SCRIPT, pod.id, *configs]

    def turn(self, plugin: str, count: int) -> list[float]:
        """Return the milliseconds of each creation with a plugin there."""
        with self._running(plugin):
            tries = 10
            while plugin != "none" and not self._create(1)[0][1]:
                tries -= 1
                if not tries:
                    raise SystemExit(f"bench: the plugin {plugin} does not register")
            made = self._create(count)
        if [there for _, there in made] != [plugin != "none"] * count:
            raise SystemExit(f"bench: {plugin} was not in every creation: {made}")
        return [took for took, _ in made]

    def _create(self, count: int) -> list[tuple[float, bool]]:
        printed = self._machine.check(*self._make, str(count), timeout_s=300)
        return [tuple(json.loads(line)) for line in printed.splitlines()]

    @contextmanager
    def _running(self, plugin: str) -> Iterator[None]:
        if plugin == "none":
            yield
            return
        commands = {
            "nriplugin": ["nriplugin", "run"],
            "go": ["/with/stub", "-idx", "99"],
        }
        pid = self._machine.spawn(*commands[plugin], log="/run/bench.log")
        try:
            yield
        finally:
            self._machine.stop(pid)


def measure(node: str, turns: int, count: int) -> dict[str, dict[str, float]]:
    """Boot the node and let the plugins take turns on it."""
    with tempfile.TemporaryDirectory() as share:
        peers = build_go_peers()
        shutil.copy(peers / f"stubplugin-{NRI_OF[node]}", Path(share, "stub"))
        with booted(NODES[node], Path(share)) as machine:
            kubelet = Kubelet(machine)
            with kubelet.sandbox() as pod:
                bench = Bench(machine, pod, kubelet.write_configs(pod, "b", RESOURCES))
                taken: dict[str, list[float]] = {"none": [], "nriplugin": [], "go": []}
                bench.turn("none", 2)
                for turn in range(turns):
                    say(f"turn {turn + 1} of {turns}")
                    for plugin, times in taken.items():
                        times += bench.turn(plugin, count)
    none = median(taken["none"])
    return {
        plugin: {"p50_ms": median(times), "added_ms": median(times) - none}
        for plugin, times in taken.items()
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="hack/bench node", description=__doc__)
    parser.add_argument("--node", choices=NRI_OF, default="containerd-2")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--count", type=int, default=8, help="creations in a turn")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = measure(args.node, args.turns, args.count)
    if args.json:
        print(json.dumps({"node": args.node, **figures}))
        return 0
    print(f"crictl create on {args.node}, median of {args.turns * args.count}")
    for plugin, figure in figures.items():
        print(f"{plugin:10} {figure['p50_ms']:8.1f} ms  {figure['added_ms']:+7.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
