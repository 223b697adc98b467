"""The QoS class of a pod, by the rules of Kubernetes' ComputePodQOS.

Only cpu and memory count, and only above zero. Pod-level resources, where there are
any, decide alone; else all containers do, init containers and sidecars included.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from nriplugin.kube.amounts import default_requests
from nriplugin.kube.podlevel import default_pod_requests
from nriplugin.kube.quantity import milli

if TYPE_CHECKING:
    from nriplugin.kube.amounts import Amounts
    from nriplugin.kube.podspec import PodSpec

COUNTED = ("cpu", "memory")


class QOSClass(StrEnum):
    """Who is throttled and evicted last, and in whose cgroup a pod lives."""

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


_BY_DIRECTORY = {
    "burstable": QOSClass.BURSTABLE,
    "besteffort": QOSClass.BEST_EFFORT,
    "kubepods": QOSClass.GUARANTEED,
}


def qos_of_cgroup(cgroup_parent: str) -> QOSClass | None:
    """Return the class of a pod by its cgroup, as a path or the name of a slice."""
    leaf = cgroup_parent.rstrip("/").rpartition("/")[2]
    if leaf.endswith(".slice"):
        components = leaf.removesuffix(".slice").split("-")
    else:
        components = cgroup_parent.rstrip("/").split("/")
    if len(components) < 2 or not components[-1].startswith("pod"):
        return None
    return _BY_DIRECTORY.get(components[-2])
