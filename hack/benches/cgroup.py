"""What reading and writing cgroup files through `nriplugin.cgroup` costs.

Each figure is printed next to that of the bare system calls: os.pread and os.pwrite on
descriptors that are already open, and open, read or write, close. A cached update is
printed next to a look-up in a dict. A leveled update moves the cpusets of a QoS class,
its pods and their containers from 1-4 to 4-5 and back, and is printed next to the same
writes as bare system calls.

Without --root the tree is made of ordinary files, in /dev/shm if that exists: the
figures then show what nriplugin's code costs, without the kernel's. With --root it is
made of real cgroups, below a cgroup v2 directory that has cpu and cpuset in its
cgroup.subtree_control; they are removed at the end. The journal is in a temporary
directory on the disk.

All measurements take turns, so that other work of the machine affects all of them.
Every figure is the median over the turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from nriplugin.cgroup.files import CGROUP2_MAGIC, LocalFiles
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

QOS = "/nriplugin-bench"
FILES = {
    "cpu.weight": "100\n",
    "cpu.max": "max 100000\n",
    "cpu.max.burst": "0\n",
    "cpuset.cpus": "1-4\n",
    "cpuset.cpus.effective": "1-5\n",
}
CONTROLLERS = "+cpu +cpuset"

Figures = dict[str, float]


def say(text: str) -> None:
    """Print progress."""
    print(f"bench: {text}", file=sys.stderr)


class Cgroups:
    """A QoS class with pods of one container each, real or fake."""

    def __init__(self, root: Path, pods: int, *, real: bool) -> None:
        self.root = root
        self.real = real
        self.pods = [f"{QOS}/pod{number}" for number in range(pods)]
        self.containers = [f"{pod}/container" for pod in self.pods]
        for cgroup in (QOS, *self.pods, *self.containers):
            directory = self._directory(cgroup)
            directory.mkdir()
            if real and cgroup not in self.containers:
                (directory / "cgroup.subtree_control").write_text(CONTROLLERS)
            elif not real:
                for name, content in FILES.items():
                    (directory / name).write_text(content)
        self.files = LocalFiles(str(root), (CGROUP2_MAGIC,) if real else None)
        self.tree = Tree(self.files, 2)

    def _directory(self, cgroup: str) -> Path:
        return self.root / cgroup.lstrip("/")

    def paths(self, file: str, cgroups: list[str]) -> list[str]:
        """Return absolute paths, for the bare figures."""
        return [str(self._directory(cgroup) / file) for cgroup in cgroups]

    def remove(self) -> None:
        """Remove the tree."""
        self.files.close()
        if not self.real:
            shutil.rmtree(self._directory(QOS))
            return
        for cgroup in (*self.containers, *self.pods, QOS):
            with contextlib.suppress(OSError):
                self._directory(cgroup).rmdir()


def timed(action: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def bare_read(path: str) -> bytes:
    """Open, read, close."""
    fd = os.open(path, os.O_RDONLY)
    content = os.read(fd, 4096)
    os.close(fd)
    return content


def bare_write(path: str, content: bytes) -> None:
    """Open, write, close."""
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, content)
    os.close(fd)


@contextlib.contextmanager
def opened(paths: list[str], flags: int) -> Iterator[list[int]]:
    """Keep descriptors open meanwhile."""
    fds = [os.open(path, flags) for path in paths]
    try:
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


class Bench:
    """Everything that takes turns; the figures of a turn are per operation."""

    def __init__(self, cgroups: Cgroups, state: str, cached: int) -> None:
        self._cgroups = cgroups
        self._journal = Journal(state)
        self._plain = Executor(cgroups.tree)
        self._journalled = Executor(cgroups.tree, journal=self._journal)
        self._turn = 0
        updates = [
            Update(Type.CPU_WEIGHT, f"{QOS}/pod{number}", 100)
            for number in range(cached)
        ]
        # The number that was asked for, even if there are fewer pods.
        present = [u for u in updates if u.cgroup in set(cgroups.pods)]
        self._plain.update_batch(present)
        known = self._plain._cache._values
        entry = known[present[0].key]
        for update in updates:
            known.setdefault(update.key, entry)
        self._cached = updates
        self._values = dict.fromkeys((update.key for update in updates), 100)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()

    def reads(self) -> Figures:
        """Time reads, in microseconds each."""
        pods, tree = self._cgroups.pods, self._cgroups.tree
        paths = self._cgroups.paths("cpu.max", pods)
        with opened(paths, os.O_RDONLY) as fds:
            pread = timed(lambda: [os.pread(fd, 4096, 0) for fd in fds])
        seconds = {
            "os.pread": pread,
            "open, read, close": timed(lambda: [bare_read(path) for path in paths]),
            "Tree.read": timed(lambda: [tree.read(Type.CPU_QUOTA, p) for p in pods]),
            "Tree.get": timed(lambda: [tree.get(Type.CPU_QUOTA, p) for p in pods]),
        }
        return {name: 1e6 * figure / len(pods) for name, figure in seconds.items()}

    def writes(self) -> Figures:
        """Time writes of another value each time, in microseconds each."""
        pods, tree = self._cgroups.pods, self._cgroups.tree
        paths = self._cgroups.paths("cpu.weight", pods)
        weight = iter(range(200 + 10 * self._turn, 10_000))

        def one_by_one(executor: Executor) -> None:
            value = next(weight)
            for pod in pods:
                executor.update(Update(Type.CPU_WEIGHT, pod, value), cacheable=False)

        def batch(executor: Executor) -> None:
            value = next(weight)
            executor.update_batch([Update(Type.CPU_WEIGHT, pod, value) for pod in pods])

        content = str(next(weight)).encode()
        with opened(paths, os.O_WRONLY) as fds:
            pwrite = timed(lambda: [os.pwrite(fd, content, 0) for fd in fds])
        value = next(weight)
        content = str(value).encode()

        def write_bare() -> None:
            for path in paths:
                bare_write(path, content)

        def set_all() -> None:
            for pod in pods:
                tree.set(Type.CPU_WEIGHT, pod, value)

        seconds = {
            "os.pwrite": pwrite,
            "open, write, close": timed(write_bare),
            "Tree.set": timed(set_all),
            "Executor.update": timed(lambda: one_by_one(self._plain)),
            "update, journal": timed(lambda: one_by_one(self._journalled)),
            "update_batch": timed(lambda: batch(self._plain)),
            "batch, journal": timed(lambda: batch(self._journalled)),
        }
        return {name: 1e6 * figure / len(pods) for name, figure in seconds.items()}

    def no_ops(self) -> Figures:
        """Time a batch of cached updates, in milliseconds."""
        updates, values = self._cached, self._values
        executor = self._plain
        entry = executor._cache._values[updates[0].key]
        for update in updates:  # whatever was written meanwhile
            executor._cache._values[update.key] = entry._replace(value=100)

        def look_up() -> None:
            for update in updates:
                values[update.key]

        return {
            "dict look-ups": 1e3 * timed(look_up),
            "cached updates": 1e3 * timed(lambda: executor.update_batch(updates)),
        }

    def leveled(self) -> Figures:
        """Time a move of all cpusets, in milliseconds."""
        cgroups = self._cgroups
        branches = [[QOS], cgroups.pods, cgroups.containers]

        def level(executor: Executor, cpus: str) -> None:
            outcomes = executor.leveled_update_batch(
                [
                    [Update(Type.CPUSET_CPUS, cgroup, cpus) for cgroup in level]
                    for level in branches
                ],
                cacheable=False,
            )
            assert all(outcome.ok for outcome in outcomes)

        level(self._plain, "1-4")
        paths = [cgroups.paths("cpuset.cpus", level) for level in branches]
        merged = [*paths[0], *paths[1]]
        exact = [*paths[2], *paths[1], *paths[0]]

        def bare() -> None:
            for path in merged:
                bare_write(path, b"1-5")
            for path in exact:
                bare_write(path, b"4-5")

        seconds = {
            "the writes alone": timed(bare),
            "leveled": timed(lambda: level(self._plain, "1-4")),
            "leveled, journal": timed(lambda: level(self._journalled, "4-5")),
        }
        return {name: 1e3 * figure for name, figure in seconds.items()}

    def turn(self) -> dict[str, Figures]:
        """Time everything once."""
        self._turn += 1
        return {
            "reads": self.reads(),
            "writes": self.writes(),
            "no-ops": self.no_ops(),
            "leveled": self.leveled(),
        }


def measure(args: argparse.Namespace) -> dict[str, Figures]:
    """Make the tree, take turns, and remove it."""
    turns: list[dict[str, Figures]] = []
    with contextlib.ExitStack() as stack:
        root = args.root
        if root is None:
            shm = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108
            say(f"a fake tree of plain files in {shm or tempfile.gettempdir()}")
            directory = tempfile.TemporaryDirectory(dir=shm)
            root = stack.enter_context(directory)
        cgroups = Cgroups(Path(root), args.pods, real=args.root is not None)
        stack.callback(cgroups.remove)
        state = stack.enter_context(tempfile.TemporaryDirectory())
        bench = Bench(cgroups, state, args.cached)
        stack.callback(bench.close)
        for turn in range(args.turns):
            say(f"turn {turn + 1} of {args.turns}")
            turns.append(bench.turn())
    return {
        part: {
            name: median(turn[part][name] for turn in turns) for name in turns[0][part]
        }
        for part in turns[0]
    }


def print_table(result: dict[str, Figures], args: argparse.Namespace) -> None:
    """Print the figures for people, and what each is of the first of its part."""
    units = {
        "reads": ("us each", "read of cpu.max"),
        "writes": ("us each", "write of cpu.weight"),
        "no-ops": ("ms", f"{args.cached} updates that change nothing"),
        "leveled": (
            "ms",
            f"cpuset of a QoS class and {args.pods} pods with containers",
        ),
    }
    print(f"{sys.executable}: Python {sys.version}")
    for part, figures in result.items():
        unit, title = units[part]
        print(f"\n{title}")
        print(f"{'':20}{unit:>12}{'per second':>14}{'ratio':>9}")
        first = next(iter(figures.values()))
        for name, figure in figures.items():
            rate = f"{1e6 / figure:.0f}" if unit == "us each" else ""
            print(f"{name:20}{figure:12.2f}{rate:>14}{figure / first:9.1f}")


def main() -> None:
    """Parse arguments, measure, print."""
    parser = argparse.ArgumentParser(
        prog="hack/bench cgroup",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--root", metavar="DIR", help="a cgroup v2 directory to use")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--pods", type=int, default=500)
    parser.add_argument("--cached", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    result = measure(args)
    if args.json:
        print(json.dumps(result))
    else:
        print_table(result, args)


if __name__ == "__main__":
    main()
