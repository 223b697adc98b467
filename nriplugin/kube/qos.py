"""The QoS class of a pod, by the rules of Kubernetes' ComputePodQOS.

Only amounts of cpu and memory above zero count. If the pod has resources of its own,
they decide alone; else those of all its containers do, init containers and sidecars
included. `qos_of_cgroup` reads the class from the name of the pod's cgroup instead.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from nriplugin.cgroup_names import parse_kubepods
from nriplugin.kube.amounts import default_requests
from nriplugin.kube.podlevel import default_pod_requests
from nriplugin.kube.quantity import milli

if TYPE_CHECKING:
    from nriplugin.kube.amounts import Amounts
    from nriplugin.kube.podspec import PodSpec

COUNTED = ("cpu", "memory")


class QOSClass(StrEnum):
    """A pod's class: it decides which cgroup it is in and how late it is evicted."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


def qos_class(spec: PodSpec) -> QOSClass:
    """Return the class that the API server puts into `status.qosClass`."""
    if spec.resources is not None:
        parts = [
            (
                default_pod_requests(spec.resources, spec.containers),
                spec.resources.limits,
            )
        ]
    else:
        parts = [
            (default_requests(container.requests, container.limits), container.limits)
            for container in spec.containers
        ]
    requested = _sum([requests for requests, _ in parts])
    limited = _sum([limits for _, limits in parts])
    if not requested and not limited:
        return QOSClass.BEST_EFFORT
    all_limited = all(len(_sum([limits])) == len(COUNTED) for _, limits in parts)
    # Sums are compared, but a request is never above its limit, so equal sums are
    # equal amounts.
    if all_limited and requested == limited:
        return QOSClass.GUARANTEED
    return QOSClass.BURSTABLE


def _sum(many: list[Amounts]) -> dict[str, int]:
    """Return totals in thousandths, which is what the API server rounds to."""
    totals = {
        name: sum(milli(amounts[name]) for amounts in many if name in amounts)
        for name in COUNTED
    }
    return {name: total for name, total in totals.items() if total}


_BY_NAME = {str(qos): qos for qos in QOSClass}


def qos_of_cgroup(cgroup_parent: str) -> QOSClass | None:
    """Return the class of a pod by its cgroup, a path or the name of a slice.

    None if the cgroup is not that of a pod: one of a QoS class, or of a container.
    """
    parts = parse_kubepods(cgroup_parent)
    if parts is None or parts.pod_uid is None or parts.below:
        return None
    return None if parts.qos_class is None else _BY_NAME[parts.qos_class]
