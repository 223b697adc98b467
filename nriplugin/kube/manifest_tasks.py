"""The tasks that pods of manifests are. Pure.

Apart from jobs.py because a daemon, which knows no manifests, has no use for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.kube.jobs import Demand, TaskInfo, TaskStatus, priority_of
from nriplugin.kube.pod_sums import pod_limits, pod_requests
from nriplugin.kube.podgroup import membership, task_keys

if TYPE_CHECKING:
    from nriplugin.kube.manifests import ManifestPod

# By `status.phase` of a Pod object.
_BY_POD_PHASE = {
    "Running": TaskStatus.RUNNING,
    "Succeeded": TaskStatus.SUCCEEDED,
    "Failed": TaskStatus.FAILED,
}


def task_of_manifest(pod: ManifestPod) -> TaskInfo:
    """Return the task that a pod of a manifest is."""
    member = membership(pod.namespace or "", pod.labels, pod.annotations)
    keys = task_keys(pod.labels, pod.annotations)
    return TaskInfo(
        uid=pod.uid,
        job=member.job_id,
        name=pod.name,
        namespace=pod.namespace or "",
        member=member,
        keys=keys,
        priority=priority_of(keys, pod.priority),
        demand=Demand(pod_requests(pod.spec), pod_limits(pod.spec)),
        status=_BY_POD_PHASE.get(pod.phase, TaskStatus.PENDING),
    )
