"""From a pod to everything that follows from its resources, step by step.

What Kubernetes makes of them (kube/), the cgroup v2 files that become of that
(convert/), and where those files are (cgroup/). Every value is made of plain strings,
numbers and dictionaries, ready for JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.cgroup.paths import Driver, cgroup_path, pod_components
from nriplugin.convert import Resources, convert
from nriplugin.errors import ConfigError, ConversionError
from nriplugin.kube.amounts import default_requests
from nriplugin.kube.qos import qos_class
from nriplugin.kube.sent import sent_for

if TYPE_CHECKING:
    from nriplugin.convert import Curve
    from nriplugin.kube.manifests import Pod
    from nriplugin.kube.podspec import Container, PodSpec
    from nriplugin.kube.quantity import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFile:
    """A cgroup v2 file, the rule that gave it its value, and from which fields."""

    file: str
    value: str
    rule: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedContainer:
    """A container; `defaulted` names the requests that were taken from limits."""

    name: str
    role: str
    requests: dict[str, Quantity]
    defaulted: tuple[str, ...]
    limits: dict[str, Quantity]
    sent: dict[str, int]
    files: tuple[ExplainedFile, ...]
    dropped: tuple[dict[str, object], ...]
    clamped: tuple[dict[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPod:
    """A pod; `cgroups` has its path for each cgroup driver."""

    kind: str
    name: str
    namespace: str | None
    uid: str
    qos_class: str
    curve: str
    cgroups: dict[str, str]
    containers: tuple[ExplainedContainer, ...]


def explain_pod(pod: Pod, curve: Curve) -> ExplainedPod:
    """Explain a pod and all of its containers.

    Raises:
        ConfigError: a value that no file can hold, or a UID that no cgroup can.
    """
    qos = qos_class(pod.spec)
    components = pod_components(qos, pod.uid)
    return ExplainedPod(
        kind=pod.kind,
        name=pod.name,
        namespace=pod.namespace,
        uid=pod.uid,
        qos_class=qos.value,
        curve=curve.value,
        cgroups={driver.value: cgroup_path(components, driver) for driver in Driver},
        containers=tuple(
            _explain_container(container, pod.spec, curve)
            for container in pod.spec.containers
        ),
    )


def _explain_container(
    container: Container, spec: PodSpec, curve: Curve
) -> ExplainedContainer:
    sent = sent_for(container, spec)
    # To CRI, and so to containerd, zero is "not given".
    resources = Resources(
        shares=sent.shares,
        quota_us=sent.quota_us or None,
        period_us=sent.period_us,
        memory_limit_bytes=sent.memory_limit_bytes or None,
    )
    try:
        conversion = convert(resources, curve)
    except ConversionError as exc:
        raise ConfigError(f"container {container.name}: {exc}") from exc
    # In the words of the rules' fields.
    numbers = {
        "cpu.shares": sent.shares,
        "cpu.quota": sent.quota_us,
        "cpu.period": sent.period_us,
        "memory.limit": sent.memory_limit_bytes,
    }
    requests = default_requests(container.requests, container.limits)
    return ExplainedContainer(
        name=container.name,
        role=container.role.value,
        requests=requests,
        defaulted=tuple(name for name in requests if name not in container.requests),
        limits=dict(container.limits),
        sent={field: number for field, number in numbers.items() if number},
        files=tuple(
            ExplainedFile(file=file, value=value, rule=rule.text, fields=rule.fields)
            for file, value, rule in conversion.derived
        ),
        dropped=tuple(dropped._asdict() for dropped in conversion.dropped),
        clamped=tuple(clamped._asdict() for clamped in conversion.clamped),
    )
