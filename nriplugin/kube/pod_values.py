"""The numbers of a pod's cgroup and of the cgroups of its containers. Pure.

The kubelet writes the pod's (ResourceConfigForPod in pkg/kubelet/cm/helpers_linux.go)
and sends the containers' to the runtime (kuberuntime_container_linux.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.curves import MIN_SHARES
from nriplugin.kube.amounts import default_requests
from nriplugin.kube.cgroup_values import CgroupValues
from nriplugin.kube.kubelet import milli_cpu_to_quota, milli_cpu_to_shares
from nriplugin.kube.memory_reservation import (
    LIMITED_SWAP,
    container_files,
    limited_swap,
    pod_files,
)
from nriplugin.kube.pod_sums import (
    limits_all,
    memory_bytes,
    milli_cpu,
    pod_limits,
    pod_requests,
)
from nriplugin.kube.qos import QOSClass
from nriplugin.kube.quantity import milli, value
from nriplugin.kube.sent import sent_for

if TYPE_CHECKING:
    from nriplugin.kube.amounts import Amounts
    from nriplugin.kube.capacity import NodeCapacity
    from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
    from nriplugin.kube.podspec import ContainerSpec, PodSpec


class ContainerValues(NamedTuple):
    """A container's numbers, and its requests and limits as (milli-CPU, bytes)."""

    requests: tuple[int, int]
    limits: tuple[int, int]
    values: CgroupValues


def pod_values(
    spec: PodSpec, qos: QOSClass, settings: KubeletCapacitySettings
) -> CgroupValues:
    """Return the numbers of a pod's cgroup.

    There is a quota only if nothing in the pod is without a CPU limit, and a memory
    limit only if nothing is without one.
    """
    pids = settings.pod_pids_limit if settings.pod_pids_limit > 0 else None
    unified = pod_files(spec, qos, settings)
    if qos is QOSClass.BEST_EFFORT:
        return CgroupValues(shares=MIN_SHARES, pids_limit=pids, unified=unified)
    limits = pod_limits(spec)
    period = settings.cpu_cfs_quota_period_us
    quota = -1
    if settings.cpu_cfs_quota:
        quota = milli_cpu_to_quota(milli_cpu(limits), period)
    all_cpu, all_memory = limits_all(spec, "cpu"), limits_all(spec, "memory")
    return CgroupValues(
        shares=milli_cpu_to_shares(milli_cpu(pod_requests(spec))),
        quota_us=quota if all_cpu else None,
        period_us=period if all_cpu else None,
        memory_limit_bytes=memory_bytes(limits) if all_memory else None,
        pids_limit=pids,
        unified=unified,
    )


def container_values(
    container: ContainerSpec,
    spec: PodSpec,
    qos: QOSClass,
    settings: KubeletCapacitySettings,
    node: NodeCapacity,
    swap_bytes: int | None,
) -> ContainerValues:
    """Return the numbers that the kubelet sends for a container."""
    sent = sent_for(container, spec, settings)
    requests = default_requests(container.requests, container.limits)
    available = node.available_to_pods.get("memory", 0)
    unified = container_files(
        requests, container.limits, spec, qos, settings, available
    )
    if swap_bytes is not None:
        memory = node.capacity.get("memory", 0)
        swap = 0
        if _may_swap(requests, container.limits, qos, settings):
            swap = limited_swap(value(requests.get("memory", 0)), memory, swap_bytes)
        unified["memory.swap.max"] = str(swap)
    return ContainerValues(
        _cpu_and_memory(requests),
        _cpu_and_memory(container.limits),
        CgroupValues(
            shares=sent.shares,
            quota_us=sent.quota_us or None,
            period_us=sent.period_us if sent.quota_us else None,
            memory_limit_bytes=sent.memory_limit_bytes or None,
            unified=unified,
        ),
    )


def _may_swap(
    requests: Amounts,
    limits: Amounts,
    qos: QOSClass,
    settings: KubeletCapacitySettings,
) -> bool:
    """Say whether a container gets a share of the node's swap."""
    if settings.swap_behavior != LIMITED_SWAP or qos is not QOSClass.BURSTABLE:
        return False
    request, limit = milli(requests.get("memory", 0)), milli(limits.get("memory", 0))
    return request != limit


def _cpu_and_memory(amounts: Amounts) -> tuple[int, int]:
    return milli(amounts.get("cpu", 0)), value(amounts.get("memory", 0))
