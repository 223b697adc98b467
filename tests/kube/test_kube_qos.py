from __future__ import annotations

from typing import Any

import pytest

from nriplugin.kube.pod_qos import qos_class
from nriplugin.kube.podspec import read_pod_spec
from nriplugin.kube.qos import QOSClass

BOTH = {"cpu": "1", "memory": "1Gi"}
EQUAL = {"limits": BOTH, "requests": BOTH}


def qos_of(
    *containers: dict[str, Any] | None,
    init: list[dict[str, Any]] | None = None,
    pod: dict[str, Any] | None = None,
) -> QOSClass:
    spec: dict[str, Any] = {
        "containers": [
            {"name": f"c{index}", "resources": resources}
            for index, resources in enumerate(containers)
        ],
        "initContainers": [
            {"name": f"i{index}", **fields} for index, fields in enumerate(init or [])
        ],
    }
    if pod is not None:
        spec["resources"] = pod
    return qos_class(read_pod_spec(spec, "spec"))


@pytest.mark.parametrize(
    "resources",
    [
        None,
        {},
        {"requests": None, "limits": {}},
        {"requests": {"cpu": "0"}, "limits": {"memory": 0}},
        {"limits": {"nvidia.com/gpu": 1, "ephemeral-storage": "1Gi"}},
    ],
)
def test_nothing_asked_for_is_best_effort(resources: dict[str, Any] | None) -> None:
    """Zero amounts and amounts of other resources do not count."""
    assert qos_of(resources) is QOSClass.BEST_EFFORT


@pytest.mark.parametrize(
    "resources",
    [
        EQUAL,
        {"limits": BOTH},
        {"limits": BOTH, "requests": {"cpu": "1000m"}},
        {"limits": BOTH, "requests": {"cpu": 1.0, "memory": "1048576Ki"}},
        {"limits": {**BOTH, "nvidia.com/gpu": 1}, "requests": BOTH},
    ],
)
def test_requests_equal_to_limits_are_guaranteed(resources: dict[str, Any]) -> None:
    """Equal amounts count however they are spelt, and absent requests are limits."""
    assert qos_of(resources) is QOSClass.GUARANTEED
    assert qos_of(resources, resources) is QOSClass.GUARANTEED


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"cpu": "1m"}},
        {"limits": {"cpu": "1"}},
        {"limits": {"memory": "1Gi"}, "requests": BOTH},
        {"limits": BOTH, "requests": {"cpu": "999m"}},
        {"limits": BOTH, "requests": {"memory": 0}},
        {"limits": {"cpu": "1", "memory": 0}},
    ],
)
def test_anything_between_is_burstable(resources: dict[str, Any]) -> None:
    """A missing limit or a request below its limit makes a pod Burstable."""
    assert qos_of(resources) is QOSClass.BURSTABLE


def test_every_container_counts() -> None:
    """One init container without limits is enough to make a pod Burstable."""
    assert qos_of(EQUAL, None) is QOSClass.BURSTABLE
    assert qos_of(EQUAL, init=[{}]) is QOSClass.BURSTABLE
    sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1m"}}}
    assert qos_of(None, init=[sidecar]) is QOSClass.BURSTABLE
    assert qos_of(EQUAL, init=[{"resources": EQUAL}]) is QOSClass.GUARANTEED


def test_pod_level_resources_decide_alone() -> None:
    """With resources of the pod's own, those of its containers do not count."""
    assert qos_of(None, pod=EQUAL) is QOSClass.GUARANTEED
    assert qos_of(EQUAL, pod={"requests": {"cpu": "1"}}) is QOSClass.BURSTABLE
    assert qos_of(EQUAL, pod={"limits": {"cpu": "2"}}) is QOSClass.BURSTABLE
    # Since 1.37 an empty mapping is none.
    assert qos_of(EQUAL, pod={}) is QOSClass.GUARANTEED


def test_pod_level_requests_follow_the_containers_then_the_limits() -> None:
    """Absent requests are filled in as the API server does."""
    half = {"requests": {"cpu": "500m", "memory": "512Mi"}}
    assert qos_of(None, pod={"limits": BOTH}) is QOSClass.GUARANTEED
    assert qos_of(half, pod={"limits": BOTH}) is QOSClass.BURSTABLE
    assert qos_of(half, half, pod={"limits": BOTH}) is QOSClass.GUARANTEED
    assert qos_of({"requests": {"cpu": "1"}}, pod={"limits": BOTH}) == "Guaranteed"


def test_containers_together_are_what_runs_at_the_same_time() -> None:
    """Init containers run one by one beside earlier sidecars, then all others."""
    half = {"requests": {"cpu": "500m", "memory": "512Mi"}}
    init = {"resources": half}
    sidecar = {"restartPolicy": "Always", "resources": half}
    limits = {"limits": BOTH}
    assert qos_of(half, init=[init, init], pod=limits) is QOSClass.BURSTABLE
    assert qos_of(None, init=[sidecar, init], pod=limits) is QOSClass.GUARANTEED
    assert qos_of(None, init=[init, sidecar], pod=limits) is QOSClass.BURSTABLE
    assert qos_of(half, init=[init, sidecar], pod=limits) is QOSClass.GUARANTEED
