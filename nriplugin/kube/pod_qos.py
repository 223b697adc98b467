"""The QoS class of a pod from its spec, by the rules of Kubernetes' ComputePodQOS.

Only amounts of cpu and memory above zero count. If the pod has resources of its own,
they decide alone; else those of all its containers do, init containers and sidecars
included. Separate from `qos`, because only `explain` has a spec: a running container's
class is read from its cgroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.kube.amounts import default_requests
from nriplugin.kube.podlevel import default_pod_requests
from nriplugin.kube.qos import QOSClass
from nriplugin.kube.quantity import milli

if TYPE_CHECKING:
    from nriplugin.kube.amounts import Amounts
    from nriplugin.kube.podspec import PodSpec

COUNTED = ("cpu", "memory")


def qos_class(spec: PodSpec) -> QOSClass:
    """Return the class that the API server puts into `status.qosClass`."""
    if spec.resources is not None and spec.has_own_resources:
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
    # Comparing the sums is enough: no request is above its limit, so equal sums mean
    # that every request equals its limit.
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
