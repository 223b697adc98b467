"""The metrics of PodGroups: bounded labels, sums, and how reading them goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from daemon.control_clients import daemon_of
from doors.nri.messages import container_at, pod_at
from doors.nri.nodes import Node
from support.harness import wait_until

from nriplugin.config.file import PodGroupsSection
from nriplugin.daemon import group_labels
from nriplugin.daemon.assembly import _watch_groups
from nriplugin.daemon.group_labels import GroupLabels
from nriplugin.daemon.group_metrics import (
    INTERVAL_S,
    GroupSums,
    group_metrics,
    source_metrics,
)
from nriplugin.daemon.podgroups import file_source
from nriplugin.daemon.podgroups.watch import PodGroupWatch
from nriplugin.daemon.status import status_of
from nriplugin.kube.podgroup_object import GroupObject

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

    from nriplugin.daemon.metric_encoding import Metric

GIB = 1 << 30


def samples(metrics: Iterable[Metric]) -> dict[str, dict[tuple[str, ...], float]]:
    """Return the values by name and labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for one in metrics:
        for sample in one.samples:
            labels = tuple(sample.labels.values())
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def member(node: Node, name: str, group: str) -> None:
    parent = f"/kubepods/burstable/pod{name}"
    keys = {"scheduling.k8s.io/group-name": group}
    pod = pod_at(parent, keys, id=name, name=name, uid=name, namespace="ml")
    numbers: dict[str, Any] = {"shares": 512, "quota_us": 100_000, "limit_bytes": GIB}
    app = container_at(f"{parent}/c", pod_id=name, **numbers)
    app.id = f"c-{name}"
    node.create(app, pod)


def test_members_and_their_sums() -> None:
    """By group; MinMember only where the object is known."""
    node = Node("{}")
    member(node, "a", "g")
    member(node, "b", "g")
    member(node, "c", "h")
    group = GroupObject("g", "ml", 4, {}, "q", "", {}, "Pending")
    node.plugin.lifecycle.jobs.groups = {"ml/g": group}
    sums = GroupSums(node.plugin.lifecycle, GroupLabels())
    sums.refresh()
    found = samples(group_metrics(sums))
    assert found["nriplugin_group_pods"]["ml/g", "pending"] == 2
    assert found["nriplugin_group_pods"]["ml/h", "running"] == 0
    assert found["nriplugin_group_cpu_cores"]["ml/g", "request"] == 1
    assert found["nriplugin_group_cpu_cores"]["ml/g", "limit"] == 2
    assert found["nriplugin_group_memory_bytes"]["ml/g", "limit"] == 2 * GIB
    assert found["nriplugin_group_min_members"] == {("ml/g",): 4}


def test_labels_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Further groups share one; the name of a group that is gone becomes free."""
    monkeypatch.setattr(group_labels, "MAX_GROUPS", 1)
    node, now = Node("{}"), 0.0
    for name in ("a", "b", "c"):
        member(node, name, name)
    sums = GroupSums(node.plugin.lifecycle, GroupLabels(), lambda: now)
    sums.refresh()
    assert sums.pods["ml/a", "pending"] == 1
    assert sums.pods[group_labels.OTHER, "pending"] == 2
    node.plugin.lifecycle.inventory.drop_pod("a")
    sums.refresh()
    assert sums.pods["ml/a", "pending"] == 1, "it is derived only every so often"
    now += INTERVAL_S
    sums.refresh()
    assert ("ml/a", "pending") not in sums.pods
    assert sums.pods["ml/b", "pending"] == 1


def test_a_file_of_pod_groups(tmp_path: Path) -> None:
    """It is read by the watch; status and metrics say how that goes."""
    path = tmp_path / "groups.yaml"
    path.write_text(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\n"
        "metadata: {name: g, namespace: ml}\nspec: {minMember: 3}\n"
    )
    process = daemon_of(Node("{}").plugin.lifecycle)
    assert status_of(process).pod_groups.source == ""
    _watch_groups(process, PodGroupsSection(file=str(path)))
    table = process.lifecycle.jobs
    wait_until(lambda: "ml/g" in table.groups)
    assert table.groups["ml/g"].min_member == 3
    wait_until(lambda: status_of(process).pod_groups.read_at > 0)
    shown = status_of(process).pod_groups
    assert (shown.source, shown.objects, shown.problem) == (str(path), 1, "")
    _watch_groups(process, PodGroupsSection(file=str(tmp_path / "none")))
    assert table.groups == {}
    wait_until(lambda: status_of(process).pod_groups.problem)
    shown = status_of(process).pod_groups
    assert shown.problem.endswith("none: No such file or directory")
    assert [(one.reason, one.count >= 1) for one in shown.failures] == [
        ("unreadable", True)
    ]
    assert ("unreadable",) in samples(source_metrics(process))[
        "nriplugin_podgroup_failures_total"
    ]
    _watch_groups(process, PodGroupsSection())
    assert process.podgroup_watches is not None
    assert process.podgroup_watches.watch is None


def test_a_file_with_a_mistake_keeps_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is read again when it has changed."""
    monkeypatch.setattr(file_source, "INTERVAL_S", 0.02)
    path, published = tmp_path / "groups.yaml", list[dict[str, GroupObject]]()
    text = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: "
    path.write_text(text + "{name: a}")
    watch = PodGroupWatch(
        file_source.FileSource(str(path)), published.append, first_s=0.02
    )
    watch.start()
    wait_until(lambda: published)
    path.write_text(text + "{name: a}\nspec: 5")
    wait_until(lambda: "spec: 5, expected fields" in watch.problem)
    assert list(published[-1]) == ["/a"]
    path.write_text(text + "{name: b}")
    wait_until(lambda: list(published[-1]) == ["/b"])
    wait_until(lambda: watch.problem == "")
    watch.stop()
