"""`nriplugin run` as a process: a throttled container gets more quota for a while.

The cgroups are ordinary files, so the test plays the kernel that counts in cpu.stat.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, Self

import pytest
from support.harness import wait_until
from support.live_daemon import LiveNode, resources, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.live_daemon import LiveContainer

ON = """
policies: {intervalSeconds: 1}
quotaBurst: {enabled: true, percent: 150, periodSeconds: null, nodeCpuPercent: null}
"""
STATE = ("--state-dir", "state")
OWN, MOST = "50000 100000", "75000 100000"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[LiveNode]:
    with LiveNode(tmp_path, ON) as node:
        yield node


class Throttled:
    """A container whose counters say that it is throttled all the time."""

    def __init__(self, node: LiveNode, name: str = "web") -> None:
        self.one: LiveContainer = node.create(
            "shop", name, "app", resources(512, 50_000)
        )
        write(self.one.directory.parent, {"cpu.max": OWN})
        self._ended = threading.Event()
        self._kernel = threading.Thread(target=self._count)
        self._kernel.start()

    def _count(self) -> None:
        """Count as a kernel does; a kernel's file is never half written."""
        new = self.one.directory / "new"
        periods = 0
        while not self._ended.wait(0.05):
            periods += 10
            stat = {"usage_usec": periods * 50_000, "nr_periods": periods}
            stat |= {"nr_throttled": periods, "throttled_usec": 1}
            new.write_text("\n".join(f"{name} {value}" for name, value in stat.items()))
            new.replace(self.one.directory / "cpu.stat")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._kernel.join()

    def quota(self, *, pod: bool = False) -> str:
        directory = self.one.directory.parent if pod else self.one.directory
        return (directory / "cpu.max").read_text().strip()

    def is_raised(self) -> bool:
        return (self.quota(), self.quota(pod=True)) == (MOST, MOST)

    def is_back(self) -> bool:
        return (self.quota(), self.quota(pod=True)) == (OWN, OWN)


@pytest.fixture
def app(node: LiveNode) -> Iterator[Throttled]:
    with Throttled(node) as app:
        wait_until(app.is_raised)
        yield app


def answer(node: LiveNode, *command: str) -> Any:
    done = node.command(*command, "-o", "json")
    assert done.stdout, done.stderr  # `status` returns 1 after `withdraw`
    return json.loads(done.stdout)


def burst_status(node: LiveNode) -> Any:
    policies = answer(node, "status")["policies"]["policies"]
    [burst] = [one for one in policies if one["name"] == "quotaBurst"]
    return burst


def test_a_burst_is_shown_and_ends_with_the_process(
    node: LiveNode, app: Throttled
) -> None:
    """`status` and `why` know it, no drift is found, and SIGTERM takes it back."""
    wait_until(lambda: burst_status(node)["holding"] == 1)
    assert burst_status(node)["containers"] == 1
    [why] = answer(node, "why", "shop/web/app")["containers"]
    held = {one["file"]: one["hold"] for one in why["files"] if one["hold"]}
    assert held["cpu.max"]["original"] == OWN
    assert held["cpu.max of the pod"]["original"] == OWN
    assert "throttled in" in held["cpu.max"]["reason"]
    assert why["state"] == "managed"
    page = node.command("why", "shop/web/app").stdout
    assert "held by quotaBurst" in page
    assert "Policies" in node.command("status").stdout
    node.stop_daemon()
    assert app.is_back()


def test_a_reload_that_switches_it_off_takes_it_back(
    node: LiveNode, app: Throttled
) -> None:
    """At once, for every container."""
    node.config.write_text("{}\n")
    assert node.command("reload").returncode == 0
    wait_until(app.is_back)


def test_withdraw_takes_it_back(node: LiveNode, app: Throttled) -> None:
    """And nothing is raised again."""
    assert node.command("withdraw").returncode == 0
    wait_until(app.is_back)
    wait_until(lambda: burst_status(node)["holding"] == 0)


def test_after_a_crash_the_next_process_takes_it_back(
    node: LiveNode, app: Throttled
) -> None:
    """Also if the policy is off by then."""
    node.stop_daemon()
    node.start_daemon(*STATE)
    wait_until(app.is_raised)
    node.kill_daemon()
    assert app.quota() == MOST
    node.config.write_text("{}\n")
    node.start_daemon(*STATE)
    wait_until(app.is_back)


def test_read_only_decides_and_writes_nothing(tmp_path: Path) -> None:
    """`status` says so."""
    with LiveNode(tmp_path, ON) as node:
        node.stop_daemon()
        node.start_daemon("--read-only")

        def decided() -> bool:
            actions = burst_status(node).get("actions", ())
            return any(one["outcome"] == "shown" for one in actions)

        with Throttled(node) as app:
            wait_until(decided)
            assert app.is_back()
        assert "--read-only" in answer(node, "status")["policies"]["shown_because"]
