"""Both doors give every container the same values: NRI, and the CRI proxy.

The same containers on a node with NRI and on one without; the values that either must
have were worked out by hand.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from support.bed import on_nodes
from support.looking import keep_looking
from support.plugins import running

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet

# The runtimes of both are from before the quadratic curve.
pytestmark = [on_nodes("containerd-1.6", "containerd-1.7"), pytest.mark.timeout(1800)]

CONFIG_FILE = "/etc/nriplugin-doors.yaml"
CONFIG = """
memoryQoS: {enabled: true, oomGroup: true}
cpuBurst: {enabled: true, percent: 20}
cpuQoS: {enabled: true}
memoryQoSLevel: {enabled: true}
unifiedAnnotations: {enabled: true, allowed: [pids.max]}
rules:
- match: {qosClass: Guaranteed}
  memoryQoS: {swap: 0}
"""
ANNOTATIONS = {
    # An estimate, and what a container without a limit gets, depend on the node's size.
    "memory-request.cgroup2.nri.io": "32Mi",
    "memory-qos.cgroup2.nri.io/container.unlimited": "off",
    "cpu-burst.cgroup2.nri.io/container.stated": "10%",
    "pids.max.cgroup2.nri.io": "123",
    "qos-level.cgroup2.nri.io/container.idle": "BE",
}
LIMITS = {"cpu_quota": 50_000, "cpu_period": 100_000, "memory_limit_in_bytes": 1 << 26}
CONTAINERS: dict[str, dict[str, dict[str, int]]] = {
    "Guaranteed": {"all": {**LIMITS, "cpu_shares": 512, "oom_score_adj": -997}},
    "Burstable": {
        "stated": {**LIMITS, "cpu_shares": 256, "oom_score_adj": 990},
        "unlimited": {"cpu_shares": 1024, "oom_score_adj": 980},
    },
    "BestEffort": {"idle": {**LIMITS, "cpu_shares": 2, "oom_score_adj": 1000}},
}
UPDATE = {"cpu_share": 2048, "cpu_quota": 80_000, "cpu_period": 100_000}

# The request is 32 MiB of 64: 32 + 0.9 * 32 MiB, in whole pages.
MEMORY = {"memory.high": "63750144", "memory.max": str(1 << 26)}
LIMITED = {
    **MEMORY,
    "cpu.max": "50000 100000",
    "cpu.max.burst": "10000",
    "memory.oom.group": "1",
    "pids.max": "123",
}
# What the runtime is told at creation, and what the kernel holds then.
CREATED: dict[str, dict[str, str]] = {
    "Guaranteed all": {
        **LIMITED,
        "cpu.weight": "20",
        "memory.min": str(1 << 25),
        "memory.swap.max": "0",
    },
    "Burstable stated": {
        **LIMITED,
        "cpu.weight": "10",
        "cpu.max.burst": "5000",
        "memory.low": str(1 << 25),
    },
    "Burstable unlimited": {"cpu.weight": "39", "pids.max": "123"},
    "BestEffort idle": {**LIMITED, "cpu.idle": "1"},
}
# What the update changes in the kernel.
CHANGED = {
    "cpu.weight": "79",
    "cpu.max": "80000 100000",
    "cpu.max.burst": "16000",
    "cpu.idle": "0",
}
UPDATED = {name: {**created, **CHANGED} for name, created in CREATED.items()}
UPDATED["Burstable stated"]["cpu.max.burst"] = "8000"
UPDATED["BestEffort idle"]["cpu.idle"] = "1"
del UPDATED["BestEffort idle"]["cpu.weight"]  # which kernels show as 0 or 1 then


@pytest.fixture(scope="module")
def outcomes(node: Machine, kubelet: Kubelet) -> dict[str, Any]:
    """What every container was given, and what the kernel holds of that."""
    node.write(CONFIG_FILE, CONFIG)
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        pods = {
            qos_class: stack.enter_context(
                kubelet.sandbox(qos_class, "crun", ANNOTATIONS)
            )
            for qos_class in CONTAINERS
        }
        # This container shows the runtime's curve to the plugin, which starts later.
        kubelet.start(pods["Burstable"], "alone", {"cpu_shares": 512})
        stack.enter_context(running(node, "--config", CONFIG_FILE))
        for qos_class, containers in CONTAINERS.items():
            for name, resources in containers.items():
                key = f"{qos_class} {name}"
                container = kubelet.start(pods[qos_class], name, resources)
                found[key] = one(kubelet, container, UPDATED[key])
    return found


def one(
    kubelet: Kubelet, container: Container, updated: dict[str, str]
) -> dict[str, dict[str, str]]:
    """Return a container's files in the specification, and as the kernel holds them."""
    spec = kubelet.inspect(container)["info"]["runtimeSpec"]["linux"]["resources"]
    given = spec["unified"]
    settings = kubelet.settings(container)
    seen = {"given": given, "created": {file: settings[file] for file in given}}
    result = kubelet.update(container, **UPDATE)
    assert result.code == 0, result.stderr

    def now() -> dict[str, str]:
        settings = kubelet.settings(container)
        return {file: settings[file] for file in updated}

    # The burst is written after the runtime's part, so it is the last to change.
    return seen | {"updated": keep_looking(now, lambda held: held == updated)}


@pytest.mark.parametrize("name", CREATED)
def test_both_doors_give_the_same(outcomes: dict[str, Any], name: str) -> None:
    """What the runtime is told and what the kernel holds; also after an update."""
    assert outcomes[name]["given"] == CREATED[name]
    assert outcomes[name]["created"] == CREATED[name]
    assert outcomes[name]["updated"] == UPDATED[name]
