"""The cgroup v1 numbers that the kubelet sends to the runtime for a container. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.kube.amounts import default_requests
from nriplugin.kube.kubelet import milli_cpu_to_quota, milli_cpu_to_shares
from nriplugin.kube.quantity import milli, value

if TYPE_CHECKING:
    from nriplugin.kube.amounts import Amounts
    from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
    from nriplugin.kube.podspec import ContainerSpec, PodSpec
    from nriplugin.kube.quantity import Quantity


class Sent(NamedTuple):
    """The numbers of a CRI request, in which zero is "not given"."""

    shares: int
    quota_us: int
    period_us: int
    memory_limit_bytes: int


def sent_for(
    container: ContainerSpec, spec: PodSpec, kubelet: KubeletCapacitySettings
) -> Sent:
    """Return what a kubelet with these settings sends."""
    period_us = kubelet.cpu_cfs_quota_period_us
    quota_us = 0
    cpu_limit = _limit("cpu", container.limits, spec)
    # A request of 0 is a request: only one that is absent is taken from a limit, the
    # container's by the API server and the pod's by the kubelet.
    requests = default_requests(container.requests, container.limits)
    cpu_request = requests.get("cpu", cpu_limit)
    if kubelet.cpu_cfs_quota:
        quota_us = milli_cpu_to_quota(milli(cpu_limit), period_us)
    return Sent(
        shares=milli_cpu_to_shares(milli(cpu_request)),
        quota_us=quota_us,
        period_us=period_us,
        memory_limit_bytes=value(_limit("memory", container.limits, spec)),
    )


def _limit(name: str, limits: Amounts, spec: PodSpec) -> Quantity:
    """Return a container's limit; if it has none, the pod's; 0 is no limit."""
    limit = limits.get(name, 0)
    if milli(limit) == 0 and spec.resources is not None:
        return spec.resources.limits.get(name, 0)
    return limit
