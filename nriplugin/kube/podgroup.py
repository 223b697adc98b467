"""Which PodGroup, job, queue and task a pod belongs to, by Volcano's keys. Pure.

The scheduler names a job `<namespace>/<group>`. The keys are in annotations, and some
of them in labels as well; Kubeflow and other operators set only the key of the group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUP_KEYS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
JOB_KEYS = ("volcano.sh/job-name",)
QUEUE_KEYS = ("volcano.sh/queue-name", "scheduling.volcano.sh/queue-name")
TASK_KEYS = ("volcano.sh/task-spec",)
INDEX_KEYS = ("volcano.sh/task-index",)
VERSION_KEYS = ("volcano.sh/job-version",)
TEMPLATE_KEYS = ("volcano.sh/template-uid",)
PRIORITY_KEYS = ("volcano.sh/task-priority",)
PREEMPTABLE_KEY = "volcano.sh/preemptable"
REVOCABLE_ZONE_KEY = "volcano.sh/revocable-zone"
NUMA_POLICY_KEYS = ("volcano.sh/numa-topology-policy",)

# The longest name of an object in Kubernetes. A longer text is taken for none: anyone
# who may create a pod can write one of 256 KiB.
MAX_NAME = 253

# What Go's strconv.ParseBool takes for true, by which Volcano reads the key.
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_EVERY_ZONE = "*"  # the only revocable zone that the scheduler takes


class Membership(NamedTuple):
    """What a pod belongs to; an empty text is "none"."""

    group: str
    job: str
    queue: str
    task: str
    task_index: str
    job_id: str  # the scheduler's name of the job, NAMESPACE/GROUP


class TaskKeys(NamedTuple):
    """What else Volcano's keys say about a pod; an empty text is "none"."""

    version: str = ""  # of the job
    template: str = ""  # of the pod, JOB-TASK
    priority: str = ""
    preemptable: bool = False
    revocable_zone: str = ""  # `*`, or none
    numa_policy: str = ""


NO_KEYS = TaskKeys()


def membership(
    namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Membership:
    """Return what the pod's keys say; annotations win over labels."""
    group = _first(GROUP_KEYS, labels, annotations)
    return Membership(
        group=group,
        job=_first(JOB_KEYS, labels, annotations),
        queue=_first(QUEUE_KEYS, labels, annotations),
        task=_first(TASK_KEYS, labels, annotations),
        task_index=_first(INDEX_KEYS, labels, annotations),
        job_id=f"{namespace}/{group}" if group else "",
    )


def task_keys(labels: Mapping[str, str], annotations: Mapping[str, str]) -> TaskKeys:
    """Return what else the pod's keys say; annotations win over labels."""
    return TaskKeys(
        version=_first(VERSION_KEYS, labels, annotations),
        template=_first(TEMPLATE_KEYS, labels, annotations),
        priority=_first(PRIORITY_KEYS, labels, annotations),
        preemptable=is_preemptable(labels, annotations),
        revocable_zone=_revocable_zone(annotations),
        numa_policy=_first(NUMA_POLICY_KEYS, labels, annotations),
    )


def is_preemptable(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Say whether the scheduler may preempt a pod: by its annotation, else its label.

    A value that is neither true nor false is false.
    """
    value = annotations.get(PREEMPTABLE_KEY)
    if value is None:
        value = labels.get(PREEMPTABLE_KEY)
    return value in _TRUE


def _revocable_zone(annotations: Mapping[str, str]) -> str:
    """Return the zone; a preemptable pod that names none may be in every zone."""
    zone = annotations.get(REVOCABLE_ZONE_KEY)
    if zone is None:
        return _EVERY_ZONE if annotations.get(PREEMPTABLE_KEY) in _TRUE else ""
    return _EVERY_ZONE if zone == _EVERY_ZONE else ""


def _first(
    keys: tuple[str, ...], labels: Mapping[str, str], annotations: Mapping[str, str]
) -> str:
    for given in (annotations, labels):
        for key in keys:
            value = given.get(key)
            if value and len(value) <= MAX_NAME:
                return value
    return ""
