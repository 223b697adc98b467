"""kubelet's feature MemoryQoS beside the plugin, with and without our memoryQoS.

docs/kubernetes.md has the table of who wins; these tests are where it comes from.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.bed import on_nodes
from support.plugins import running
from support.workloads import container, cpu_memory, pod, resources, spec

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.cluster import Cluster, Levels

pytestmark = [on_nodes("kubernetes-systemd"), pytest.mark.timeout(1800)]

DROP_IN = "/etc/kubernetes/kubelet.conf.d/50-memory-qos.conf"
CONFIG_FILE = "/etc/nriplugin-memory-qos.yaml"
KIND = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
MIB = 1 << 20


class Feature(StrEnum):
    """kubelet's feature: on with either policy, or off. 1.37 has the first."""

    NONE = "memoryReservationPolicy: None"
    TIERED = "memoryReservationPolicy: TieredReservation"
    OFF = "featureGates: {MemoryQoS: false}"


class Ours(StrEnum):
    """The plugin: not there, there by default, with memoryQoS on."""

    ABSENT = "absent"
    DEFAULT = "{}"
    ON = "memoryQoS: {enabled: true}"


BURSTABLE = resources(cpu_memory("50m", "64Mi"), cpu_memory("1", "128Mi"))
GUARANTEED = resources(limits=cpu_memory("200m", "64Mi"))
RESIZED = resources(cpu_memory("50m", "96Mi"), cpu_memory("1", "192Mi"))
GIVEN = {"burstable": BURSTABLE, "guaranteed": GUARANTEED}


class Seen(NamedTuple):
    """The cgroups of the pods after their start, and of one after its resize."""

    created: dict[str, Levels]
    resized: Levels


@pytest.fixture(scope="module")
def seen(node: Machine, cluster: Cluster) -> dict[tuple[Feature, Ours], Seen]:
    """Every combination."""
    found: dict[tuple[Feature, Ours], Seen] = {}
    for feature in Feature:
        node.write(DROP_IN, f"{KIND}{feature}\n")
        node.check("/node/bin/kubernetes", "restart")
        for ours in Ours:
            prefix = f"{feature.name}-{ours.name}".lower()
            if ours is Ours.ABSENT:
                found[feature, ours] = run_pods(cluster, prefix)
            else:
                node.write(CONFIG_FILE, ours)
                with running(node, "--config", CONFIG_FILE):
                    found[feature, ours] = run_pods(cluster, prefix)
            cluster.clear()
    return found


def run_pods(cluster: Cluster, prefix: str) -> Seen:
    names = {name: f"{prefix}-{name}" for name in GIVEN}
    cluster.apply(
        *(
            pod(names[name], spec(cluster.node, container("app", given)))
            for name, given in GIVEN.items()
        )
    )
    pods = cluster.running(*names.values())
    created = cluster.all_levels([pods[name] for name in names.values()])
    patch = {"containers": [{"name": "app", "resources": RESIZED}]}
    resized = cluster.levels(cluster.resize(names["burstable"], patch))
    return Seen(dict(zip(GIVEN, created, strict=True)), resized)


def test_it(seen: dict[tuple[Feature, Ours], Seen]) -> None:
    for key, value in seen.items():
        for name, levels in (*value.created.items(), ("resized", value.resized)):
            print(key[0].name, key[1].name, name)
            for level in (*levels[:3], levels.containers["app"]):
                print(
                    "   ", {k: v for k, v in level.items() if k.startswith("memory.")}
                )
