"""Workloads through a real API server, scheduler and kubelet, to the kernel's files.

All workloads run twice: without the plugin, and with it. What kubelet writes above the
containers must be the same; what the containers have must be what `explain` says of the
pods as the API server shows them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.bed import on_nodes
from support.cluster import Levels
from support.plugins import running
from support.workloads import (
    container,
    cpu_memory,
    deployment,
    job,
    pod,
    resources,
    runtime_class,
    sidecar,
    spec,
    stateful_set,
)

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.cluster import Cluster

pytestmark = [
    on_nodes("kubernetes", "kubernetes-systemd", "kubernetes-crio"),
    pytest.mark.timeout(1200),
]

OVERHEAD = cpu_memory("100m", "32Mi")


def workloads(node: str) -> list[dict[str, Any]]:
    """Return one workload of each kind: of every QoS class, with everything in pods."""
    small = resources(limits=cpu_memory("200m", "64Mi"))
    burstable = resources(cpu_memory("250m", "64Mi"), cpu_memory("500m", "128Mi"))
    guaranteed = resources(limits=cpu_memory("300m", "96Mi"))
    together = resources(cpu_memory("300m", "96Mi"), cpu_memory("600m", "192Mi"))
    return [
        runtime_class("heavy", "crun", OVERHEAD),
        deployment(
            "web",
            spec(
                node,
                container("app", burstable),
                init=[
                    container("prepare", small, command=["true"]),
                    sidecar("proxy", small),
                ],
            ),
        ),
        stateful_set("db", spec(node, container("app", guaranteed))),
        job("batch", spec(node, container("app"))),
        pod(
            "together",
            spec(
                node,
                container("one"),
                container("two", resources({"cpu": "100m"})),
                resources=together,
            ),
        ),
        pod(
            "heavy",
            spec(node, container("app", guaranteed), runtimeClassName="heavy"),
        ),
    ]


PODS = {
    "web": "Burstable",
    "db": "Guaranteed",
    "batch": "BestEffort",
    "together": "Burstable",
    "heavy": "Guaranteed",
}


class Seen(NamedTuple):
    """The pods as the API server shows them, and their cgroups."""

    pods: dict[str, Any]
    levels: dict[str, Levels]


@pytest.fixture(scope="module")
def seen(node: Machine, cluster: Cluster) -> dict[bool, Seen]:
    """All workloads, without the plugin (False) and with it (True)."""
    without = run_all(cluster)
    cluster.clear()
    with running(node):
        return {False: without, True: run_all(cluster)}


def run_all(cluster: Cluster) -> Seen:
    cluster.apply(*workloads(cluster.node))
    pods = cluster.running(*PODS)
    levels = cluster.all_levels([pods[name] for name in PODS])
    return Seen(pods, dict(zip(PODS, levels, strict=True)))


@pytest.mark.parametrize("name", PODS)
def test_it(seen, name) -> None:
    print(json.dumps(seen[False].levels[name], indent=1))
    print(json.dumps(seen[True].levels[name], indent=1))
