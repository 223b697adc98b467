"""The use of pods in the shape of `PodMetrics`, which the metrics API of a cluster has.

`usage` holds what that API holds: CPU as a rate and memory as the working set. All that
it has no field for is in a block `nriplugin`, of the pod and of each container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nriplugin.cli.times import stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.api import control_pb2 as control
    from nriplugin.node.pod_usage import CgroupUsage, ContainerUsage, PodUsage

API_VERSION = "metrics.k8s.io/v1beta1"


def pod_metrics_list(
    pods: list[PodUsage], names: Mapping[str, control.ContainerWhy], now: float
) -> dict[str, Any]:
    """Return a `PodMetricsList`; pods without a name are called by their UID."""
    return {
        "kind": "PodMetricsList",
        "apiVersion": API_VERSION,
        "metadata": {},
        "items": [_pod_metrics(pod, names, now) for pod in pods],
    }


def pod_name(
    pod: PodUsage, names: Mapping[str, control.ContainerWhy]
) -> tuple[str, str]:
    """Return a pod's namespace and name; without a daemon, nothing and its UID."""
    for container in pod.containers:
        known = names.get(container.container_id)
        if known is not None and known.pod:
            return known.namespace, known.pod
    return "", pod.uid


def container_name(
    container: ContainerUsage, names: Mapping[str, control.ContainerWhy]
) -> str:
    """Return a container's name; its ID if the daemon does not know it."""
    known = names.get(container.container_id)
    return known.container if known and known.container else container.container_id


def _pod_metrics(
    pod: PodUsage, names: Mapping[str, control.ContainerWhy], now: float
) -> dict[str, Any]:
    namespace, name = pod_name(pod, names)
    metadata = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    return {
        "kind": "PodMetrics",
        "apiVersion": API_VERSION,
        "metadata": metadata,
        "timestamp": stamp(now),
        "window": f"{pod.use.window_s:.3f}s",
        "containers": [
            {
                "name": container_name(one, names),
                "usage": _usage(one.use),
                "nriplugin": {"id": one.container_id, **_beyond(one.use)},
            }
            for one in pod.containers
        ],
        "nriplugin": {
            "uid": pod.uid,
            "qosClass": pod.qos_class,
            "usage": _usage(pod.use),
            **_beyond(pod.use),
        },
    }


def _usage(use: CgroupUsage) -> dict[str, str]:
    """Return the quantities; one that is not measured is absent."""
    usage = {}
    if use.cpu_nanocores is not None:
        usage["cpu"] = f"{use.cpu_nanocores}n" if use.cpu_nanocores else "0"
    if use.working_set_bytes is not None:
        usage["memory"] = f"{use.working_set_bytes // 1024}Ki"
    return usage


def _beyond(use: CgroupUsage) -> dict[str, Any]:
    """Return what the metrics API has no field for; None is "not measured"."""
    return {
        "cgroup": use.cgroup,
        "memoryBytes": use.memory_bytes,
        "throttling": {
            "periods": use.periods,
            "throttledPeriods": use.throttled,
            "throttledNanoseconds": use.throttled_ns,
            "throttledPeriodsTotal": use.throttled_total,
        },
        "oomKills": use.oom_kills,
        "pressure": {
            name: None if one is None else one.as_dict()
            for name, one in use.pressure.items()
        },
        "tasks": None if use.tasks is None else use.tasks._asdict(),
        "verdicts": [
            {"verdict": one.verdict.value, "because": one.because}
            for one in use.judgement.findings
        ],
        "verdictsNotTold": [one.value for one in use.judgement.untold],
    }
