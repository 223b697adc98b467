"""What kubelet's own MemoryQoS writes, on each of the four levels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.vectors import Vector, each

from nriplugin.kube.capacity import node_capacity
from nriplugin.kube.capacity_levels import capacity_tree
from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.kube.manifests import read_manifests
from nriplugin.kube.memory_reservation import limited_swap, memory_high

MIB, GIB = 1 << 20, 1 << 30
DEFAULTS = KubeletCapacitySettings()
TIERED = replace(DEFAULTS, memory_reservation_policy="TieredReservation")
BY_DEFAULT = {"memory.min": "0", "memory.low": "0"}


@each("k8s/memory.high/")
def test_memory_high_is_between_request_and_limit(vector: Vector) -> None:
    """In whole pages; where there is no limit, it is what is available to pods."""
    given = vector.input
    limit = given["limits.memory"] or given.get("nodeAllocatable", 0)
    high = memory_high(given["requests.memory"], limit, given["throttlingFactor"])
    expected = vector.expect["memory.high"]
    assert high == (None if expected is None else int(expected))


@each("k8s/LimitedSwap/")
def test_swap_is_the_requests_share(vector: Vector) -> None:
    """A container may swap as much of the node's swap as it requests of its memory."""
    given = vector.input
    swap = limited_swap(
        given["containerMemoryRequest"], given["nodeMemory"], given["nodeSwap"]
    )
    assert str(swap) == vector.expect["unified.memory.swap.max"]


def test_a_request_above_the_node_has_no_swap() -> None:
    """Nor has a node of which the memory is not known."""
    assert limited_swap(2 * GIB, GIB, GIB) == 0
    assert limited_swap(1, 0, GIB) == 0


def pod(name: str, given: dict[str, Any], **spec: Any) -> dict[str, Any]:
    app = {"name": f"{name}-app", "resources": given}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "uid": name},
        "spec": {"containers": [app], **spec},
    }


BURSTABLE = {"requests": {"memory": "64Mi"}, "limits": {"memory": "128Mi"}}
PODS = (
    pod("guaranteed", {"limits": {"cpu": "1", "memory": "96Mi"}}),
    pod("burstable", BURSTABLE),
    pod("best-effort", {}),
)


def files(
    settings: KubeletCapacitySettings,
    *pods: dict[str, Any],
    swap_bytes: int | None = None,
) -> dict[str, dict[str, str]]:
    """Return the files that only version 2 has, by the cgroup's name."""
    node = node_capacity({"cpu": "4", "memory": str(GIB)}, settings)
    root = capacity_tree(node, settings, read_manifests(pods).pods, swap_bytes).kubepods
    assert root is not None
    found, waiting = {}, [root]
    while waiting:
        one = waiting.pop()
        found[one.name] = one.values.unified
        waiting += one.children
    return found


def test_by_default_nothing_is_protected() -> None:
    """The gate is on in 1.37, with the policy None and without a factor."""
    found = files(DEFAULTS, *PODS)
    assert found == {
        "kubepods": BY_DEFAULT,
        "Burstable": {"memory.low": "0"},
        "BestEffort": {},
        "guaranteed": {},
        "guaranteed-app": BY_DEFAULT,
        "burstable": {},
        "burstable-app": BY_DEFAULT,
        "best-effort": {},
        "best-effort-app": BY_DEFAULT,
    }


def test_the_policy_protects_requests_on_all_levels() -> None:
    """memory.min of Guaranteed pods, memory.low of others, and the sums above them."""
    found = files(TIERED, *PODS)
    guaranteed, burstable = str(96 * MIB), str(64 * MIB)
    assert found == {
        "kubepods": {"memory.min": str(160 * MIB), "memory.low": burstable},
        "Burstable": {"memory.low": burstable},
        "BestEffort": {},
        "guaranteed": {"memory.min": guaranteed},
        "guaranteed-app": {"memory.min": guaranteed},
        "burstable": {"memory.low": burstable},
        "burstable-app": {"memory.low": burstable},
        "best-effort": {},
        "best-effort-app": BY_DEFAULT,
    }


def test_a_factor_throttles_before_the_limit() -> None:
    """A container without a limit is throttled by what all pods may use together."""
    found = files(replace(DEFAULTS, memory_throttling_factor=0.9), *PODS)
    assert found["burstable-app"]["memory.high"] == "127504384"
    assert found["best-effort-app"]["memory.high"] == str(int(GIB * 0.9) // 4096 * 4096)
    assert "memory.high" not in found["guaranteed-app"]
    # A pod has it only by resources of its own.
    assert "memory.high" not in found["burstable"]
    own = pod("own", {}, resources=BURSTABLE)
    factor = replace(DEFAULTS, memory_throttling_factor=0.9)
    assert files(factor, own)["own"]["memory.high"] == "127504384"
    assert "memory.high" not in files(factor, own)["own-app"]


def test_without_the_gate_a_container_is_not_throttled() -> None:
    """kubelet then resets memory.high, which it may have set before."""
    off = files(replace(DEFAULTS, memory_qos=False), *PODS)
    assert off["burstable-app"] == {"memory.high": "max"}


@pytest.mark.parametrize(
    ("behavior", "name", "swap"),
    [
        ("NoSwap", "burstable-app", "0"),
        ("LimitedSwap", "burstable-app", str(64 * MIB)),
        ("LimitedSwap", "guaranteed-app", "0"),
        ("LimitedSwap", "best-effort-app", "0"),
    ],
)
def test_only_burstable_containers_swap(behavior: str, name: str, swap: str) -> None:
    """64Mi of a node with 1Gi of memory and as much swap are a share of 64Mi."""
    settings = replace(DEFAULTS, swap_behavior=behavior)
    assert files(settings, *PODS, swap_bytes=GIB)[name]["memory.swap.max"] == swap
