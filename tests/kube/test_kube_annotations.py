"""Annotations of ours, Volcano's keys, and what a score gives away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.kube.annotations import MAX_VALUE, read_annotations
from nriplugin.kube.oomscore import oom_score_adj, request_range
from nriplugin.kube.podgroup import membership
from nriplugin.kube.qos import QOSClass, qos_of_cgroup

GIB = 1 << 30


def test_only_ours_are_read() -> None:
    """Only nriplugin's keys are read, and a container's own win over the pod's."""
    read = read_annotations(
        {
            "kubernetes.io/config.source": "api",
            "a.cgroup2.nri.io": "pod",
            "a.cgroup2.nri.io/container.app": "container",
            "b.cgroup2.nri.io": "pod",
            "c.cgroup2.nri.io/container.other": "other",
        },
        "app",
    )
    assert {key: one.value for key, one in read.found.items()} == {
        "a": "container",
        "b": "pod",
    }
    assert read.found["a"].key == "a.cgroup2.nri.io/container.app"
    assert read.refused == []


def test_a_containers_own_comes_first_in_any_order() -> None:
    """The order of the mapping does not matter."""
    read = read_annotations(
        {"a.cgroup2.nri.io/container.app": "own", "a.cgroup2.nri.io": "pod"}, "app"
    )
    assert read.found["a"].value == "own"


@pytest.mark.parametrize(
    "value", ["x" * (MAX_VALUE + 1), "é", "a\nb", "a\tb", "\x00", "\x7f"]
)
def test_strange_values_are_refused(value: str) -> None:
    """The reason is one short line."""
    read = read_annotations({"a.cgroup2.nri.io": value}, "app")
    assert read.found == {}
    [(key, reason)] = read.refused
    assert key == "a.cgroup2.nri.io"
    assert len(reason) < 120
    assert reason.isprintable()


@given(st.dictionaries(st.text(), st.text()), st.text())
def test_anything_can_be_read(annotations: dict[str, str], name: str) -> None:
    """No text raises an exception."""
    read = read_annotations(annotations, name)
    assert all(one.value.isprintable() for one in read.found.values())


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        ({}, {}, ("", "", "", "", "", "")),
        (
            {},
            {"scheduling.k8s.io/group-name": "g"},
            ("g", "", "", "", "", "ns/g"),
        ),
        (
            {},
            {"scheduling.volcano.sh/group-name": "g"},
            ("g", "", "", "", "", "ns/g"),
        ),
        (
            {"volcano.sh/job-name": "j", "volcano.sh/queue-name": "q"},
            {
                "scheduling.k8s.io/group-name": "j-1",
                "volcano.sh/task-spec": "ps",
                "volcano.sh/task-index": "0",
            },
            ("j-1", "j", "q", "ps", "0", "ns/j-1"),
        ),
        (
            {"volcano.sh/job-name": "label"},
            {"volcano.sh/job-name": "annotation"},
            ("", "annotation", "", "", "", ""),
        ),
        ({}, {"scheduling.k8s.io/group-name": ""}, ("", "", "", "", "", "")),
    ],
)
def test_membership(
    labels: dict[str, str], annotations: dict[str, str], expected: tuple[str, ...]
) -> None:
    """The keys give group, job, queue, task, index and the scheduler's job name."""
    assert membership("ns", labels, annotations) == expected


@given(st.integers(0, 64 * GIB), st.integers(GIB, 64 * GIB))
def test_the_requests_behind_a_score(request: int, capacity: int) -> None:
    """The range has the true request, and both its ends have that score."""
    request = min(request, capacity)
    score = oom_score_adj(QOSClass.BURSTABLE, request, capacity)
    found = request_range(score, capacity)
    assert found is not None
    least, most = found
    assert least <= request <= most
    assert oom_score_adj(QOSClass.BURSTABLE, least, capacity) == score
    assert oom_score_adj(QOSClass.BURSTABLE, most, capacity) == score
    if least > 0:
        assert oom_score_adj(QOSClass.BURSTABLE, least - 1, capacity) > score
    if score > 3:
        assert oom_score_adj(QOSClass.BURSTABLE, most + 1, capacity) < score


@pytest.mark.parametrize(
    ("qos", "request_bytes", "score"),
    [
        (QOSClass.GUARANTEED, GIB, -997),
        (QOSClass.BEST_EFFORT, 0, 1000),
        (QOSClass.BURSTABLE, 0, 999),
        (QOSClass.BURSTABLE, 4 * GIB, 750),
        (QOSClass.BURSTABLE, 16 * GIB, 3),
    ],
)
def test_the_kubelets_scores(qos: QOSClass, request_bytes: int, score: int) -> None:
    """The scores are those of a node with 16 GiB."""
    assert oom_score_adj(qos, request_bytes, 16 * GIB) == score


@pytest.mark.parametrize("score", [-1000, -997, 0, 2, 1000])
def test_other_scores_give_nothing_away(score: int) -> None:
    """The scores of other classes do not depend on the request."""
    assert request_range(score, GIB) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/kubepods/burstable/pod1-2", QOSClass.BURSTABLE),
        ("/kubepods/besteffort/pod1/", QOSClass.BEST_EFFORT),
        ("/kubepods/pod1", QOSClass.GUARANTEED),
        ("kubepods-burstable-pod1_2.slice", QOSClass.BURSTABLE),
        ("kubepods-pod1.slice", QOSClass.GUARANTEED),
        (
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
            "kubelet-kubepods-besteffort-pod1.slice",
            QOSClass.BEST_EFFORT,
        ),
        ("/system.slice", None),
        ("/user/pod1", None),
        ("pod1", None),
        ("", None),
        ("/kubepods/burstable", None),
    ],
)
def test_the_class_by_the_cgroup(path: str, expected: QOSClass | None) -> None:
    """The cgroup may be a path or the name of a slice."""
    assert qos_of_cgroup(path) is expected
