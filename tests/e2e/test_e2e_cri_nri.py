"""The proxy's values next to those of a node with NRI, container by container."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from nodes.catalog import NODES
from nodes.machine import booted
from support.bed import on_nodes
from support.kubelet import Kubelet
from support.plugins import running

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Container

pytestmark = [on_nodes("containerd-1.6"), pytest.mark.timeout(900)]

# Its runtimes are from before the quadratic curve as well.
WITH_NRI = "containerd-1.7"

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
# Written after the runtime's part, so the last thing that changes.
BURST_THEN = {"stated": "8000"}
PATIENCE_S = 60
DERIVED = ("cpu.weight", "cpu.max", "cpu.max.burst", "cpu.idle")


def outcomes(machine: Machine) -> dict[str, Any]:
    """Return what every container was given, and what the kernel holds of that."""
    machine.write(CONFIG_FILE, CONFIG)
    kubelet = Kubelet(machine)
    found: dict[str, Any] = {}
    with kubelet.sandbox("Burstable") as other:
        # The one that shows the runtime's curve.
        kubelet.start(other, "alone", {"cpu_shares": 512})
        with running(machine, "--config", CONFIG_FILE):
            for qos_class, containers in CONTAINERS.items():
                with kubelet.sandbox(qos_class, annotations=ANNOTATIONS) as pod:
                    for name, resources in containers.items():
                        found[f"{qos_class} {name}"] = one(
                            kubelet, kubelet.start(pod, name, resources)
                        )
    return found


def one(kubelet: Kubelet, container: Container) -> dict[str, dict[str, str]]:
    spec = kubelet.inspect(container)["info"]["runtimeSpec"]["linux"]["resources"]
    given = spec["unified"]
    settings = kubelet.settings(container)
    seen = {"given": given, "created": {file: settings[file] for file in given}}
    result = kubelet.update(container, **UPDATE)
    assert result.code == 0, result.stderr
    deadline = time.monotonic() + PATIENCE_S
    burst = BURST_THEN.get(container.name, "16000")
    while (settings := kubelet.settings(container))["cpu.max.burst"] != burst:
        assert time.monotonic() < deadline, (container.name, settings)
    if settings["cpu.idle"] == "1":
        del settings["cpu.weight"]  # which kernels show as 0 or 1 then
    files = settings.keys() & {*given, *DERIVED}
    seen["updated"] = {file: settings[file] for file in files}
    return seen


def test_both_doors_give_the_same(node: Machine) -> None:
    """What the runtime was told, and what the kernel holds; also after an update."""
    with booted(NODES[WITH_NRI]) as other:
        through_nri = outcomes(other)
    through_proxy = outcomes(node)
    assert through_proxy == through_nri
    # Worth comparing: every handler had something to say.
    files = {file for one in through_nri.values() for file in one["given"]}
    assert files >= {
        *("cpu.weight", "cpu.max", "memory.max", "cpu.max.burst", "cpu.idle"),
        *("memory.high", "memory.low", "memory.min", "memory.oom.group", "pids.max"),
    }
