"""The report about a pod and its containers: strings, numbers, tuples, dictionaries.

`explain.py` fills it in. It is ready for JSON: `-o json` prints it, and the control
API's Explain answers it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from nriplugin import DOCUMENT_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.kube.podgroup_object import GroupObject
    from nriplugin.kube.quantity import Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedFile:
    """A cgroup v2 file, the rule that gave it its value, and from which fields."""

    file: str
    value: str
    native: str | None  # what the runtime would write without nriplugin
    rule: str
    fields: tuple[str, ...]
    handler: str
    source: str
    confidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedWrite:
    """A file that nriplugin writes itself, in which cgroup, and when."""

    file: str
    value: str
    level: str
    when: str
    rule: str
    handler: str
    source: str
    confidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedContainer:
    """A container; `defaulted` names the requests that were taken from limits."""

    name: str
    role: str
    requests: dict[str, Quantity]
    defaulted: tuple[str, ...]
    limits: dict[str, Quantity]
    sent: dict[str, int]
    sent_files: dict[str, str]  # what kubelet's own MemoryQoS sets
    settings: str
    shadow: bool  # whether the values are only shown, and not set
    files: tuple[ExplainedFile, ...]
    writes: tuple[ExplainedWrite, ...]
    cleared: tuple[str, ...]
    left: tuple[dict[str, str], ...]
    refused: tuple[dict[str, str], ...]
    dropped: tuple[dict[str, object], ...]
    clamped: tuple[dict[str, object], ...]
    notes: tuple[str, ...]  # where a node's decision may differ from this one


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPod:
    """A pod; `cgroups` has the path of its cgroup for each cgroup driver.

    `path` is where in the object the pod's template is. `pod_v1` and `pod_v2` are what
    the kubelet writes to the cgroup of the pod.
    """

    kind: str
    name: str
    namespace: str | None
    uid: str
    qos_class: str
    curve: str
    curve_evidence: str
    cgroups: dict[str, str]
    containers: tuple[ExplainedContainer, ...]
    path: str
    replicas: int | None
    added_annotations: dict[str, str]  # those that a controller adds
    task: dict[str, object] | None  # what Volcano's scheduler makes of the pod
    pod_group: dict[str, object] | None
    pod_v1: dict[str, str]
    pod_v2: dict[str, str]
    warnings: tuple[str, ...]  # what in the manifest is not what it seems


def explained_document(
    pods: Iterable[ExplainedPod],
    groups: Iterable[GroupObject] = (),
    skipped: Iterable[str] = (),
) -> dict[str, object]:
    """Return what `-o json` prints, and the control API's Explain answers."""
    return {
        "apiVersion": DOCUMENT_VERSION,
        "kind": "Explanation",
        "pods": [asdict(pod) for pod in pods],
        "podGroups": [group._asdict() for group in groups],
        "skipped": list(skipped),
    }
