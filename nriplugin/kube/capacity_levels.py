"""The four levels on which the kubelet keeps a node's capacity. Pure.

Node (the cgroup of all pods, and those of reserved resources), QoS class, pod and
container: each with what it requests, its limits, and the numbers that the kubelet
writes there or sends to the runtime (pkg/kubelet/cm).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup_names import KUBEPODS, QOS_COMPONENTS, SLICE
from nriplugin.convert.curves import MIN_SHARES
from nriplugin.kube.capacity import PIDS
from nriplugin.kube.cgroup_values import CgroupValues
from nriplugin.kube.kubelet import milli_cpu_to_shares
from nriplugin.kube.kubelet_values import QOS_RESERVED, SYSTEMD
from nriplugin.kube.memory_reservation import burstable_files, kubepods_files
from nriplugin.kube.pod_qos import qos_class
from nriplugin.kube.pod_sums import memory_bytes, milli_cpu, pod_limits, pod_requests
from nriplugin.kube.pod_values import container_values, pod_values
from nriplugin.kube.qos import QOSClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nriplugin.kube.capacity import NodeCapacity
    from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
    from nriplugin.kube.manifests import ManifestPod


class CapacityLevel(StrEnum):
    """How far below the node a cgroup is."""

    NODE = "node"
    QOS = "qos"
    POD = "pod"
    CONTAINER = "container"


class CpuAndMemory(NamedTuple):
    """A sum of requests or of limits; 0 is none."""

    milli_cpu: int = 0
    memory_bytes: int = 0

    def plus(self, other: CpuAndMemory) -> CpuAndMemory:
        """Return the sum of two."""
        return CpuAndMemory(
            self.milli_cpu + other.milli_cpu, self.memory_bytes + other.memory_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCgroup:
    """One cgroup, with those below it.

    `components` are those from which either driver makes a path. A container has those
    of its pod, because only the runtime knows its ID. `pod` is the pod of a pod's or a
    container's cgroup.
    """

    level: CapacityLevel
    name: str
    components: tuple[str, ...]
    requests: CpuAndMemory
    limits: CpuAndMemory
    values: CgroupValues
    qos: QOSClass | None = None
    pod: ManifestPod | None = None
    children: tuple[CapacityCgroup, ...] = ()


@dataclass(frozen=True, slots=True)
class CapacityTree:
    """The cgroups of a node; without cgroupsPerQOS the kubelet makes none for pods."""

    kubepods: CapacityCgroup | None
    reserved: tuple[CapacityCgroup, ...]


def capacity_tree(
    node: NodeCapacity,
    settings: KubeletCapacitySettings,
    pods: Sequence[ManifestPod],
    swap_bytes: int | None = None,
) -> CapacityTree:
    """Return the cgroups of a node on which these pods are active.

    `swap_bytes` is the node's swap; None is a kernel that does not account for it.
    """
    reserved = tuple(_reserved_cgroups(node, settings))
    if not settings.cgroups_per_qos:
        return CapacityTree(None, reserved)
    root = (*path_components(settings.cgroup_root), KUBEPODS)
    by_class: dict[QOSClass, list[CapacityCgroup]] = {qos: [] for qos in QOSClass}
    for pod in pods:
        one = _pod_cgroup(pod, node, settings, root, swap_bytes)
        assert one.qos is not None
        by_class[one.qos].append(one)
    sums = {qos: _sum(one.requests for one in by_class[qos]) for qos in QOSClass}
    classes = tuple(
        _qos_cgroup(qos, by_class[qos], sums, node, settings, root)
        for qos in (QOSClass.BURSTABLE, QOSClass.BEST_EFFORT)
    )
    children = (*by_class[QOSClass.GUARANTEED], *classes)
    enforced = "pods" in settings.enforce_node_allocatable
    amounts = node.available_to_pods if enforced else node.capacity
    values = _node_values(
        amounts,
        kubepods_files(
            settings,
            sums[QOSClass.GUARANTEED].memory_bytes,
            sums[QOSClass.BURSTABLE].memory_bytes,
        ),
    )
    kubepods = CapacityCgroup(
        level=CapacityLevel.NODE,
        name=KUBEPODS,
        components=root,
        requests=_sum(one.requests for one in children),
        limits=_sum(one.limits for one in children),
        values=values,
        children=children,
    )
    return CapacityTree(kubepods, reserved)


def qos_memory_limits(
    available: int, guaranteed: int, burstable: int, percent: int
) -> tuple[int, int]:
    """Return the memory limits of the Burstable and of the BestEffort pods together.

    So much of the requests of the classes above is kept free for those.
    """
    burstable_limit = available - guaranteed * percent // 100
    return burstable_limit, burstable_limit - burstable * percent // 100


def path_components(path: str) -> tuple[str, ...]:
    """Return the components of a path, such as that of cgroupRoot."""
    return tuple(part for part in path.split("/") if part)


def reserved_components(path: str, driver: str | None) -> tuple[str, ...]:
    """Return the components of a cgroup of reserved resources.

    With systemd, the kubelet reads the last part of the path as the name of a slice,
    with or without its ending. Otherwise it is a path, also one of a slice of systemd.
    """
    if driver != SYSTEMD:
        return path_components(path)
    name = path.rstrip("/").rpartition("/")[2].removesuffix(SLICE)
    return tuple(part.replace("_", "-") for part in name.split("-") if part)


def _reserved_cgroups(
    node: NodeCapacity, settings: KubeletCapacitySettings
) -> Iterable[CapacityCgroup]:
    """Yield the cgroups of reserved resources that the kubelet is told to limit."""
    for name, path, amounts in (
        ("system-reserved", settings.system_reserved_cgroup, node.system_reserved),
        ("kube-reserved", settings.kube_reserved_cgroup, node.kube_reserved),
    ):
        whole = name in settings.enforce_node_allocatable
        if not path or not (
            whole or f"{name}-compressible" in settings.enforce_node_allocatable
        ):
            continue
        used = amounts if whole else {k: v for k, v in amounts.items() if k == "cpu"}
        unified = {}
        if settings.memory_qos and used.get("memory"):
            unified["memory.min"] = str(used["memory"])
        yield CapacityCgroup(
            level=CapacityLevel.NODE,
            name=name,
            components=reserved_components(path, settings.driver),
            requests=CpuAndMemory(used.get("cpu", 0), used.get("memory", 0)),
            limits=CpuAndMemory(memory_bytes=used.get("memory", 0)),
            values=_node_values(used, unified),
        )


def _node_values(amounts: Mapping[str, int], unified: dict[str, str]) -> CgroupValues:
    cpu = amounts.get("cpu")
    return CgroupValues(
        shares=None if cpu is None else milli_cpu_to_shares(cpu),
        memory_limit_bytes=amounts.get("memory") or None,
        pids_limit=amounts.get(PIDS),
        unified=unified,
    )


def _qos_cgroup(
    qos: QOSClass,
    pods: Sequence[CapacityCgroup],
    sums: Mapping[QOSClass, CpuAndMemory],
    node: NodeCapacity,
    settings: KubeletCapacitySettings,
    root: tuple[str, ...],
) -> CapacityCgroup:
    is_burstable = qos is QOSClass.BURSTABLE
    burstable = sums[QOSClass.BURSTABLE]
    percent = settings.qos_reserved.get("memory")
    available = node.available_to_pods.get("memory", 0)
    limit = None
    if percent is not None and available and settings.feature_gates.get(QOS_RESERVED):
        limits = qos_memory_limits(
            available,
            sums[QOSClass.GUARANTEED].memory_bytes,
            burstable.memory_bytes,
            percent,
        )
        limit = limits[0] if is_burstable else limits[1]
    return CapacityCgroup(
        level=CapacityLevel.QOS,
        name=str(qos),
        components=(*root, *QOS_COMPONENTS[qos]),
        requests=sums[qos],
        limits=_sum(one.limits for one in pods),
        values=CgroupValues(
            shares=milli_cpu_to_shares(burstable.milli_cpu)
            if is_burstable
            else MIN_SHARES,
            memory_limit_bytes=limit,
            unified=burstable_files(settings, burstable.memory_bytes)
            if is_burstable
            else {},
        ),
        qos=qos,
        children=tuple(pods),
    )


def _pod_cgroup(
    pod: ManifestPod,
    node: NodeCapacity,
    settings: KubeletCapacitySettings,
    root: tuple[str, ...],
    swap_bytes: int | None,
) -> CapacityCgroup:
    qos = qos_class(pod.spec)
    components = (*root, *QOS_COMPONENTS[qos], f"pod{pod.uid}")
    children = []
    for one in pod.spec.containers:
        found = container_values(one, pod.spec, qos, settings, node, swap_bytes)
        children.append(
            CapacityCgroup(
                level=CapacityLevel.CONTAINER,
                name=one.name,
                components=components,
                requests=CpuAndMemory(*found.requests),
                limits=CpuAndMemory(*found.limits),
                values=found.values,
                qos=qos,
                pod=pod,
            )
        )
    return CapacityCgroup(
        level=CapacityLevel.POD,
        name=pod.name,
        components=components,
        requests=_cpu_and_memory(pod_requests(pod.spec)),
        limits=_cpu_and_memory(pod_limits(pod.spec)),
        values=pod_values(pod.spec, qos, settings),
        qos=qos,
        pod=pod,
        children=tuple(children),
    )


def _cpu_and_memory(totals: Mapping[str, int]) -> CpuAndMemory:
    return CpuAndMemory(milli_cpu(totals), memory_bytes(totals))


def _sum(parts: Iterable[CpuAndMemory]) -> CpuAndMemory:
    total = CpuAndMemory()
    for part in parts:
        total = total.plus(part)
    return total
