"""kubelet's feature MemoryQoS beside the plugin, with and without our memoryQoS.

docs/kubernetes.md has the table of who wins; these tests are where it comes from.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.bed import on_nodes
from support.plugins import running
from support.workloads import container, cpu_memory, pod, resources, spec

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.cluster import Cluster, Levels

pytestmark = [
    on_nodes("kubernetes", "kubernetes-systemd"),
    pytest.mark.timeout(1800),
]

DROP_IN = "/etc/kubernetes/kubelet.conf.d/50-memory-qos.conf"
CONFIG_FILE = "/etc/nriplugin-memory-qos.yaml"


class Feature(StrEnum):
    """kubelet's feature: on with either policy, which 1.37 has by default, or off."""

    NONE = "memoryReservationPolicy: None"
    TIERED = "memoryReservationPolicy: TieredReservation"
    OFF = "featureGates: {MemoryQoS: false}"


class Ours(StrEnum):
    """The plugin: not there, there by default, with memoryQoS on."""

    ABSENT = "absent"
    DEFAULT = "{}"
    ON = "memoryQoS: {enabled: true}"


BURSTABLE = resources(cpu_memory("100m", "64Mi"), cpu_memory("200m", "128Mi"))
GUARANTEED = resources(limits=cpu_memory("100m", "64Mi"))
RESIZED = resources(cpu_memory("100m", "96Mi"), cpu_memory("200m", "192Mi"))


class Seen(NamedTuple):
    created: dict[str, Levels]
    resized: Levels


@pytest.fixture(scope="module")
def seen(node: Machine, cluster: Cluster) -> dict[tuple[Feature, Ours], Seen]:
    found = {}
    for feature in Feature:
        node.write(
            DROP_IN,
            f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{feature}\n",
        )
        node.check("/node/bin/kubernetes", "restart")
        for ours in Ours:
            if ours is Ours.ABSENT:
                found[feature, ours] = run_pods(cluster)
            else:
                node.write(CONFIG_FILE, ours)
                with running(node, "--config", CONFIG_FILE):
                    found[feature, ours] = run_pods(cluster)
    node.check("rm", DROP_IN)
    node.check("/node/bin/kubernetes", "restart")
    return found


def run_pods(cluster: Cluster) -> Seen:
    given = {"burstable": BURSTABLE, "guaranteed": GUARANTEED}
    cluster.apply(
        *(
            pod(name, spec(cluster.node, container("app", each)))
            for name, each in given.items()
        )
    )
    pods = cluster.running(*given)
    created = cluster.all_levels([pods[name] for name in given])
    patch = {"containers": [{"name": "app", "resources": RESIZED}]}
    resized = cluster.levels(cluster.resize("burstable", patch))
    cluster.clear()
    return Seen(dict(zip(given, created, strict=True)), resized)


def test_it(seen: Any) -> None:
    for key, value in seen.items():
        for name, levels in (*value.created.items(), ("resized", value.resized)):
            print(key[0].name, key[1].name, name)
            for level in (*levels[:3], levels.containers["app"]):
                print(
                    "   ",
                    {
                        k: v
                        for k, v in level.items()
                        if k.startswith("memory.")
                        and k[7:] in ("high", "low", "min", "max")
                    },
                )
