"""Runs in a node: updates with a journal, from processes that are killed or compete.

guest_journal.py crash: kills one in the middle of its updates, restores.
guest_journal.py storm: two at the same time, then restores.
Prints one line of JSON: what was seen.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from e2e.guest_cgroup import Branch, keep_patches

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.locate.detect import detect_node
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Update
from nriplugin.kube import kubelet_config

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20
UPDATES = 1000
STORM = 100


def values(version: int, turn: int) -> dict[str, Any]:
    """Return another value for every type, every time."""
    both = {
        "cpu.cfs_quota_us": 20000 + turn * 10,
        "cpu.cfs_burst_us": 1000 + turn,
        # Seldom: the kernel rebuilds its scheduling domains each time.
        "cpuset.cpus": "01"[turn // 8 % 2],
        "memory.limit_in_bytes": 200 * MIB + turn * 4096,
        "pids.max": 100 + turn,
    }
    if version == 1:
        period = 100000 if turn % 3 else 50000
        return both | {"cpu.shares": 100 + turn, "cpu.cfs_period_us": period}
    return both | {
        "cpu.weight": 100 + turn,
        "cpu.idle": int(turn % 5 == 0),
        "memory.high": 150 * MIB + turn * 4096,
        "memory.min": MIB + turn * 4096,
        "memory.low": 2 * MIB + turn * 4096,
        "io.max": f"254:0 rbps={1000000 + turn}",
        "hugetlb.2MB.limit_in_bytes": (turn % 7) * 2 * MIB,
    }


def updates(version: int, cgroups: list[str]) -> Iterator[list[list[Update]]]:
    """Yield branches of updates, some of everything."""
    for turn in range(UPDATES):
        chosen = values(version, turn)
        if chosen.get("cpu.idle"):
            chosen.pop("cpu.weight")
        yield [
            [Update(kind, cgroup, value) for kind, value in chosen.items()]
            for cgroup in cgroups
        ]


def work(state: str, cgroups: list[str]) -> None:
    """Update until killed; print a line for every batch."""
    node = detect_node(os.environ, kubelet=kubelet_config)
    executor = Executor(node.open_tree(), journal=Journal(state), writer=node.writer())
    for batch in updates(node.version.number, cgroups):
        for outcome in executor.leveled_update_batch(batch):
            if not outcome.ok:
                print(json.dumps({"failed": outcome.reason}), flush=True)
        print(json.dumps({"done": 1}), flush=True)


def compete(state: str, offset: str, cgroups: list[str]) -> None:
    """Update a file of this process and one that both write; print what was lost."""
    node = detect_node(os.environ, kubelet=kubelet_config)
    tree = node.open_tree()
    executor = Executor(tree, journal=Journal(state))
    qos, pod, *own = cgroups
    mine = own[int(offset)]
    for turn in range(STORM):
        value = 1000 + turn * 2 + int(offset)
        executor.update_batch(
            [
                Update("pids.max", mine, value),
                Update("pids.max", pod, value),
                Update("pids.max", qos, value),
            ]
        )
        if tree.get("pids.max", mine) != value:
            print(json.dumps({"lost": value}), flush=True)


def main(what: str) -> None:
    """Prepare a branch, let processes work on it, restore, compare."""
    node = detect_node(os.environ, kubelet=kubelet_config)
    tree = node.open_tree()
    mounts = dict.fromkeys(node.mounts.hierarchies.values()) or [node.cgroup_root]
    keep_patches(Path(node.mounts.hierarchies.get("cpu", node.cgroup_root)))
    branch = Branch(tree, [Path(mount) for mount in mounts], {})
    if what == "storm":
        branch.cgroups["second"] = f"{branch.cgroups['pod']}/second"
        branch.make()
    branch.fill_cpusets()
    state = tempfile.mkdtemp(dir="/run")
    before = snapshot(branch)
    seen = crash(state, branch) if what == "crash" else storm(state, branch)
    during = snapshot(branch)
    command = ["nriplugin", "restore", "--json", "--state-dir", state]
    restored = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    after = snapshot(branch)
    again = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    branch.remove()
    print(
        json.dumps(
            {
                "seen": seen,
                "changed": sorted(
                    path for path in before if before[path] != during[path]
                ),
                "not back": {
                    path: [before[path], after[path]]
                    for path in before
                    if before[path] != after[path]
                },
                "code": restored.returncode,
                "actions": {
                    found["path"].rpartition("/")[2]: [found["action"], found["reason"]]
                    for found in json.loads(restored.stdout)["files"]
                },
                "again": json.loads(again.stdout)["files"],
                "shared": during[str(branch.directory("pod", "pids") / "pids.max")],
            }
        )
    )


def crash(state: str, branch: Branch) -> list[Any]:
    """Kill the process after some of its updates, at no particular moment."""
    argv = [sys.executable, __file__, "work", state, *branch.cgroups.values()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as worker:
        assert worker.stdout is not None
        lines = [worker.stdout.readline() for _ in range(20)]
        worker.kill()
        lines += worker.stdout.readlines()
    return [json.loads(line) for line in lines if line.endswith(b"}\n")]


def storm(state: str, branch: Branch) -> list[Any]:
    """Run two processes at once; return their own files' values, and their output."""
    arguments = [*branch.cgroups.values()]
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, "compete", state, offset, *arguments],
            stdout=subprocess.PIPE,
        )
        for offset in ("0", "1")
    ]
    said = [worker.communicate()[0].decode() for worker in workers]
    own = [branch.tree.get("pids.max", one) for one in arguments[2:]]
    return [own, [worker.returncode for worker in workers], said]


def snapshot(branch: Branch) -> dict[str, str]:
    """Return the contents of all files that can be set."""
    names = ("cpu.", "cpuset.", "memory.", "pids.max", "io.max", "hugetlb.", "blkio.")
    views = (
        *("stat", "current", "peak", "events", "pressure", "usage", "failcnt"),
        *("kmem", "effective", "numa", "reclaim", "slabinfo", "rsvd"),
    )
    found = {}
    for name in branch.cgroups:
        for directory in dict.fromkeys(branch.directories(name)):
            for path in directory.iterdir():
                if not path.name.startswith(names) or not path.is_file():
                    continue
                if any(view in path.name for view in views):
                    continue
                try:
                    found[str(path)] = path.read_text().strip()
                except OSError:
                    continue
    return found


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "work":
        work(rest[0], rest[1:])
    elif mode == "compete":
        compete(rest[0], rest[1], rest[2:])
    else:
        main(mode)
