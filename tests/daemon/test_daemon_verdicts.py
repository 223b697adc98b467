"""What holds containers back, as `why` and metrics say it, over a fake cgroup tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from daemon.control_clients import daemon_of
from support.trees import CONTAINER_ID, POD, make, make_v2

from nriplugin.daemon import container_verdicts, group_labels, verdict_counts, why
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.container_metrics import verdict_metrics
from nriplugin.daemon.verdict_counts import LABELS, VerdictCounts
from nriplugin.kube.podgroup import Membership
from nriplugin.state.inventory import ContainerEntry, PodEntry
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nriplugin.api import control_pb2 as control


class Node:
    """A node whose containers work at the test's command; its clock is the test's."""

    def __init__(self, directory: Path, version: int = 2) -> None:
        self.directory = directory
        self.now_s = 100.0
        self.version = version
        tree = make(version, directory)
        self.lifecycle = Lifecycle(BackgroundThread(), tree=tree)
        sampler = self.lifecycle.policies.sampler
        sampler.clock = lambda: self.now_s
        sampler.cpu_ticks = lambda: (0, 0)
        self.counts = VerdictCounts(self.lifecycle, clock=lambda: self.now_s)

    def add(self, container_id: str, group: str = "", *, started: bool = True) -> str:
        """Add a container to the pod of the tree; return its cgroup."""
        cgroup = f"{POD}/{container_id}"
        if self.version == 2:
            make_v2(self.directory, [cgroup])
        member = Membership(group, "", "", "", "", f"ns/{group}") if group else None
        pod = PodEntry(f"sandbox-{container_id}", "u", "web", "shop", POD, group=member)
        entry = ContainerEntry(container_id, "app", pod, cgroup, started=started)
        self.lifecycle.inventory.put(entry)
        return cgroup

    def throttle(self, cgroup: str, periods: int = 110, throttled: int = 45) -> None:
        """Set what the kernel has counted; 10 and 2 at first."""
        if self.version == 2:
            text = "usage_usec 3100000\nthrottled_usec 6005000"
            path = self.directory / cgroup[1:] / "cpu.stat"
        else:
            text = "throttled_time 6005000000"
            path = self.directory / "cpu" / cgroup[1:] / "cpu.stat"
        path.write_text(f"nr_periods {periods}\nnr_throttled {throttled}\n{text}\n")

    def passes(self) -> None:
        """Let so much time pass that metrics measure again."""
        self.now_s += verdict_counts.INTERVAL_S

    def refresh(self) -> dict[str, int]:
        """Have metrics asked for after a while; return the labels that count."""
        self.passes()
        self.counts.refresh()
        return {label: count for label, count in self.counts.by_label.items() if count}


def why_of(
    node: Node,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[], None],
) -> list[control.ContainerWhy]:
    """Ask `why`; something happens while it waits."""
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        node.now_s += seconds
        meanwhile()

    judged = container_verdicts.judged
    monkeypatch.setattr(why, "judged", lambda one, all_: judged(one, all_, wait))
    found = why.why_of(daemon_of(node.lifecycle), what, verdicts=True).containers
    assert len(waits) <= 1, "one wait, for however many containers"
    return list(found)


def test_why_has_the_verdict_with_numbers_and_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container is measured before and after a wait of a second."""
    node = Node(tmp_path)
    first, second = node.add("1" * 64), node.add("2" * 64)
    one, other = why_of(node, "shop/web", monkeypatch, lambda: node.throttle(first))
    assert second
    (found,) = one.verdicts
    assert found.verdict == "throttled"
    assert found.because.startswith("throttled in 43 of 100 periods")
    (advice,) = [text for text in one.advice if text.startswith("throttled: ")]
    assert advice.startswith("throttled: set quotaBurst.enabled: true, or raise the")
    assert [found.verdict for found in other.verdicts] == ["idle"]
    assert not [text for text in other.advice if text.startswith("idle")]


def test_why_of_a_pod_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of its containers on the node, and no others."""
    node = Node(tmp_path)
    first, second = (node.add(digit * 64, "job") for digit in "12")
    node.add("3" * 64, "other")
    node.add("4" * 64)
    one, other = why_of(node, "ns/job", monkeypatch, lambda: node.throttle(first))
    assert [found.verdict for found in one.verdicts] == ["throttled"]
    assert [found.verdict for found in other.verdicts] == ["idle"]
    assert (one.cgroup, other.cgroup) == (first, second)
    for what in ("ns/jo", "shop/job", "job", "ns/job/app"):
        with pytest.raises(why.NoSuchContainer):
            why.why_of(daemon_of(node.lifecycle), what)


def test_why_without_a_question_for_verdicts_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`top` and `capacity` ask for names alone, many times."""
    node = Node(tmp_path)
    node.add(CONTAINER_ID)
    monkeypatch.setattr(why, "judged", pytest.fail)
    (one,) = why.why_of(daemon_of(node.lifecycle), "shop/web").containers
    assert (list(one.verdicts), one.not_told) == ([], "")


def test_why_about_a_container_that_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said, without a wait."""
    node = Node(tmp_path)
    node.add(CONTAINER_ID, started=False)
    (one,) = why_of(node, "shop/web", monkeypatch, pytest.fail)
    assert list(one.verdicts) == []
    assert one.not_told.endswith(": the container does not run")


def test_why_about_a_container_that_ends_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No verdict is made up."""
    node = Node(tmp_path)
    cgroup = node.add(CONTAINER_ID)

    def end() -> None:
        for file in (tmp_path / cgroup[1:]).iterdir():
            file.unlink()

    (one,) = why_of(node, "shop/web", monkeypatch, end)
    assert list(one.verdicts) == []
    assert one.not_told.endswith(": the container cannot be measured")


def test_why_on_version_1_tells_throttling_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no pressure, and it is said what could not be told."""
    node = Node(tmp_path, 1)
    cgroup = node.add(CONTAINER_ID)
    (one,) = why_of(node, "shop/web", monkeypatch, lambda: node.throttle(cgroup))
    assert [found.verdict for found in one.verdicts] == ["throttled"]
    assert one.not_told.startswith("contended, memory.high, idle: cgroup v1 has no")
    (one,) = why_of(node, "shop/web", monkeypatch, lambda: None)
    assert list(one.verdicts) == []


def test_containers_are_counted_by_verdict_and_group(tmp_path: Path) -> None:
    """From the second reading on; one that ended does not count."""
    node = Node(tmp_path)
    cgroup = node.add("a", group="job")
    node.add("b", group="job")
    node.add("c")
    assert node.refresh() == {}
    node.throttle(cgroup)
    assert node.refresh() == {"throttled": 1, "idle": 2}
    assert node.counts.by_group == {
        ("ns/job", "throttled"): 1,
        ("ns/job", "idle"): 1,
        ("", "idle"): 1,
    }
    node.lifecycle.inventory.drop("a")
    assert node.refresh() == {"idle": 2}


def test_a_container_that_cannot_be_judged_is_unknown(tmp_path: Path) -> None:
    """Not `none`, which says that nothing holds it back."""
    node = Node(tmp_path)
    cgroup = node.add("a")
    (tmp_path / cgroup[1:] / "cpu.pressure").unlink()
    node.refresh()
    assert node.refresh() == {"unknown": 1}


def test_scrapers_that_come_more_often_measure_nothing(tmp_path: Path) -> None:
    """They get the counts of the last reading."""
    node = Node(tmp_path)
    cgroup = node.add("a")
    node.refresh()
    assert node.refresh() == {"idle": 1}
    node.throttle(cgroup)
    node.counts.refresh()
    assert node.counts.by_label == {"idle": 1}
    assert node.refresh() == {"throttled": 1}


def test_many_containers_have_their_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One reading is bounded, and a verdict is kept until the next turn."""
    monkeypatch.setattr(verdict_counts, "AT_ONCE", 2)
    node = Node(tmp_path)
    for name in "abcd":
        node.add(name)
    assert [node.refresh() for _ in range(4)] == [{}, {}, {"idle": 2}, {"idle": 4}]


def test_groups_of_verdicts_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others share one, and each group has a sample for every label."""
    monkeypatch.setattr(group_labels, "MAX_GROUPS", 1)
    node = Node(tmp_path)
    for name in "abc":
        node.add(name, group=name)
    node.refresh()
    node.refresh()
    assert node.counts.by_group == {("ns/a", "idle"): 1, ("other", "idle"): 2}
    whole, by_group = verdict_metrics(node.counts)
    assert len(whole.samples) == len(LABELS)
    assert len(by_group.samples) == 2 * len(LABELS)
