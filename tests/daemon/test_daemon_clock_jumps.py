"""A wall clock that is set by a day changes nothing but the times that are shown."""

from __future__ import annotations

import ast
import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.harness import wait_until
from support.jumping_clock import DAY_S, set_ahead
from support.live_daemon import LiveNode, resources, write

import nriplugin

CONFIG = """
cpuBurst: {enabled: true, percent: 50}
repair: {enabled: true, everySeconds: 2}
"""
STATE = ("--state-dir", "state")

# The modules that read the wall clock, and for which shown or stored times they do.
WALL_CLOCK = {
    "cgroup/journal/journal.py": "when a value was recorded",
    "cli/status.py": "how long ago something was",
    "cli/top.py": "the moment of a sample",
    "cli/why.py": "how long ago something was",
    "daemon/config_status.py": "when a configuration was read",
    "daemon/instance_lock.py": "the last sign of life",
    "daemon/podgroups/watch.py": "when objects were read last",
    "daemon/process.py": "when the process was started",
    "doors/cri/interception.py": "when a decision was made",
    "doors/nri/plugin.py": "when a decision was made",
    "state/adopting.py": "when a decision was made",
    "state/connection.py": "when a connection began and ended",
    "state/events.py": "when an event happened",
    "state/inventory.py": "when a decision was made",
    "state/policies.py": "when the policies were asked last",
    "state/policy_writing.py": "since when a file holds a policy's value",
    "state/verifier.py": "when files were compared last",
}


def reads_wall_clock(source: str) -> bool:
    """Whether a module can read the wall clock."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            if {"time", "time_ns", "CLOCK_REALTIME"} & {one.name for one in node.names}:
                return True
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if text in ("time.time", "time.time_ns", "time.CLOCK_REALTIME"):
                return True
            if node.attr in ("now", "utcnow", "today") and "date" in text:
                return True
    return False


def test_only_shown_times_come_from_the_wall_clock() -> None:
    """Another module that reads the wall clock has to say here for what."""
    top = Path(nriplugin.__file__).parent
    found = {
        str(path.relative_to(top))
        for path in top.rglob("*.py")
        if reads_wall_clock(path.read_text())
    }
    assert found == WALL_CLOCK.keys()


def state_of(node: LiveNode) -> dict[str, Any]:
    """Return what `status` says."""
    done = node.command("status", "-o", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def weight_is_repaired(node: LiveNode, directory: Path) -> None:
    """Drift is found and put right within the intervals, whatever the clock shows."""
    write(directory, {"cpu.weight": "777"})
    weight = directory / "cpu.weight"
    wait_until(lambda: weight.read_text().strip() == "100")


@pytest.mark.parametrize("day", [DAY_S, -DAY_S])
def test_a_clock_that_jumps(tmp_path: Path, day: int) -> None:
    """Requests, repairs and health go on; no gap appears; shown times jump."""
    with LiveNode(tmp_path, CONFIG) as node:
        node.stop_daemon()
        node.start_daemon(*STATE)
        first = node.create("shop", "web-0", "nginx", resources(1024, 50_000, 256))
        before = state_of(node)
        set_ahead(node.clock, day)
        weight_is_repaired(node, first.directory)
        node.create("shop", "web-1", "nginx", resources(1024, 50_000, 256))
        # The comparison sees a moment later that the repair has succeeded.
        wait_until(lambda: state_of(node)["containers"]["managed"] == 2)
        after = state_of(node)
        assert after["healthy"]
        assert after["ready"]
        assert after["pid"] == before["pid"]
        assert after["runtime"] == before["runtime"]
        assert 0 < after["process"]["uptime_seconds"] < DAY_S / 2
        shown = after["verification"]["last_at"] - time.time()
        assert abs(shown - day) < DAY_S / 2


@pytest.mark.parametrize("day", [DAY_S, -DAY_S])
def test_a_clock_that_jumps_while_the_runtime_is_away(tmp_path: Path, day: int) -> None:
    """The gap is as long as it was, and not a day longer or shorter."""
    with LiveNode(tmp_path, CONFIG) as node:
        node.runtime.stop()
        wait_until(lambda: not connected(node))
        set_ahead(node.clock, day)
        node.runtime.start()
        wait_until(lambda: connected(node))
        _, gap = state_of(node)["runtime"]["gaps"]
        assert 0 <= gap["ended"] - gap["began"] < DAY_S / 2


def connected(node: LiveNode) -> bool:
    """Whether the daemon says that it is connected."""
    state = json.loads(node.command("status", "-o", "json").stdout or "{}")
    return bool(state.get("runtime", {}).get("connected"))


def test_the_gap_after_a_kill_begins_with_the_last_sign_of_life(tmp_path: Path) -> None:
    """`status` of the next process says that the one before it was killed."""
    with LiveNode(tmp_path, CONFIG) as node:
        node.stop_daemon()
        node.start_daemon(*STATE)
        node.kill_daemon()
        node.start_daemon(*STATE)
        state = state_of(node)
        (gap,) = state["runtime"]["gaps"]
        assert "was killed or crashed; last sign of life at " in gap["reason"]
        assert gap["began"] <= state["started_at"]
        node.stop_daemon()
        node.start_daemon(*STATE)
        (gap,) = state_of(node)["runtime"]["gaps"]
        assert "ended; it was connected until " in gap["reason"]
