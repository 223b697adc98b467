"""Builds a capacity report: the arithmetic of `kube`, with the paths of a node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.paths import (
    Driver,
    RuntimeName,
    cgroup_path,
    container_path,
)
from nriplugin.convert.curves import Curve
from nriplugin.errors import ConfigError
from nriplugin.kube.capacity_levels import CapacityLevel, capacity_tree
from nriplugin.kube.level_tree import CapacityReport, CgroupLevel
from nriplugin.kube.manifests import UID_PLACEHOLDER
from nriplugin.kube.pod_sums import limits_all, pod_limits, pod_requests
from nriplugin.kube.podspec import Role
from nriplugin.kube.qos import QOSClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nriplugin.kube.api_objects import ActivePod, RunningContainer
    from nriplugin.kube.capacity import NodeCapacity
    from nriplugin.kube.capacity_levels import CapacityCgroup, CpuAndMemory
    from nriplugin.kube.kubelet_settings import KubeletCapacitySettings
    from nriplugin.kube.podspec import PodSpec

_RUNTIMES = {
    "containerd": RuntimeName.CONTAINERD,
    "cri-o": RuntimeName.CRIO,
    "docker": RuntimeName.DOCKER,
}


def capacity_report(
    node: str,
    sources: tuple[str, ...],
    capacity: NodeCapacity,
    settings: KubeletCapacitySettings,
    pods: Sequence[ActivePod],
    driver: Driver,
    *,
    curve: Curve = Curve.QUADRATIC,
    swap_bytes: int | None = None,
) -> CapacityReport:
    """Return the report.

    Args:
        node: the node's name.
        sources: where its parts are from, one sentence each.
        capacity: the node's capacity with its reservations.
        settings: kubelet's.
        pods: the pods that have not ended.
        driver: kubelet's cgroup driver.
        curve: the runtime's curve, for the weights of containers.
        swap_bytes: the node's swap; None if the kernel does not account for it.

    Raises:
        ConfigError: kubelet is told to make no cgroups, or a name has a slash.
    """
    manifests = [one.pod for one in pods]
    using = replace(settings, driver=str(driver))
    found = capacity_tree(capacity, using, manifests, swap_bytes)
    tree = found.kubepods
    if tree is None:
        raise ConfigError("cgroupsPerQOS: false, expected true: there are no cgroups")
    running = {id(one.pod): one.running for one in pods}
    specs = [one.spec for one in manifests]
    builder = _LevelBuilder(driver, curve, running)
    return CapacityReport(
        node=node,
        sources=sources,
        capacity=capacity,
        requests=_totals(pod_requests(one) for one in specs),
        limits=_totals(pod_limits(one) for one in specs),
        pods=len(pods),
        unlimited={name: _count_unlimited(specs, name) for name in ("cpu", "memory")},
        tree=builder.node(tree),
        reserved=tuple(builder.level(one) for one in found.reserved),
    )


class _LevelBuilder:
    """Turns the cgroups of the arithmetic into levels with paths and values."""

    def __init__(
        self,
        driver: Driver,
        curve: Curve,
        running: Mapping[int, Mapping[str, RunningContainer]],
    ) -> None:
        self._driver = driver
        self._curve = curve
        self._running = running

    def node(self, one: CapacityCgroup) -> CgroupLevel:
        """Return the level of the node, on which Guaranteed is a class, too."""
        pods = [c for c in one.children if c.level is CapacityLevel.POD]
        classes = [c for c in one.children if c.level is CapacityLevel.QOS]
        below = [self.level(pod) for pod in pods]
        guaranteed = CgroupLevel(
            level=CapacityLevel.QOS,
            name=QOSClass.GUARANTEED,
            cgroup="",
            qos_class=QOSClass.GUARANTEED,
            requests=_sum_of(level.requests for level in below),
            limits=_sum_of(level.limits for level in below),
            v1={},
            v2={},
            below=tuple(below),
        )
        others = tuple(self.level(qos) for qos in classes)
        return self.level(one)._replace(below=(guaranteed, *others))

    def level(self, one: CapacityCgroup) -> CgroupLevel:
        """Return one cgroup with its children; that of all pods comes without them."""
        name = one.name
        if one.level is CapacityLevel.POD and one.pod is not None:
            name = "/".join(part for part in (one.pod.namespace, name) if part)
        curve, is_init = Curve.KEP, False
        if one.level is CapacityLevel.CONTAINER and one.pod is not None:
            curve = self._curve
            is_init = (one.name, Role.INIT) in (
                (c.name, c.role) for c in one.pod.spec.containers
            )
        in_slices = self._driver is Driver.SYSTEMD
        # The node's own children are built by `node`, which knows their classes.
        children = () if one.level is CapacityLevel.NODE else one.children
        return CgroupLevel(
            level=one.level,
            name=name,
            cgroup=self._path(one),
            qos_class=one.qos or "",
            requests=_amounts(one.requests),
            limits=_amounts(one.limits),
            v1=one.values.v1(),
            v2=one.values.v2(curve=curve, through_systemd=in_slices),
            below=tuple(self.level(child) for child in children),
            is_init=is_init,
        )

    def _path(self, one: CapacityCgroup) -> str:
        """Return the cgroup; empty if the pod has no UID or the container no ID."""
        pod = one.pod
        if pod is None:
            return cgroup_path(one.components, self._driver)
        if pod.uid == UID_PLACEHOLDER:
            return ""
        if one.level is CapacityLevel.POD:
            return cgroup_path(one.components, self._driver)
        found = self._running.get(id(pod), {}).get(one.name)
        runtime = None if found is None else _RUNTIMES.get(found.runtime)
        if found is None or runtime is None:
            return ""
        return container_path(one.components, found.id, self._driver, runtime)


def _amounts(both: CpuAndMemory) -> dict[str, int]:
    amounts = {"cpu": both.milli_cpu, "memory": both.memory_bytes}
    return {name: amount for name, amount in amounts.items() if amount}


def _sum_of(many: Iterable[Mapping[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for one in many:
        for name, amount in one.items():
            totals[name] = totals.get(name, 0) + amount
    return totals


def _totals(many: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return sums in whole units, but CPU in thousandths; all given in thousandths."""
    sums = [
        {name: a if name == "cpu" else -(-a // 1000) for name, a in one.items()}
        for one in many
    ]
    return _sum_of(sums)


def _count_unlimited(specs: Sequence[PodSpec], name: str) -> int:
    return sum(not limits_all(spec, name) for spec in specs)
