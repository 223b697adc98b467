"""The scenario of `nriplugin demo`: pods, a resize, a removal.

The plugin and its socket are the real ones. The runtime is the SDK's EmbeddedRuntime,
so the demo needs no root, no Kubernetes and no container; nothing is written to any
cgroup. The pods are those of a manifest, and what kubelet would send for them is
computed from it.
"""

from __future__ import annotations

import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.config import Config, parse_config
from nriplugin.convert import convert
from nriplugin.convert.readers import from_nri
from nriplugin.daemon.background import BackgroundThread
from nriplugin.documents import load_documents
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.doors.nri.responses import adjustment
from nriplugin.explain import DEFAULT_KUBELET, TYPICAL_NODE, explain_pod
from nriplugin.kube.amounts import default_requests
from nriplugin.kube.manifests import read_manifests
from nriplugin.kube.oomscore import oom_score_adj
from nriplugin.kube.pod_qos import qos_class
from nriplugin.kube.quantity import value
from nriplugin.kube.sent import sent_for
from nriplugin.nri.launch import launch_from
from nriplugin.nri.runner import Runner
from nriplugin.nri.testing.runtime import EmbeddedRuntime
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nriplugin.explained import ExplainedContainer
    from nriplugin.kube.manifests import ManifestPod
    from nriplugin.nri.testing.runtime import Created

CONFIG = """\
memoryQoS: {enabled: true, protection: false}
cpuBurst: {enabled: true}
cpuQoS: {enabled: true}
unifiedAnnotations: {enabled: true, allowed: [pids.max]}
"""

# A pod for each class: one as it comes, one with annotations of which one is refused,
# one of a batch job.
PODS = """\
kind: Pod
metadata: {name: db-0, namespace: shop}
spec:
  containers:
  - name: postgres
    resources: {limits: {cpu: 2, memory: 1Gi}}
---
kind: Pod
metadata:
  name: web-7f9
  namespace: shop
  annotations:
    cpu-burst.cgroup2.nri.io: 50%
    pids.max.cgroup2.nri.io: "500"
    memory.max.cgroup2.nri.io: max
spec:
  containers:
  - name: nginx
    resources:
      requests: {cpu: 250m, memory: 128Mi}
      limits: {cpu: 500m, memory: 256Mi}
---
kind: Pod
metadata: {name: batch-x2, namespace: jobs, annotations: {volcano.sh/qos-level: BE}}
spec: {containers: [{name: worker}]}
"""

_MEMORY = 16 << 30
# No direct write is possible, and the answers have all that they can carry.
_FACTS = TYPICAL_NODE._replace(
    driver="cgroupfs",
    oci_runtime="runc",
    writable=False,
    memory_capacity_bytes=_MEMORY,
    memory_allocatable_bytes=_MEMORY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One event: the runtime's message, what it would do alone, the plugin's answer."""

    event: str
    subject: str
    came_in: dict[str, str] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    went_out: dict[str, str] = field(default_factory=dict)
    rules: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    cleared: list[str] = field(default_factory=list)


def read_pods(text: str | bytes, source: str) -> list[ManifestPod]:
    """Return the pods of a manifest.

    Raises:
        ConfigError: it is not one.
    """
    return read_manifests(load_documents(text, source)).pods


def play(
    config: Config | None = None, pods: Sequence[ManifestPod] = ()
) -> Iterator[Step]:
    """Run the scenario; yield each step as it happens."""
    config = config or parse_config(CONFIG, "demo")
    pods = pods or read_pods(PODS, "demo")
    with tempfile.TemporaryDirectory(prefix="nriplugin-") as directory:
        path = f"{directory}/nri.sock"
        with EmbeddedRuntime(path) as runtime, _plugin(path, config):
            link = runtime.wait_for_plugin()
            yield Step(event="RegisterPlugin", subject=f"{link.idx}-{link.name}")
            yield from _play(runtime, config, pods)


def _play(
    runtime: EmbeddedRuntime, config: Config, pods: Sequence[ManifestPod]
) -> Iterator[Step]:
    actors: list[tuple[nri.PodSandbox, nri.Container, str, Step]] = []
    for number, manifest in enumerate(pods):
        explained = explain_pod(manifest, config.engine, _FACTS)
        pod = _sandbox(manifest, f"p{number}", explained.cgroups["cgroupfs"])
        runtime.run_pod_sandbox(pod)
        for at, (spec, told) in enumerate(
            zip(manifest.spec.containers, explained.containers, strict=False)
        ):
            container = nri.Container(
                id=f"c{number}-{at}", pod_sandbox_id=pod.id, name=spec.name
            )
            sent = sent_for(spec, manifest.spec, DEFAULT_KUBELET)
            container.linux.resources.CopyFrom(_resources(*sent))
            request = value(
                default_requests(spec.requests, spec.limits).get("memory", 0)
            )
            container.linux.oom_score_adj.value = oom_score_adj(
                qos_class(manifest.spec), request, _FACTS.memory_capacity_bytes or 1
            )
            created = runtime.create_container(pod, container)
            runtime.start_container(pod, container)
            subject = f"{pod.namespace}/{pod.name}/{spec.name}"
            shown = f"{subject} ({explained.qos_class})"
            step = _created(shown, container, created, told)
            yield step
            actors.append((pod, container, subject, step))
    resized = [one for one in actors if one[1].linux.resources.cpu.quota.value > 0]
    if resized:
        pod, container, subject, step = resized[-1]
        asked = _doubled(container.linux.resources)
        updated = runtime.update_container(pod, container, asked)
        yield Step(
            event="UpdateContainer",
            subject=f"{subject} (resized)",
            came_in=_numbers(asked),
            before=dict(convert(from_nri(asked)).files),
            went_out=dict(updated.resources.unified),
            rules={**step.rules, **_rules(asked)},
        )
    for pod, container, subject, _ in actors[-1:]:
        runtime.stop_container(pod, container)
        runtime.remove_container(pod, container)
        runtime.stop_pod_sandbox(pod)
        runtime.remove_pod_sandbox(pod)
        yield Step(event="RemoveContainer", subject=subject)


def _created(
    subject: str,
    container: nri.Container,
    created: Created,
    told: ExplainedContainer,
) -> Step:
    numbers = container.linux.resources
    rules = {one.file: f"{one.rule}; {one.source}" for one in told.files}
    return Step(
        event="CreateContainer",
        subject=subject,
        came_in=_numbers(numbers),
        before=dict(convert(from_nri(numbers)).files),
        went_out=dict(created.adjust.linux.resources.unified),
        rules={**rules, **_rules(numbers)},
        refused=[one["text"] for one in told.refused],
        cleared=list(told.cleared),
    )


def _sandbox(pod: ManifestPod, identity: str, cgroup: str) -> nri.PodSandbox:
    sandbox = nri.PodSandbox(
        id=identity,
        uid=f"uid-{identity}",
        name=pod.name,
        namespace=pod.namespace or "default",
        labels=pod.labels,
        annotations=pod.annotations,
    )
    sandbox.linux.cgroup_parent = cgroup.replace(pod.uid, sandbox.uid)
    return sandbox


def _resources(
    shares: int, quota_us: int, period_us: int, memory_bytes: int
) -> nri.LinuxResources:
    resources = nri.LinuxResources()
    resources.cpu.shares.value = shares
    resources.cpu.period.value = period_us
    if quota_us:
        resources.cpu.quota.value = quota_us
    if memory_bytes:
        resources.memory.limit.value = memory_bytes
    return resources


def _doubled(given: nri.LinuxResources) -> nri.LinuxResources:
    return _resources(
        given.cpu.shares.value * 2,
        given.cpu.quota.value * 2,
        given.cpu.period.value,
        given.memory.limit.value * 2,
    )


@contextmanager
def _plugin(path: str, config: Config) -> Iterator[None]:
    """Run the plugin on a thread of its own within the `with` block."""
    lifecycle = Lifecycle(BackgroundThread(), _FACTS, render=adjustment)
    plugin = NodePlugin(lifecycle)
    plugin.apply(config)
    runner = Runner(plugin, launch_from({}, socket_path=path))
    thread = threading.Thread(target=runner.run, name="nriplugin")
    thread.start()
    try:
        yield
    finally:
        runner.stop()
        thread.join()


def _rules(resources: nri.LinuxResources) -> dict[str, str]:
    """Return the text of the conversion rule that gave each file its value."""
    derived = convert(from_nri(resources)).derived
    return {file: rule.text for file, _, rule in derived}


def _numbers(resources: nri.LinuxResources) -> dict[str, str]:
    """Return the v1-style numbers that were given, by their usual names."""
    given = {
        "cpu.shares": resources.cpu.shares.value,
        "cpu.cfs_quota_us": resources.cpu.quota.value,
        "cpu.cfs_period_us": resources.cpu.period.value,
        "memory.limit_in_bytes": resources.memory.limit.value,
    }
    return {name: str(value) for name, value in given.items() if value}
