"""Sums of throttling and OOM kills, over a fake cgroup tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.types.tree import Tree
from nriplugin.daemon import group_labels, usage_totals
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.cgroup_usage import UsageTotal, usage_of
from nriplugin.daemon.usage_totals import UsageTotals
from nriplugin.engine.decision import Why
from nriplugin.kube.podgroup import Membership
from nriplugin.state.decision_summary import DecisionSummary
from nriplugin.state.inventory import ContainerEntry, PodEntry
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Clock:
    """A clock that is set by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A node with containers that are throttled at the test's command."""

    def __init__(self, directory: Path, max_pods: int = 0) -> None:
        self.directory = directory
        tree = Tree(LocalFiles(str(directory), magics=None), 2)
        self.lifecycle = Lifecycle(BackgroundThread(), tree=tree)
        self.clock = Clock()
        self.totals = UsageTotals(self.lifecycle, max_pods, self.clock)

    def create(
        self,
        name: str,
        *,
        group: str = "",
        handler: str = "resources",
        ours: bool = True,
    ) -> None:
        """Add a container that this process has decided about."""
        member = Membership(group, "", "", "", "", f"ns/{group}") if group else None
        pod = PodEntry(
            f"sandbox-{name}", name=f"pod-{name}", namespace="ns", group=member
        )
        why = Why(handler, "a rule", "a source")  # type: ignore[arg-type]
        self.lifecycle.inventory.put(
            ContainerEntry(
                *(name, name, pod, f"/kubepods/pod{name}/{name}"),
                files={"cpu.max": "1 2"} if ours else {},
                started=True,
                decision=DecisionSummary("", ("cpu.max",), (why,), ()),
                decided_at=1.0,
            )
        )
        self.count(name)

    def count(self, name: str, periods: int = 0, us: int = 0, kills: int = 0) -> None:
        """Set what the kernel has counted for a container."""
        cgroup = self.directory / f"kubepods/pod{name}/{name}"
        cgroup.mkdir(parents=True, exist_ok=True)
        (cgroup / "cpu.stat").write_text(
            f"usage_usec 5\nnr_periods 9\nnr_throttled {periods}\nthrottled_usec {us}\n"
        )
        (cgroup / "memory.events").write_text(
            f"low 0\nmax 3\noom 1\noom_kill {kills}\n"
        )

    def refresh(self) -> None:
        """Have the cgroups read, a while after the last time."""
        self.clock.now += usage_totals.INTERVAL_S
        self.totals.refresh()


def test_sums_by_handler_and_by_group(tmp_path: Path) -> None:
    """A container counts for each of its handlers, and for its PodGroup."""
    node = Node(tmp_path)
    node.create("a", group="job")
    node.create("b", group="job", handler="cpuBurst")
    node.create("c")
    node.create("d", ours=False)
    for name in "abcd":
        node.count(name, periods=10, us=2000, kills=1)
    node.refresh()
    assert node.totals.by_handler == {
        "resources": UsageTotal(20, 4000, 2),
        "cpuBurst": UsageTotal(10, 2000, 1),
    }
    assert node.totals.by_group == {
        "ns/job": UsageTotal(20, 4000, 2),
        "": UsageTotal(10, 2000, 1),
    }
    assert node.totals.by_pod == {}


def test_the_sum_stays_when_a_container_ends(tmp_path: Path) -> None:
    """It never goes down, and the next container's figures come on top."""
    node = Node(tmp_path)
    node.create("a")
    node.count("a", periods=10)
    node.refresh()
    node.lifecycle.inventory.drop("a")
    node.create("b")
    node.refresh()
    assert node.totals.by_handler["resources"].throttled_periods == 10
    node.count("b", periods=4)
    node.refresh()
    assert node.totals.by_handler["resources"].throttled_periods == 14


def test_what_was_counted_before_this_process_is_left_out(tmp_path: Path) -> None:
    """Else a restart of the daemon would look like a burst of throttling."""
    node = Node(tmp_path)
    node.create("a")
    entry = node.lifecycle.inventory.get("a")
    assert entry is not None
    node.lifecycle.inventory.put(entry._replace(decided_at=0.0))
    node.count("a", periods=10)
    node.refresh()
    assert node.totals.by_handler["resources"] == UsageTotal(0, 0, 0)
    node.count("a", periods=13)
    node.refresh()
    assert node.totals.by_handler["resources"].throttled_periods == 3


def test_cgroups_are_read_now_and_then(tmp_path: Path) -> None:
    """Scrapers that come more often get the figures of the last reading."""
    node = Node(tmp_path)
    node.create("a")
    node.refresh()
    node.count("a", periods=5)
    node.totals.refresh()
    assert node.totals.by_handler["resources"].throttled_periods == 0
    node.refresh()
    assert node.totals.by_handler["resources"].throttled_periods == 5


def test_many_containers_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reading is bounded, and every container has its turn."""
    monkeypatch.setattr(usage_totals, "AT_ONCE", 2)
    node = Node(tmp_path)
    for name in "abcde":
        node.create(name)
        node.count(name, periods=1)
    seen = []
    for _ in range(3):
        node.refresh()
        seen.append(node.totals.by_handler["resources"].throttled_periods)
    assert seen == [2, 4, 5]


def test_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More PodGroups than that share one sum; a group without containers goes."""
    monkeypatch.setattr(group_labels, "MAX_GROUPS", 2)
    node = Node(tmp_path)
    for name in "abcd":
        node.create(name, group=name)
        node.count(name, periods=1)
    node.refresh()
    assert set(node.totals.by_group) == {"ns/a", "ns/b", group_labels.OTHER}
    assert node.totals.by_group[group_labels.OTHER].throttled_periods == 2
    node.lifecycle.inventory.drop("a")
    node.refresh()
    assert set(node.totals.by_group) == {"ns/b", group_labels.OTHER}


def test_pods_have_sums_only_if_asked_for(tmp_path: Path) -> None:
    """And then only so many; the place of a pod that ends becomes free."""
    node = Node(tmp_path, max_pods=2)
    for name in "abc":
        node.create(name)
    node.refresh()
    assert set(node.totals.by_pod) == {("ns", "pod-a"), ("ns", "pod-b")}
    node.lifecycle.inventory.drop("a")
    node.create("e")
    node.refresh()
    assert set(node.totals.by_pod) == {("ns", "pod-b"), ("ns", "pod-e")}


def test_a_container_whose_cgroup_is_gone(tmp_path: Path) -> None:
    """It is passed over; the runtime will tell that it has ended."""
    node = Node(tmp_path)
    node.create("a")
    (tmp_path / "kubepods/poda/a/cpu.stat").unlink()
    (tmp_path / "kubepods/poda/a/memory.events").unlink()
    node.refresh()
    assert node.totals.by_handler == {}


def test_files_that_lack_a_figure(tmp_path: Path) -> None:
    """A kernel without bandwidth control has no such lines."""
    (tmp_path / "c").mkdir()
    (tmp_path / "c/cpu.stat").write_text("usage_usec 5\n")
    tree = Tree(LocalFiles(str(tmp_path), magics=None), 2)
    assert usage_of(tree, "/c") == UsageTotal(0, 0, 0)
    assert usage_of(tree, "/gone") is None
