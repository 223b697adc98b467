"""Real processes, real files, real signals."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

PODS = 250
# Every value that is written is as long as these: in a plain file, unlike in the
# kernel's, cutting it and writing it are two things, and SIGKILL comes between them.
ORIGINAL = {
    "cpu.weight": "1000",
    "cpu.max": "10000 100000",
    "cpu.max.burst": "10000",
    "memory.low": "40960",
}

SETUP = """
import random, sys
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cgroup.writing.updates import Update

root, state, pods, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
journal = Journal(state)
executor = Executor(Tree(LocalFiles(root, magics=None), 2), journal=journal)
"""

# A thousand updates, and again and again: from the second time on every file holds a
# value of ours already.
UPDATES = """
import itertools
for turn in itertools.count(1):
    for number in range(pods):
        pod = f"/kubepods/pod{number}"
        quota = 10000 * (turn % 9 + 1)
        outcomes = executor.update_batch([
            Update(Type.CPU_WEIGHT, pod, 1001 + (number + turn) % 900),
            Update(Type.CPU_BURST, pod, quota + 7),
            Update(Type.CPU_QUOTA, pod, quota + 9),
            Update(Type.MEMORY_LOW, pod, 4096 * (11 + (number + turn) % 14)),
        ])
        assert all(outcome.ok for outcome in outcomes), outcomes
        print(number, flush=True)
"""

STORM = """
for turn in range(40):
    updates = []
    for number in range(pods):
        pod = f"/kubepods/pod{number}"
        # The process is in the last digit.
        weight = random.randrange(1, 999) * 10 + seed
        updates.append(Update(Type.CPU_WEIGHT, pod, weight))
        updates.append(Update(Type.MEMORY_LOW, pod, 4096 * weight))
    random.shuffle(updates)
    outcomes = executor.update_batch(updates, cacheable=False)
    assert all(outcome.ok for outcome in outcomes), outcomes
print("done", flush=True)
"""


def make_tree(root: Path, pods: int) -> None:
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu memory\n")
    for number in range(pods):
        pod = root / "kubepods" / f"pod{number}"
        pod.mkdir(parents=True)
        for name, content in ORIGINAL.items():
            (pod / name).write_text(content)


def contents(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text().strip()
        for path in root.glob("kubepods/*/*")
    }


def start(script: str, root: Path, pods: int, seed: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            SETUP + script,
            str(root),
            str(root.parent / "state"),
            str(pods),
            str(seed),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


@pytest.mark.parametrize("lines", [1, 60, 249, 250, 310])
def test_killed_in_the_middle_of_a_thousand_updates(
    lines: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After SIGKILL at some instant, `restore` puts every file back."""
    root = tmp_path / "cgroup"
    make_tree(root, PODS)
    before = contents(root)
    with start(UPDATES, root, PODS) as child:
        try:
            assert child.stdout is not None
            for _ in range(lines):
                assert child.stdout.readline()
        finally:
            child.kill()
    assert child.returncode == -9
    changed = sum(before[path] != now for path, now in contents(root).items())
    assert changed >= min(lines, PODS) * 4
    arguments = ["--state-dir", str(tmp_path / "state"), "--cgroup-root", str(root)]
    assert main(["restore", *arguments]) == 0
    assert contents(root) == before
    capsys.readouterr()
    assert main(["restore", *arguments]) == 0
    assert capsys.readouterr().out.startswith("nothing to restore")


def test_a_storm_from_two_processes_loses_nothing(tmp_path: Path) -> None:
    """Every file ends as the journal says, and the journal has the true original."""
    root = tmp_path / "cgroup"
    make_tree(root, 20)
    before = contents(root)
    children = [start(STORM, root, 20, seed) for seed in (1, 2)]
    for child in children:
        with child:
            assert child.stdout is not None
            assert child.stdout.read() == "done\n"
        assert child.returncode == 0
    now = contents(root)
    with Journal(str(tmp_path / "state")) as journal:
        rows = {row.path.lstrip("/"): row for row in journal.rows()}
    written = {path for path in now if path.endswith(("cpu.weight", "memory.low"))}
    assert rows.keys() == written
    for path, row in rows.items():
        assert row.original == before[path]
        assert row.ours == now[path]
        unit = 4096 if path.endswith("memory.low") else 1
        assert int(now[path]) // unit % 10 in (1, 2)
    arguments = ["--state-dir", str(tmp_path / "state"), "--cgroup-root", str(root)]
    assert main(["restore", "--json", *arguments]) == 0
    assert contents(root) == before
