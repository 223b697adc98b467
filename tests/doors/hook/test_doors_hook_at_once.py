"""Hooks of several containers that a node starts at the same time."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from support.trees import POD, QOS, add_v2, make_v2

if TYPE_CHECKING:
    from pathlib import Path

HOOKS = 6
PAGE = 4096

# What each hook's process does: it says that it is ready, waits until all are, and
# writes as a hook does. Between what it reads and what it writes, it takes its time.
PROCESS = """
import sys, time
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.types.tree import Tree
from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Level, When, Why, Write
from nriplugin.doors.hook.apply_files import apply_files

class Node:
    plain = False
    def writer(self):
        return None

write = Executor.update_batch
def slow(self, updates, **given):
    updates = list(updates)
    time.sleep(0.05)
    return write(self, updates, **given)
Executor.update_batch = slow

root, state, cgroup, low = sys.argv[1:]
why = Why("test", Rule((), "as the test says"), "a test")
part = Write("memory.low", low, Level.ANCESTORS, When.BEFORE, True, why)
with LocalFiles(root, None) as files:
    print("ready", flush=True)
    sys.stdin.readline()
    outcomes = apply_files(
        {"memory.low": low}, [part], node=Node(), tree=Tree(files, 2), cgroup=cgroup,
        in_pod=True, state_dir=state,
    )
    assert all(outcome.ok for outcome in outcomes), outcomes
"""


def test_no_hooks_part_is_lost(tmp_path: Path) -> None:
    """Hooks that run at the same time all end up in the sums above their containers."""
    root = tmp_path / "cgroup"
    root.mkdir()
    make_v2(root, ("/kubepods", QOS, POD))
    hooks = []
    for number in range(HOOKS):
        cgroup = f"{POD}/{str(number) * 64}"
        add_v2(root, cgroup)
        argv = [str(root), str(tmp_path / "state"), cgroup, str((number + 1) * PAGE)]
        hook = subprocess.Popen(
            [sys.executable, "-c", PROCESS, *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        hooks.append(hook)
    for hook in hooks:
        assert hook.stdout is not None
        assert hook.stdout.readline() == "ready\n"
    for hook in hooks:
        assert hook.stdin is not None
        hook.stdin.write("\n")
        hook.stdin.flush()
    for hook in hooks:
        hook.communicate(timeout=60)
        assert hook.returncode == 0
    total = str(sum(range(1, HOOKS + 1)) * PAGE)
    for above in ("/kubepods", QOS, POD):
        assert (root / above.lstrip("/") / "memory.low").read_text().strip() == total
