"""Disturbs the plugin and its runtime for some minutes, under a stream of containers.

The runtime is the real Go library; it keeps its containers and writes their cgroups, a
tree of plain files. Meanwhile a scraper reads the metrics, three clients watch the
events, and three `nriplugin status --watch` show the state, over all restarts.

After each disturbance: no container has failed, every container is known to the plugin,
every file is right within the default verification interval (a minute; it is 2 s here),
and `status` names each time without a connection. At the end the clients still get
their answers. The exit code is 1 if one of these does not hold.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from support.gopeers import build_go_peers

from faulting.checks import Violation, check_gaps, learn_values, wait_until_right
from faulting.clients import Clients, status
from faulting.disturbances import DISTURBANCES, Disturbance, mount_state
from faulting.played_node import PlayedNode
from faulting.status_pages import StatusWatchers
from faulting.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

INTERVAL_S = 2
CONFIG = f"""
curve: proportional
memoryQoS: {{enabled: true}}
cpuBurst: {{enabled: true, percent: 50}}
adopt: {{enabled: true}}
repair: {{enabled: true, everySeconds: {INTERVAL_S}}}
"""
WATCHERS = 3
# Set in the process that has file systems of its own.
ENV_UNSHARED = "NRIPLUGIN_FAULTS_UNSHARED"


class Faults:
    """One run: the node, its stream, and what was found."""

    def __init__(self, node: PlayedNode, seed: int, kinds: list[Disturbance]) -> None:
        self._node = node
        self._random = random.Random(seed)
        self._kinds = kinds
        self.stream = Stream(node, random.Random(seed + 1))
        self.took: dict[str, list[float]] = defaultdict(list)

    def run(self, seconds: float, at_least: int) -> None:
        """Disturb for so long.

        Raises:
            Violation: something that must hold does not.
        """
        node = self._node
        node.start_runtime()
        node.start_plugin()
        node.wait_sync()
        right = learn_values(node)
        began = time.monotonic()
        with (
            Clients(node.control, node.http, WATCHERS) as clients,
            StatusWatchers(node.control, WATCHERS) as pages,
            self.stream,
        ):
            for number, kind in enumerate(self._order()):
                if number >= at_least and time.monotonic() > began + seconds:
                    break
                time.sleep(self._random.uniform(0.2, 1.5))
                with self.stream.paused():
                    before = status(node.control)
                print(f"{time.monotonic() - began:7.1f} s  {kind.name}", flush=True)
                kind.act(node, self._random)
                time.sleep(self._random.uniform(0, 1))
                with self.stream.paused():
                    took = wait_until_right(node, self.stream.wanted, right)
                    check_gaps(before, status(node.control), kind)
                if self.stream.failed:
                    raise Violation(f"containers failed: {self.stream.failed[:5]}")
                self.took[kind.name].append(took)
                print(f"{'':11}right after {took:.1f} s", flush=True)
            if problems := pages.wait_for_next():
                raise Violation("; ".join(problems))
            self.scrapes, self.events = clients.scraper.done, clients.events
            self.pages = sum(one.pages for one in pages.each)
            if not (self.scrapes and self.events):
                raise Violation(f"{self.scrapes} scrapes and {self.events} events")

    def _order(self) -> Iterator[Disturbance]:
        while True:
            kinds = list(self._kinds)
            self._random.shuffle(kinds)
            yield from kinds

    def print_table(self) -> None:
        """Print what was done and how long it took until everything was right."""
        print(f"\n{'disturbance':22}{'times':>6}{'median s':>10}{'longest s':>11}")
        for name, took in sorted(self.took.items()):
            ordered = sorted(took)
            middle = ordered[len(ordered) // 2]
            print(f"{name:22}{len(took):>6}{middle:>10.1f}{ordered[-1]:>11.1f}")
        done = ", ".join(f"{n} {part}" for part, n in self.stream.done.items())
        print(f"\ncontainers: {done}; {len(self.stream.failed)} failed")
        print(f"{self.scrapes} scrapes, {self.events} events seen by the watchers,")
        print(f"{self.pages} pages of status --watch")


def main() -> int:
    """Parse arguments, disturb, print."""
    parser = argparse.ArgumentParser(
        prog="hack/faults",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument(
        "--at-least",
        type=int,
        default=1,
        metavar="N",
        help="disturb so many times, however long it takes",
    )
    parser.add_argument("--only", help="disturbances whose names have this text")
    args = parser.parse_args()
    _unshare()
    # So that a run that is ended leaves no process behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    print(f"faults: seed {args.seed}, {args.minutes:g} minutes", flush=True)
    with PlayedNode(build_go_peers(), CONFIG) as node:
        mounted = mount_state(node)
        kinds = [one for one in DISTURBANCES if mounted or not one.mount]
        if not mounted:
            print("faults: nothing can be mounted: no full or read-only disk")
        kinds = [one for one in kinds if (args.only or "") in one.name]
        faults = Faults(node, args.seed, kinds)
        try:
            faults.run(60 * args.minutes, args.at_least)
        except (Violation, TimeoutError, AssertionError) as exc:
            kept = os.path.join(tempfile.gettempdir(), f"faults-{os.getpid()}.log")
            shutil.copy(node.log, kept)
            print(f"faults: seed {args.seed}: VIOLATION: {exc}", file=sys.stderr)
            print(f"faults: the log of both is {kept}", file=sys.stderr)
            return 1
        finally:
            if mounted:
                node.kill()
                subprocess.run(["umount", str(node.state)], check=False)
        faults.print_table()
    return 0


def _unshare() -> None:
    """Go on in a process whose mounts nobody else sees, if that is possible."""
    command = ["unshare", "--mount", "--propagation", "private"]
    if os.environ.get(ENV_UNSHARED) or not shutil.which(command[0]):
        return
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        return
    environ = {**os.environ, ENV_UNSHARED: "1"}
    here = [sys.executable, "-m", "faulting.main", *sys.argv[1:]]
    os.execvpe(command[0], [*command, *here], environ)  # noqa: S606


if __name__ == "__main__":
    sys.exit(main())
