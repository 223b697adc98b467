"""Two pods of one PodGroup with different tasks: two policies, and one group."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from support.bed import on_nodes
from support.looking import keep_looking
from support.plugins import running

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Kubelet

pytestmark = [on_nodes("containerd-2.4"), pytest.mark.timeout(1800)]

MIB = 1 << 20
CONFIG_FILE, GROUPS_FILE = "/etc/nriplugin-groups.yaml", "/etc/podgroups.yaml"
CONFIG = f"""
cpuQoS: {{enabled: true, preemptable: BE}}
podGroups: {{file: {GROUPS_FILE}}}
rules:
- match: {{queue: research, task: ps}}
  cpuBurst: {{enabled: true, percent: 50}}
- match: {{job: mnist, task: worker}}
  cpuBurst: {{enabled: true, percent: 20}}
"""
GROUPS = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: mnist-5f3c, namespace: test}
spec: {minMember: 2, queue: research, priorityClassName: high}
"""
# As Volcano's controller annotates the pods of the Job mnist.
KEYS = {
    "scheduling.k8s.io/group-name": "mnist-5f3c",
    "volcano.sh/job-name": "mnist",
    "volcano.sh/queue-name": "research",
    "volcano.sh/task-index": "0",
}
TASKS = {
    "ps": {"volcano.sh/task-spec": "ps"},
    "worker": {"volcano.sh/task-spec": "worker", "volcano.sh/preemptable": "true"},
}
GIVEN = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 64 * MIB,
}


def groups_of(node: Machine, by: str) -> dict[str, Any]:
    """Return the groups that `nriplugin status` shows."""
    text = node.check("nriplugin", "status", "--by", by, "-o", "json")
    return {one["name"]: one for one in json.loads(text)["groups"]}


def test_a_job_on_a_node(node: Machine, kubelet: Kubelet) -> None:
    """Each task has the settings of its rule, and both are members of one group."""
    name = "test/mnist-5f3c"
    node.write(CONFIG_FILE, CONFIG)
    node.write(GROUPS_FILE, GROUPS)
    with ExitStack() as stack:
        stack.enter_context(running(node, "--config", CONFIG_FILE))
        held = {}
        for task, keys in TASKS.items():
            pod = stack.enter_context(
                kubelet.sandbox(annotations={**KEYS, **keys}, remove=True)
            )
            container = kubelet.start(pod, task, GIVEN)
            held[task] = kubelet.settings(container)
        found = groups_of(node, "group")
        by_queue, by_job = groups_of(node, "queue"), groups_of(node, "job")
        page = node.check("nriplugin", "status", "--by", "group")
        stack.pop_all().close()
        stack.enter_context(running(node, "--config", CONFIG_FILE))
        left = keep_looking(
            lambda: groups_of(node, "group"), lambda found: name not in found
        )
    assert name not in left
    # Two policies: each its own burst, and the preemptable one is idle.
    assert held["ps"]["cpu.max.burst"] == "25000"
    assert held["worker"]["cpu.max.burst"] == "10000"
    assert (held["ps"]["cpu.idle"], held["worker"]["cpu.idle"]) == ("0", "1")
    # One group.
    group = found[name]
    members = group["members"]
    assert group["containers"]["managed"] == 2
    assert (members["pods"], members["running"], members["preemptable"]) == (2, 2, 1)
    assert [(one["name"], one["running"]) for one in members["tasks"]] == [
        ("ps", 1),
        ("worker", 1),
    ]
    assert members["requests"]["milli_cpu"] == 1000
    assert members["limits"] == {"milli_cpu": 1000, "memory_bytes": 128 * MIB}
    assert (members["job"], members["queue"]) == ("mnist", "research")
    shown = members["pod_group"]
    assert (shown["phase"], shown["min_member"]) == ("Running", 2)
    assert {one["resource"] for one in members["pressure"]} >= {"cpu", "memory"}
    assert by_queue["research"]["members"]["pods"] == 2
    assert by_job["test/mnist"]["members"]["pods"] == 2
    assert "ps 1, worker 1" in page
