"""PodGroup objects of a real API server, and the pods of one on a real kubelet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.bed import FreshNode, on_nodes
from support.cluster import keep_looking
from support.plugins import running
from support.workloads import container, cpu_memory, pod, resources, spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.cluster import Cluster

pytestmark = [
    on_nodes(long=(FreshNode("kubernetes"),)),
    pytest.mark.timeout(3600),
]

CONFIG_FILE = "/etc/nriplugin-podgroups.yaml"
# The guest's own, by which its kubelet asks the API server.
CONFIG = """
cpuBurst: {enabled: true, percent: 10}
podGroups: {kubeconfig: /etc/kubernetes/kubeconfig}
rules:
- match: {queue: research, task: ps}
  cpuBurst: {percent: 50}
- match: {job: mnist, task: worker}
  cpuBurst: {percent: 20}
"""
API_GROUP = "scheduling.volcano.sh"
CRD_NAME = f"podgroups.{API_GROUP}"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": CRD_NAME},
    "spec": {
        "group": API_GROUP,
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
GROUP = "mnist-5f3c"
# As Volcano's controller annotates the pods of the Job mnist.
KEYS = {
    "scheduling.k8s.io/group-name": GROUP,
    "volcano.sh/job-name": "mnist",
    "volcano.sh/queue-name": "research",
    "volcano.sh/task-index": "0",
}
# The bursts of the tasks, by a quota of 100 ms.
BURSTS = {"ps": "50000", "worker": "20000"}
GIVEN = resources(cpu_memory("20m", "16Mi"), cpu_memory("1", "64Mi"))


def group(min_member: int) -> dict[str, Any]:
    """Return the PodGroup."""
    return {
        "apiVersion": f"{API_GROUP}/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": GROUP},
        "spec": {"minMember": min_member, "queue": "research"},
    }


@pytest.fixture(scope="module")
def podgroups(cluster: Cluster) -> Iterator[Cluster]:
    """A cluster that knows PodGroups, as one with Volcano does."""
    cluster.apply(CRD)
    name = f"crd/{CRD_NAME}"
    cluster.kubectl("wait", "--for=condition=Established", name, "--timeout=500s")
    yield cluster
    cluster.kubectl("delete", name, "--wait=false")


def test_the_objects_of_an_api_server_are_followed(
    node: Machine, podgroups: Cluster
) -> None:
    """Listed, changed and removed; and two pods of one group have two policies."""
    cluster, job = podgroups, f"{podgroups.namespace}/{GROUP}"

    def members() -> dict[str, Any]:
        text = node.check("nriplugin", "status", "--by", "group", "-o", "json")
        groups = {one["name"]: one for one in json.loads(text)["groups"]}
        found: dict[str, Any] = groups.get(job, {}).get("members") or {}
        return found

    def stated() -> tuple[int, str] | None:
        found = members().get("pod_group")
        return (found["min_member"], found["phase"]) if found else None

    cluster.apply(group(2))
    node.write(CONFIG_FILE, CONFIG)
    with running(node, "--config", CONFIG_FILE):
        cluster.apply(
            *(
                pod(
                    task,
                    spec(cluster.node, container("app", GIVEN)),
                    {**KEYS, "volcano.sh/task-spec": task},
                )
                for task in BURSTS
            )
        )
        pods = cluster.running(*BURSTS)
        levels = cluster.all_levels(list(pods.values()))
        held = [one.containers["app"]["cpu.max.burst"] for one in levels]
        assert dict(zip(pods, held, strict=True)) == BURSTS
        assert keep_looking(stated, lambda found: found == (2, "Running")) == (
            2,
            "Running",
        )
        found = members()
        assert (found["pods"], found["running"]) == (2, 2)
        assert sorted(one["name"] for one in found["tasks"]) == ["ps", "worker"]
        cluster.apply(group(3))
        assert keep_looking(stated, lambda found: found == (3, "Pending")) == (
            3,
            "Pending",
        )
        cluster.kubectl("delete", "podgroup", GROUP)
        assert keep_looking(stated, lambda found: found is None) is None
        assert members()["pods"] == 2
