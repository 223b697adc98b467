"""Measures what verdicts follow from: a container, its pod, and the node's CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.types.formats import USER_HZ
from nriplugin.engine.policies import Measure
from nriplugin.engine.verdicts import Moment
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.policies import ContainerSample
    from nriplugin.node.policy_samples import PolicySampler

_OF_POD = frozenset({Measure.CPU})
# cgroup v1 has no pressure and no memory.high.
_NEEDS = {
    1: _OF_POD,
    2: frozenset({Measure.CPU, Measure.MEMORY, Measure.PRESSURE}),
}


class MomentSampler:
    """Measures containers; it keeps nothing, so any thread may call it."""

    def __init__(self, tree: Tree, sampler: PolicySampler) -> None:
        """Read the cgroups of a tree, through a sampler of the same tree."""
        self._needs = _NEEDS[tree.version]
        self._sampler = sampler

    def sample(self, cgroup: str) -> ContainerSample | None:
        """Return a sample of a container; None if it cannot be measured."""
        return self._sample(cgroup, self._needs)

    def sample_of_pod(self, cgroup: str) -> ContainerSample | None:
        """Return what is needed of a pod's cgroup; None if it cannot be measured."""
        return self._sample(cgroup, _OF_POD)

    def node_busy_s(self) -> float | None:
        """Return for how long the node's CPUs were busy since the boot, all added."""
        ticks = self._sampler.cpu_ticks()
        return None if ticks is None else ticks[0] / USER_HZ

    def moment(self, cgroup: str, pod: str | None) -> Moment | None:
        """Return what is measured of a container now; None if it is gone."""
        sample = self.sample(cgroup)
        if sample is None:
            return None
        pods = None if pod is None else self.sample_of_pod(pod)
        return Moment(sample, pods, self.node_busy_s())

    def _sample(self, cgroup: str, needs: frozenset[Measure]) -> ContainerSample | None:
        try:
            return self._sampler.container(cgroup, None, needs, {})
        except CgroupError:
            return None  # not measured, as if the file were not there
