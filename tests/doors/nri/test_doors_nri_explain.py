"""What `explain` shows for a pod is what the plugin answers for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.messages import (
    GIB,
    OURS,
    container_at,
    creation,
    pod_at,
    seen,
    unified_of,
)
from doors.nri.nodes import plugin_on

from nriplugin.api import view_pb2 as view
from nriplugin.config import parse_config
from nriplugin.doors.nri.messages import read_container, read_pod
from nriplugin.explain import TYPICAL_NODE, explain_pod
from nriplugin.kube.manifests import read_manifests
from nriplugin.kube.oomscore import oom_score_adj
from nriplugin.kube.qos import QOSClass
from nriplugin.kube.quantity import value

if TYPE_CHECKING:
    from nriplugin.doors.nri.plugin import NodePlugin
    from nriplugin.explained import ExplainedContainer, ExplainedPod
    from nriplugin.kube.manifests import ManifestPod

MEMORY = 64 * GIB

ALL = """
memoryQoS: {enabled: true, swap: 0, oomGroup: true, raiseAncestors: true}
cpuBurst: {enabled: true, percent: 50}
cpuQoS: {enabled: true, level: BE}
memoryQoSLevel: {enabled: true, level: HLS}
unifiedAnnotations: {enabled: true, allowed: [pids.max, memory.high, cpu.idle]}
"""
CONFIGS = {
    "all": ALL,
    "other": """
curve: kep
memoryQoS: {enabled: true, throttlingFactor: 0.5}
cpuBurst: {enabled: true, microseconds: 20000}
cpuQoS: {enabled: true, level: BE, equivalent: weight}
memoryQoSLevel: {enabled: true, level: BE}
unifiedAnnotations: {enabled: true, allowed: [pids.max]}
""",
    "rules": f"""
{ALL}
rules:
- match: {{qosClass: Burstable, labels: {{tier: web}}}}
  memoryQoS: {{throttlingFactor: 0.7}}
  cpuQoS: {{level: LS}}
- {{match: {{namespace: shop, container: side}}, cpuBurst: {{enabled: false}}}}
""",
}

SMALL = {"requests": {"cpu": "100m", "memory": "200Mi"}, "limits": {"memory": "1Gi"}}
BOTH = {"requests": {"cpu": 1, "memory": "3Gi"}, "limits": {"cpu": 2, "memory": "4Gi"}}
EQUAL = {"limits": {"cpu": "500m", "memory": "1Gi"}}

PODS: dict[str, dict[str, Any]] = {
    "guaranteed": {"resources": [EQUAL, EQUAL]},
    "burstable": {"resources": [SMALL, BOTH], "labels": {"tier": "web"}},
    "requests alone": {"resources": [{"requests": {"memory": "5Gi"}}]},
    "best effort": {"resources": [{}, {}]},
    "runc": {"resources": [BOTH], "runtime_class": "runc"},
    "crun": {"resources": [BOTH], "runtime_class": "crun"},
    "something else": {"resources": [BOTH, SMALL], "runtime_class": "kata"},
    "annotations": {
        "resources": [SMALL, BOTH],
        "annotations": {
            f"cpu-burst{OURS}": "20%",
            f"memory-request{OURS}/container.app": "300Mi",
            f"pids.max{OURS}/container.side": "7",
            f"cpu.idle{OURS}": "1",
            f"qos-level{OURS}": "LC\nBE",
        },
    },
    "volcano": {
        "resources": [BOTH],
        "annotations": {
            "volcano.sh/qos-level": "LS",
            "volcano.sh/enable-quota-burst": "true",
        },
    },
}


def manifest(
    resources: list[Any], runtime_class: str | None = None, **metadata: Any
) -> ManifestPod:
    names = ("app", "side")
    containers = [
        {"name": name, "resources": given}
        for name, given in zip(names, resources, strict=False)
    ]
    document = {
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "7b0f", **metadata},
        "spec": {"containers": containers, "runtimeClassName": runtime_class},
    }
    [pod] = read_manifests([document]).pods
    return pod


def through_nri(
    plugin: NodePlugin,
    pod: ManifestPod,
    explained: ExplainedPod,
    container: ExplainedContainer,
) -> Any:
    """Return the plugin's answer and its direct writes for a container."""
    parent = explained.cgroups[plugin.plan.facts.driver or ""]
    request = value(container.requests.get("memory", 0))
    app = container_at(
        oom_score=oom_score_adj(QOSClass(explained.qos_class), request, MEMORY),
        shares=container.sent.get("cpu.shares", 0),
        quota_us=container.sent.get("cpu.quota", 0),
        limit_bytes=container.sent.get("memory.limit", 0),
    )
    app.name = container.name
    app.linux.resources.cpu.period.value = container.sent["cpu.period"]
    sandbox = pod_at(
        parent.rpartition("/")[2] if parent.endswith(".slice") else parent,
        pod.annotations,
        labels=dict(pod.labels),
        uid=pod.uid,
        runtime_handler=pod.spec.runtime_class,
    )
    response = plugin.create_container(creation(sandbox, app))
    assert response is not None
    cleared = response.adjust.linux.resources.cpu.HasField("shares")
    request_pod = read_pod(view.PodSandbox.FromString(sandbox.SerializeToString()), {})
    read = read_container(seen(view.Container, app))
    decision = plugin.lifecycle.decide_new(plugin.plan, request_pod, read).decision
    writes = tuple((w.file, w.value, w.level.value) for w in decision.writes)
    return unified_of(response), writes, cleared


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", PODS)
def test_explain_shows_the_plugins_answer(
    name: str, config: str, driver: str, writable: bool
) -> None:
    """Files, direct writes and cleared shares are the same in both."""
    facts = TYPICAL_NODE._replace(
        driver=driver,
        memory_capacity_bytes=MEMORY,
        memory_allocatable_bytes=MEMORY,
        writable=writable,
    )
    engine = parse_config(CONFIGS[config], "test").engine
    plugin = plugin_on(facts)
    plugin.lifecycle.plans.apply(engine)
    pod = manifest(**PODS[name])
    explained = explain_pod(pod, engine, facts)
    for container in explained.containers:
        files = {one.file: one.value for one in container.files}
        writes = tuple((one.file, one.value, one.level) for one in container.writes)
        answered = through_nri(plugin, pod, explained, container)
        assert answered == (files, writes, bool(container.cleared))
