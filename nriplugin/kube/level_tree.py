"""The cgroups of a node's pods on four levels, with the values kubelet means. Pure.

The levels are the node (the cgroup of all pods), the QoS classes, the pods and the
containers. Guaranteed pods are directly below the node: their class has no cgroup, so
its level has no path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nriplugin.kube.capacity import NodeCapacity


class CgroupLevel(NamedTuple):
    """One cgroup: what is asked for, and the files of both cgroup versions.

    Amounts are by resource, CPU in thousandths and memory in bytes. A limit that is
    absent is none.
    """

    level: str  # node, qos, pod or container
    name: str
    cgroup: str  # below the root of the hierarchy; empty if there is or is known none
    qos_class: str
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    v1: Mapping[str, str]
    v2: Mapping[str, str]
    below: tuple[CgroupLevel, ...] = ()
    is_init: bool = False  # a container that ends before the others start

    def walk(self, depth: int = 0) -> Iterator[tuple[int, CgroupLevel]]:
        """Yield this level and all below it, parents first, each with its depth."""
        yield depth, self
        for one in self.below:
            yield from one.walk(depth + 1)

    def with_decided(self, decided: Mapping[str, Mapping[str, str]]) -> CgroupLevel:
        """Return the same with v2 files that were decided otherwise, by the cgroup."""
        return self._replace(
            v2={**self.v2, **decided.get(self.cgroup, {})},
            below=tuple(one.with_decided(decided) for one in self.below),
        )


class CapacityReport(NamedTuple):
    """A node's capacity, what its pods ask for together, and its cgroups."""

    node: str
    sources: tuple[str, ...]  # where it is from, one sentence each
    capacity: NodeCapacity
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    pods: int
    unlimited: Mapping[str, int]  # how many pods have no limit of a resource
    tree: CgroupLevel
    reserved: tuple[CgroupLevel, ...] = ()  # cgroups whose reservations are enforced

    def percent(self, name: str, amount: int) -> int | None:
        """Return the share of the allocatable amount, rounded down as kubectl does."""
        allocatable = self.capacity.allocatable.get(name, 0)
        return amount * 100 // allocatable if allocatable else None
