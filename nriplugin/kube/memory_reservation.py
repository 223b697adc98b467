"""What the kubelet's own MemoryQoS (1.37) writes, level by level. Pure.

With the policy TieredReservation a request is protected: in Guaranteed pods by
memory.min, which the kernel never reclaims, in Burstable ones by memory.low, which it
reclaims last. With a memoryThrottlingFactor, memory.high is set between request and
limit. Numbers are floating-point ones where the kubelet's are, so that they are
rounded alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nriplugin.kube.pod_sums import limits_all, memory_bytes, pod_limits, pod_requests
from nriplugin.kube.qos import QOSClass
from nriplugin.kube.quantity import value

if TYPE_CHECKING:
    from nriplugin.kube.amounts import Amounts
    from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
    from nriplugin.kube.podspec import PodSpec

TIERED = "TieredReservation"
LIMITED_SWAP = "LimitedSwap"
PAGE_BYTES = 4096
NO_PROTECTION = {"memory.min": "0", "memory.low": "0"}


def is_tiered(settings: KubeletCapacitySettings) -> bool:
    """Say whether the kubelet protects requests."""
    return settings.memory_qos and settings.memory_reservation_policy == TIERED


def memory_high(request: int, limit: int, factor: float) -> int | None:
    """Return memory.high between a request and a limit, on a page.

    None where the kubelet sets none: there is no limit, the request equals it, or the
    result is not above the request.
    """
    if limit == 0 or request == limit:
        return None
    bytes_ = math.floor(float(request) + (float(limit) - float(request)) * factor)
    high = int(bytes_ / PAGE_BYTES) * PAGE_BYTES
    return high if high > request else None


def limited_swap(request: int, memory_capacity: int, swap_capacity: int) -> int:
    """Return memory.swap.max by LimitedSwap: the request's share of the node's swap.

    It is 0 for a request that is larger than the node.
    """
    if memory_capacity <= 0 or request > memory_capacity:
        return 0
    return int(float(request) / float(memory_capacity) * float(swap_capacity))


def kubepods_files(
    settings: KubeletCapacitySettings, guaranteed: int, burstable: int
) -> dict[str, str]:
    """Return the files of the cgroup of all pods, by the requests of both classes."""
    if not is_tiered(settings):
        return dict(NO_PROTECTION)
    # What is below a cgroup is protected only as far as the cgroup itself is.
    return {"memory.min": str(guaranteed + burstable), "memory.low": str(burstable)}


def burstable_files(
    settings: KubeletCapacitySettings, burstable: int
) -> dict[str, str]:
    """Return the files of the cgroup of all Burstable pods."""
    return {"memory.low": str(burstable if is_tiered(settings) else 0)}


def pod_files(
    spec: PodSpec, qos: QOSClass, settings: KubeletCapacitySettings
) -> dict[str, str]:
    """Return the files of a pod's cgroup."""
    files: dict[str, str] = {}
    request = memory_bytes(pod_requests(spec))
    if is_tiered(settings) and request:
        files[_protection(qos)] = str(request)
    factor = settings.memory_throttling_factor
    if not settings.memory_qos or factor is None or not spec.has_own_resources:
        return files
    if limits_all(spec, "memory"):
        high = memory_high(request, memory_bytes(pod_limits(spec)), factor)
        if high is not None:
            files["memory.high"] = str(high)
    return files


def container_files(
    requests: Amounts,
    limits: Amounts,
    spec: PodSpec,
    qos: QOSClass,
    settings: KubeletCapacitySettings,
    available_bytes: int,
) -> dict[str, str]:
    """Return the files that the kubelet sends for a container.

    A container without a limit is throttled by what is available to all pods, unless
    its pod has a limit.
    """
    if not settings.memory_qos:
        return {"memory.high": "max"}
    request = value(requests.get("memory", 0))
    limit = value(limits.get("memory", 0))
    protected = is_tiered(settings) and request
    files = {_protection(qos): str(request)} if protected else dict(NO_PROTECTION)
    factor = settings.memory_throttling_factor
    if factor is None or (request == limit and request):
        return files
    if not limit:
        own = spec.resources
        if own is not None and value(own.limits.get("memory", 0)):
            return files
        limit = available_bytes
    high = memory_high(request, limit, factor)
    if high is not None:
        files["memory.high"] = str(high)
    return files


def _protection(qos: QOSClass) -> str:
    return "memory.min" if qos is QOSClass.GUARANTEED else "memory.low"
