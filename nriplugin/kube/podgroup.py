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


class Membership(NamedTuple):
    """What a pod belongs to; an empty text is "none"."""

    group: str
    job: str
    queue: str
    task: str
    task_index: str
    job_id: str  # the scheduler's name of the job, NAMESPACE/GROUP


def membership(
    namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Membership:
    """Return what the pod's keys say; annotations win over labels."""

    def first(keys: tuple[str, ...]) -> str:
        for given in (annotations, labels):
            for key in keys:
                value = given.get(key)
                if value:
                    return value
        return ""

    group = first(GROUP_KEYS)
    return Membership(
        group=group,
        job=first(JOB_KEYS),
        queue=first(QUEUE_KEYS),
        task=first(TASK_KEYS),
        task_index=first(INDEX_KEYS),
        job_id=f"{namespace}/{group}" if group else "",
    )
