"""What a container requests and is limited to, by the numbers that kubelet sent. Pure.

A container runtime is not told requests and limits, but they can be concluded from
shares, quota and memory limit. The memory request is the exception: see `memory`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.curves import MIN_SHARES
from nriplugin.convert.validate import DEFAULT_PERIOD_US
from nriplugin.kube.jobs import Demand
from nriplugin.kube.kubelet import MILLI_PER_CPU, SHARES_PER_CPU
from nriplugin.kube.oomscore import request_range
from nriplugin.kube.qos import QOSClass

if TYPE_CHECKING:
    from nriplugin.convert import Resources

_MILLI = 1000  # amounts are in thousandths, also those of memory


def shares_to_milli_cpu(shares: int) -> int:
    """Return the CPU request that kubelet made shares of; it is the only one.

    The least shares stand for no request, and for the requests of 1m and 2m, too.
    """
    if shares <= MIN_SHARES:
        return 0
    return -(-shares * MILLI_PER_CPU // SHARES_PER_CPU)


def quota_to_milli_cpu(quota_us: int, period_us: int) -> int:
    """Return the CPU limit that kubelet made a quota of."""
    return -(-quota_us * MILLI_PER_CPU // period_us)


def memory_request(
    qos_class: str | None,
    limit: int | None,
    allocated: int | None,
    oom_score_adj: int | None,
    capacity: int | None,
) -> int | None:
    """Return the memory request; None if it is not known.

    Args:
        qos_class: of the pod. It determines the request but for Burstable pods.
        limit: the memory limit, if there is one.
        allocated: the request in kubelet's checkpoint, if that has been read.
        oom_score_adj: kubelet's score, from which the request is estimated: up to a
            thousandth of the node's memory below the real one.
        capacity: the node's memory.
    """
    if allocated is not None:
        return allocated
    if qos_class == QOSClass.GUARANTEED:
        return limit
    if qos_class == QOSClass.BEST_EFFORT:
        return 0
    if oom_score_adj is None or not capacity:
        return None
    found = request_range(oom_score_adj, capacity)
    if found is None:
        return None
    return found[0] if limit is None else min(found[0], limit)


def container_demand(given: Resources | None, memory_bytes: int | None) -> Demand:
    """Return what a container requests and is limited to.

    Args:
        given: the numbers that kubelet sent; None if they are not known.
        memory_bytes: the memory request; None if it is not known.
    """
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    if memory_bytes is not None:
        requests["memory"] = memory_bytes * _MILLI
    if given is None:
        return Demand(requests, limits, 1)
    requests["cpu"] = shares_to_milli_cpu(given.shares or 0)
    quota, limit = given.quota_us, given.memory_limit_bytes
    if isinstance(quota, int) and quota > 0:
        period = given.period_us or DEFAULT_PERIOD_US
        limits["cpu"] = quota_to_milli_cpu(quota, period)
    if isinstance(limit, int) and limit > 0:
        limits["memory"] = limit * _MILLI
    return Demand(requests, limits, 0 if memory_bytes is not None else 1)
