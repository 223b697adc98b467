"""A node's pods from what its runtime tells, beside kubelet's checkpoint. Pure.

The checkpoint has the requests and limits of a pod's containers by the pod's UID, but
neither names nor overhead. Up to Kubernetes 1.35 it lacks init containers that have
ended; since then it has them, and does not say which they are. The runtime knows what
is missing. It also has the numbers that kubelet sent for a container, from which its
requests and limits follow, but for the memory request of a Burstable container: that is
estimated from the container's OOM score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.convert.curves import MIN_SHARES
from nriplugin.convert.validate import DEFAULT_PERIOD_US
from nriplugin.kube.kubelet import MILLI_PER_CPU, SHARES_PER_CPU
from nriplugin.kube.oomscore import request_range
from nriplugin.kube.qos import QOSClass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nriplugin.convert import Resources

# An init container that has ended and that nothing tells of but the pod's class.
UNKNOWN_INIT = "(ended)"


class RuntimeContainer(NamedTuple):
    """A container; its numbers are None if the runtime was not asked for them.

    `memory_request` is in bytes; where it is None, the OOM score gives an estimate.
    `created` is when the first container of this name in the pod was created, and
    `finished` when the last one ended, in nanoseconds; 0 if it has not, or is not known
    to have.
    """

    name: str
    id: str
    running: bool
    created: int = 0
    finished: int = 0
    numbers: Resources | None = None
    oom_score_adj: int | None = None
    memory_request: int | None = None


class RuntimePod(NamedTuple):
    """A pod with its containers, of which only the last one of each name is there.

    `runtime` is what a `containerID` in a pod's status begins with. `overhead` is that
    of the pod's runtime class, as far as the runtime tells it.
    """

    uid: str
    name: str
    namespace: str
    runtime: str
    containers: tuple[RuntimeContainer, ...]
    overhead: Mapping[str, str] = {}


def complete_pod(
    pod: Mapping[str, Any], known: RuntimePod | None, qos: str | None
) -> dict[str, Any]:
    """Return an object Pod of the checkpoint with what the runtime tells of it.

    Containers that the checkpoint lacks are init containers, or ephemeral ones, which
    have no resources.

    Args:
        pod: the object of the checkpoint.
        known: the runtime's pod with the same UID, if there is one.
        qos: the class in which the pod's cgroup is, if that was found.
    """
    spec = dict(pod["spec"])
    if known is None:
        return {**pod, "spec": spec}
    allocated = {one["name"]: one for one in spec["containers"]}
    init: dict[str, dict[str, Any]] = {}
    for one in known.containers:
        if one.name not in allocated:
            if resources := _resources(one, qos, 0):
                init[one.name] = {"name": one.name, "resources": resources}
        elif _is_init(one, known):
            init[one.name] = allocated[one.name]
    others = [one for name, one in allocated.items() if name not in init]
    spec |= _in_order(known, others, init)
    spec["overhead"] = dict(known.overhead)
    return {**pod, **_identity(known), "spec": spec}


def pod_of_runtime(
    known: RuntimePod, qos: str | None, memory_capacity: int
) -> dict[str, Any]:
    """Return an object Pod for a pod of which there is no checkpoint."""
    containers: list[dict[str, Any]] = []
    init: dict[str, dict[str, Any]] = {}
    for one in known.containers:
        resources = _resources(one, qos, memory_capacity)
        found = {"name": one.name, "resources": resources}
        if _is_init(one, known):
            init[one.name] = found
        else:
            containers.append(found)
    spec = _in_order(known, containers, init)
    spec["overhead"] = dict(known.overhead)
    return {"kind": "Pod", **_identity(known), "spec": spec}


def _is_init(one: RuntimeContainer, known: RuntimePod) -> bool:
    """Say whether a container is an init container that has ended.

    kubelet creates no other one before an init container has ended, whereas it does not
    wait for others, which may end or fail at any time.
    """
    later = [other for other in known.containers if other.created > one.created]
    return (
        not one.running
        and one.finished > 0
        and bool(later)
        and all(other.created >= one.finished for other in later)
    )


def _in_order(
    known: RuntimePod,
    containers: Sequence[dict[str, Any]],
    init: Mapping[str, dict[str, Any]],
) -> dict[str, Any]:
    """Return a pod's containers and init containers, in the order of their creation.

    A container that was created before an init container has ended is a sidecar: it
    runs beside the init containers after it.
    """
    created = {one.name: one.created for one in known.containers}
    last = max((created[name] for name in init), default=0)
    sidecars = {
        one["name"]: {**one, "restartPolicy": "Always"}
        for one in containers
        if created.get(one["name"], last) < last
    }
    in_order = sorted([*sidecars, *init], key=lambda name: created[name])
    return {
        "containers": [one for one in containers if one["name"] not in sidecars],
        "initContainers": [init.get(name) or sidecars[name] for name in in_order],
    }


def with_class(pod: Mapping[str, Any], computed: str, qos: str) -> dict[str, Any]:
    """Return a pod whose class is the one in which its cgroup is.

    An ended init container without limits makes a pod Burstable whose other containers
    would be Guaranteed. If nothing else tells of it, it gets a name here.
    """
    spec = dict(pod["spec"])
    if (computed, qos) == (QOSClass.GUARANTEED, QOSClass.BURSTABLE):
        spec["initContainers"] = [
            *spec.get("initContainers", ()),
            {"name": UNKNOWN_INIT, "resources": {}},
        ]
    return {**pod, "spec": spec}


def overhead_of(numbers: Resources) -> dict[str, str]:
    """Return the overhead that kubelet sent to the runtime in v1's numbers."""
    found = {}
    # kubelet sends an overhead as requests and as limits alike, and limits are exact.
    cpu = _cpu_limit(numbers) or _cpu_request(numbers)
    if cpu:
        found["cpu"] = cpu
    if isinstance(numbers.memory_limit_bytes, int):
        found["memory"] = str(numbers.memory_limit_bytes)
    return found


def _identity(known: RuntimePod) -> dict[str, Any]:
    metadata = {"name": known.name, "namespace": known.namespace, "uid": known.uid}
    statuses = [
        {
            "name": one.name,
            "containerID": f"{known.runtime}://{one.id}",
            "state": {"running": {}},
        }
        for one in known.containers
        if one.running
    ]
    return {"metadata": metadata, "status": {"containerStatuses": statuses}}


def _resources(
    one: RuntimeContainer, qos: str | None, memory_capacity: int
) -> dict[str, dict[str, str]]:
    """Return requests and limits from which kubelet would send the same numbers."""
    numbers = one.numbers
    if numbers is None or qos == QOSClass.BEST_EFFORT:
        return {}
    requests, limits = {}, {}
    cpu_request, cpu_limit = _cpu_request(numbers), _cpu_limit(numbers)
    if cpu_limit:
        limits["cpu"] = cpu_limit
    if isinstance(numbers.memory_limit_bytes, int):
        limits["memory"] = str(numbers.memory_limit_bytes)
    if qos == QOSClass.GUARANTEED:
        return {"limits": limits} if limits else {}
    if cpu_request or cpu_limit:
        requests["cpu"] = cpu_request or "0"
    least = one.memory_request or 0
    if one.memory_request is None and one.oom_score_adj is not None and memory_capacity:
        least, _ = request_range(one.oom_score_adj, memory_capacity) or (0, 0)
    if least or "memory" in limits:
        requests["memory"] = str(min(least, int(limits.get("memory", least))))
    given = {"requests": requests, "limits": limits}
    return {name: amounts for name, amounts in given.items() if amounts}


def _cpu_request(numbers: Resources) -> str | None:
    shares = numbers.shares
    if not isinstance(shares, int) or shares <= MIN_SHARES:
        return None
    return f"{-(-shares * MILLI_PER_CPU // SHARES_PER_CPU)}m"


def _cpu_limit(numbers: Resources) -> str | None:
    quota, period = numbers.quota_us, numbers.period_us or DEFAULT_PERIOD_US
    if not isinstance(quota, int) or quota <= 0:
        return None
    return f"{-(-quota * MILLI_PER_CPU // period)}m"
