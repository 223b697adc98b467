"""A pod's requests and limits, by which the kubelet sizes the pod's cgroup. Pure.

They are the sums over its containers, replaced by the pod's own resources where it has
any, and the overhead of its runtime class on top (PodRequests and PodLimits in
k8s.io/component-helpers/resource). Sums are in thousandths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.kube.amounts import default_requests
from nriplugin.kube.container_sums import sum_containers
from nriplugin.kube.podlevel import default_pod_requests
from nriplugin.kube.podspec import is_pod_level
from nriplugin.kube.quantity import milli

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.kube.podspec import PodSpec


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """Return what a pod requests, its overhead included."""
    totals = sum_containers(
        spec.containers, lambda one: default_requests(one.requests, one.limits)
    )
    if spec.resources is not None:
        own = default_pod_requests(spec.resources, spec.containers)
        totals |= {name: milli(own[name]) for name in own if is_pod_level(name)}
    for name, amount in spec.overhead.items():
        totals[name] = totals.get(name, 0) + milli(amount)
    return totals


def pod_limits(spec: PodSpec) -> dict[str, int]:
    """Return a pod's limits; overhead is added to a limit only where there is one."""
    totals = sum_containers(spec.containers, lambda one: one.limits)
    if spec.resources is not None:
        own = spec.resources.limits
        totals |= {name: milli(own[name]) for name in own if is_pod_level(name)}
    for name, amount in spec.overhead.items():
        if totals.get(name):
            totals[name] += milli(amount)
    return totals


def limits_all(spec: PodSpec, name: str) -> bool:
    """Say whether nothing in a pod is without a limit of a resource.

    That is so if the pod has a limit of its own, or each of its containers has one.
    """
    if spec.resources is not None and milli(spec.resources.limits.get(name, 0)):
        return True
    return all(milli(one.limits.get(name, 0)) for one in spec.containers)


def milli_cpu(totals: Mapping[str, int]) -> int:
    """Return the sum of CPU in thousandths."""
    return totals.get("cpu", 0)


def memory_bytes(totals: Mapping[str, int]) -> int:
    """Return the sum of memory in bytes, rounded up."""
    return -(-totals.get("memory", 0) // 1000)
