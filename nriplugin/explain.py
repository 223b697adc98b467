"""From a pod's manifest to every value that follows from it, step by step.

The steps are what Kubernetes makes of the resources (kube/), what the engine decides
about that, and where the files are (cgroup/). The engine is the live one, and it is
told no more than it would be told through NRI, so the result is what a node would do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.paths import Driver, cgroup_path, pod_components
from nriplugin.convert import Resources, convert
from nriplugin.engine import model
from nriplugin.engine.allowed_files import ALLOWABLE
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import RESOURCES, STATED, HandlerFailed, Reason
from nriplugin.engine.explicit import explicit_values
from nriplugin.engine.runtimes import oci_runtime_of
from nriplugin.engine.settings import DEFAULT_CONFIG
from nriplugin.errors import ConfigError
from nriplugin.explained import (
    ExplainedContainer,
    ExplainedFile,
    ExplainedPod,
    ExplainedWrite,
)
from nriplugin.kube.amounts import default_requests
from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
from nriplugin.kube.manifest_tasks import task_of_manifest
from nriplugin.kube.memory_reservation import container_files
from nriplugin.kube.oomscore import oom_score_adj
from nriplugin.kube.pod_qos import qos_class
from nriplugin.kube.pod_values import pod_values
from nriplugin.kube.podgroup import membership
from nriplugin.kube.podspec import Role
from nriplugin.kube.qos import QOSClass
from nriplugin.kube.quantity import value
from nriplugin.kube.sent import sent_for
from nriplugin.manifest_warnings import warnings_about_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nriplugin.engine.decision import Decision
    from nriplugin.engine.settings import EngineConfig, Settings
    from nriplugin.kube.manifests import ManifestPod
    from nriplugin.kube.podgroup_object import GroupObject
    from nriplugin.kube.podspec import ContainerSpec, PodSpec
    from nriplugin.kube.sent import Sent

# The node that is assumed where the user names none: a current kernel with the systemd
# driver. Neither its memory nor its OCI runtime is known.
TYPICAL_NODE = model.NodeFacts(
    driver=Driver.SYSTEMD.value,
    files=ALLOWABLE - {"io.bfq.weight"},
    kernel=(6, 1),
    runtime="containerd",
    writable=True,
)
# The same with cgroup v1, whose upstream kernels have one file that handlers set.
TYPICAL_V1_NODE = TYPICAL_NODE._replace(
    cgroup_version=1, files=frozenset({"cpu.cfs_burst_us"})
)
# The kubelet that is assumed where the user names none: one with default settings.
DEFAULT_KUBELET = KubeletCapacitySettings()

REQUEST_NOTE = (
    "the memory request is the manifest's, as in kubelet's checkpoint; a node that "
    "cannot read that estimates it from oom_score_adj and its memory, as "
    "kubeletCheckpoint: {enabled: false} and --node-memory show"
)
ESTIMATE_NOTE = (
    "the memory request is estimated from oom_score_adj, as on a node that cannot read "
    "kubelet's checkpoint, or for an init container, which that does not have"
)
# The handlers that need a memory request.
_USE_MEMORY_REQUEST = frozenset({"memoryQoS", "memoryQoSLevel"})


def explain_pod(
    pod: ManifestPod,
    config: EngineConfig = DEFAULT_CONFIG,
    facts: model.NodeFacts = TYPICAL_NODE,
    groups: Sequence[GroupObject] = (),
    *,
    kubelet: KubeletCapacitySettings = DEFAULT_KUBELET,
    checkpoint: bool = False,
) -> ExplainedPod:
    """Explain a pod and all of its containers; the pod's PodGroup may be in `groups`.

    `kubelet` is how the node's kubelet is configured; `checkpoint` is whether memory
    requests can be read in its checkpoint.

    Raises:
        ConfigError: a number has no valid cgroup v2 value, or the UID no valid path.
        HandlerFailed: a handler could not do its work, and is configured to fail.
    """
    qos = qos_class(pod.spec)
    components = pod_components(qos, pod.uid)
    subject = model.Pod(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace or "",
        labels=pod.labels,
        annotations=pod.annotations,
        qos_class=qos.value,
        # The name of a RuntimeClass is usually that of the handler, which is all that
        # the doors know.
        oci_runtime=oci_runtime_of(pod.spec.runtime_class),
    )
    values = pod_values(pod.spec, qos, kubelet)
    explained = [
        _explain_container(
            *(container, pod.spec, qos, subject, config, facts, kubelet),
            # kubelet keeps no record of what ends before the pod's work begins.
            allocated=checkpoint and container.role is not Role.INIT,
        )
        for container in (*pod.spec.containers, *pod.spec.ephemeral)
    ]
    return ExplainedPod(
        kind=pod.kind,
        name=pod.name,
        namespace=pod.namespace,
        uid=pod.uid,
        qos_class=qos.value,
        curve=(config.curve or facts.curve).value,
        curve_evidence="chosen" if config.curve else f"auto: {facts.curve_evidence}",
        cgroups={driver.value: cgroup_path(components, driver) for driver in Driver},
        containers=tuple(container for container, _ in explained),
        path=pod.path,
        replicas=pod.replicas,
        added_annotations=dict(pod.added),
        task=_task_of(pod),
        pod_group=_group_of(pod, groups),
        pod_v1=values.v1(),
        pod_v2=values.v2(through_systemd=facts.driver == Driver.SYSTEMD.value),
        warnings=warnings_about_pod(
            pod, {container.name: settings for container, settings in explained}
        ),
    )


def _task_of(pod: ManifestPod) -> dict[str, object] | None:
    """Return what the scheduler makes of a pod; None if the pod belongs to no job."""
    task = task_of_manifest(pod)
    if not task.job:
        return None
    return {
        "job": task.job,
        "name": task.member.task,
        "index": task.member.task_index,
        "queue": task.member.queue,
        "priority": task.priority,
        "best_effort": task.best_effort,
        "preemptable": task.keys.preemptable,
        "revocable_zone": task.keys.revocable_zone,
    }


def _group_of(
    pod: ManifestPod, groups: Sequence[GroupObject]
) -> dict[str, object] | None:
    name = membership(pod.namespace or "", pod.labels, pod.annotations).group
    for group in groups:
        if name and (group.namespace, group.name) == (pod.namespace, name):
            return group._asdict()
    return None


def explain_pods(
    pods: Iterable[ManifestPod],
    source: str,
    config: EngineConfig = DEFAULT_CONFIG,
    facts: model.NodeFacts = TYPICAL_NODE,
    groups: Sequence[GroupObject] = (),
    *,
    kubelet: KubeletCapacitySettings = DEFAULT_KUBELET,
    checkpoint: bool = False,
) -> list[ExplainedPod]:
    """Explain the pods of a manifest; `source` names it in errors.

    Raises:
        ConfigError: as `explain_pod`, or a handler is configured to fail.
    """
    explained = []
    for pod in pods:
        try:
            explained.append(
                explain_pod(
                    *(pod, config, facts, groups),
                    kubelet=kubelet,
                    checkpoint=checkpoint,
                )
            )
        except (ConfigError, HandlerFailed) as exc:
            raise ConfigError(f"{source}: {pod.kind} {pod.name}: {exc}") from exc
    return explained


def _explain_container(
    container: ContainerSpec,
    spec: PodSpec,
    qos: QOSClass,
    subject: model.Pod,
    config: EngineConfig,
    facts: model.NodeFacts,
    kubelet: KubeletCapacitySettings,
    *,
    allocated: bool,
) -> tuple[ExplainedContainer, Settings]:
    """Explain a container, and return the settings that its values follow from.

    `allocated` is whether kubelet's checkpoint has the container's memory request.
    """
    sent = sent_for(container, spec, kubelet)
    memory = _memory_request(container)
    capacity = facts.memory_capacity_bytes
    scored = _scored_request(container, spec)
    # CRI, and so containerd, reads zero as "not given".
    resources = Resources(
        shares=sent.shares,
        quota_us=sent.quota_us or None,
        period_us=sent.period_us,
        memory_limit_bytes=sent.memory_limit_bytes or None,
        unified=_files_of_kubelet(container, spec, qos, facts, kubelet),
    )
    decision = decide(
        subject,
        model.Container(
            name=container.name,
            resources=resources,
            oom_score_adj=oom_score_adj(qos, scored, capacity) if capacity else None,
            memory_request_bytes=None if capacity or allocated else memory,
            allocated_request_bytes=memory if allocated else None,
        ),
        facts,
        config,
    )
    for refusal in decision.refused:
        if (refusal.handler, refusal.reason) == (RESOURCES, Reason.CONVERSION):
            raise ConfigError(f"container {container.name}: {refusal.text}")
    explained = _explained(
        *(container, sent, resources, decision),
        native=convert(resources, facts.curve).files,
        notes=_notes(decision, qos, exact=allocated or not capacity),
    )
    return explained, decision.settings


def _files_of_kubelet(
    container: ContainerSpec,
    spec: PodSpec,
    qos: QOSClass,
    facts: model.NodeFacts,
    kubelet: KubeletCapacitySettings,
) -> Mapping[str, str]:
    """Return what kubelet's own MemoryQoS sets, which the engine takes as explicit."""
    if facts.cgroup_version != 2:
        return {}
    requests = default_requests(container.requests, container.limits)
    available = facts.memory_allocatable_bytes or 0
    return explicit_values(
        container_files(requests, container.limits, spec, qos, kubelet, available)
    )


def _explained(
    container: ContainerSpec,
    sent: Sent,
    resources: Resources,
    decision: Decision,
    native: Mapping[str, str],
    notes: tuple[str, ...],
) -> ExplainedContainer:
    """Return a container's report; `native` is what the runtime alone would write."""
    requests = default_requests(container.requests, container.limits)
    # By the names that the rules of the conversion use.
    numbers = {
        "cpu.shares": sent.shares,
        "cpu.quota": sent.quota_us,
        "cpu.period": sent.period_us,
        "memory.limit": sent.memory_limit_bytes,
    }
    conversion = decision.conversion
    return ExplainedContainer(
        name=container.name,
        role=container.role.value,
        requests=requests,
        defaulted=tuple(name for name in requests if name not in container.requests),
        limits=dict(container.limits),
        sent={field: number for field, number in numbers.items() if number},
        sent_files=dict(resources.unified),
        settings=decision.settings.rule,
        shadow=decision.settings.shadow,
        files=_files(decision, native),
        writes=_writes(decision),
        cleared=decision.cleared,
        left=tuple(left._asdict() for left in decision.left),
        refused=tuple(
            {"handler": one.handler, "reason": one.reason.value, "text": one.text}
            for one in decision.refused
        ),
        dropped=tuple(one._asdict() for one in conversion.dropped)
        if conversion
        else (),
        clamped=tuple(one._asdict() for one in conversion.clamped)
        if conversion
        else (),
        notes=notes,
    )


def _memory_request(container: ContainerSpec) -> int:
    requests = default_requests(container.requests, container.limits)
    return value(requests.get("memory", 0))


def _scored_request(container: ContainerSpec, spec: PodSpec) -> int:
    """Return the memory request that kubelet's OOM score is computed from.

    For a sidecar it is at least the smallest request of the pod's main containers, so
    that the sidecar is not killed before them.
    """
    own = _memory_request(container)
    if container.role is not Role.SIDECAR:
        return own
    apps = [_memory_request(one) for one in spec.containers if one.role is Role.APP]
    return max(own, min(apps))


def _notes(decision: Decision, qos: QOSClass, *, exact: bool) -> tuple[str, ...]:
    """Return the note about where a live node has the memory request from.

    It concerns Burstable pods alone: in the other classes, the class determines the
    request.
    """
    if qos is not QOSClass.BURSTABLE or _USE_MEMORY_REQUEST.isdisjoint(
        decision.settings.active
    ):
        return ()
    if any(decision.why(file).confidence == STATED for file in decision.files):
        return ()
    return (REQUEST_NOTE if exact else ESTIMATE_NOTE,)


def _files(decision: Decision, native: Mapping[str, str]) -> tuple[ExplainedFile, ...]:
    """Return the files, with those of the conversion first.

    `native` is what the runtime would write without nriplugin.
    """
    files = []
    for file, content in decision.files.items():
        why = decision.why(file)
        files.append(
            ExplainedFile(
                file=file,
                value=content,
                native=native.get(file),
                rule=why.rule.text,
                fields=why.rule.fields,
                handler=why.handler,
                source=why.source,
                confidence=why.confidence,
            )
        )
    return tuple(sorted(files, key=lambda one: one.handler != RESOURCES))


def _writes(decision: Decision) -> tuple[ExplainedWrite, ...]:
    return tuple(
        ExplainedWrite(
            file=write.file,
            value=write.value,
            level=write.level.value,
            when=write.when.value,
            rule=write.why.rule.text,
            handler=write.why.handler,
            source=write.why.source,
            confidence=write.why.confidence,
        )
        for write in decision.writes
    )
