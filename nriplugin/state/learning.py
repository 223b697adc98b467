"""Facts that the node shows only once it has pods: its cgroup files and its curve.

A fresh node has no pod's cgroup, so the files that containers have are learned from the
first pod that is created. The curve from shares to weight is recognised from containers
whose weight the runtime computed by itself. The NRI and the CRI door both use this
module, and it puts the facts into the current plan.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.curve import curves_of_pods, recognise_or_continue
from nriplugin.node.facts import facts_of_pod
from nriplugin.node.observe import observe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.curve import Observation
    from nriplugin.state.plan import CurrentPlan, Plan

_log = logging.getLogger(__name__)

# How many containers are looked at. Each costs a few system calls while the runtime
# waits for the answer to Synchronize.
MAX_OBSERVED = 500


class Weighted(NamedTuple):
    """A container whose weight may show the runtime's curve."""

    cgroup: str
    shares: int | None
    unified: Mapping[str, str]  # cgroup v2 values that the runtime keeps for it


class Learning:
    """Completes the facts of the current plan."""

    def __init__(self, plans: CurrentPlan, tree: Tree | None) -> None:
        """Learn from this tree; without one, the facts never change."""
        self._plans = plans
        self._tree = tree
        # Without a tree there is nothing to learn, so the doors need not try.
        self.files_known = tree is None
        self._curve_certain = False
        self._logged: tuple[object, str] | None = None

    def look_at_files(self, pod_cgroup: str | None) -> Plan:
        """Learn from a pod's cgroup which files containers have; return the plan."""
        if pod_cgroup is not None and self._tree is not None:
            facts = facts_of_pod(self._tree, pod_cgroup)
            if facts:
                self._plans.learn(facts)
                self.files_known = True
        return self._plans.now

    def learn_curve(
        self, containers: Iterable[Weighted], *, shows_unified: bool
    ) -> None:
        """Recognise the node's curve, and those of pods that differ from it.

        `shows_unified` is whether the runtime reports the cgroup v2 values that it
        keeps for a container. If it does not, nriplugin may have set any weight.
        """
        if self._tree is None or self._tree.version != 2:
            return  # there are no weights
        seen: list[Observation] = []
        for one in containers:
            found = observe(
                *(self._tree, one.cgroup, one.shares, one.unified),
                shows_unified=shows_unified,
            )
            if found is not None:
                seen.append(found)
                if len(seen) == MAX_OBSERVED:
                    break
        node = recognise_or_continue(seen)
        facts: dict[str, object] = {}
        # A curve that is certain stays: after a restart, every weight on the node may
        # have been set by nriplugin, and then the weights prove nothing.
        if node.certain or not self._curve_certain:
            self._curve_certain = node.certain
            facts = {
                "curve": node.curve,
                "curve_evidence": node.evidence,
                "curve_native": node.native,
            }
        self._plans.learn(facts, curves_of_pods(seen, node.curve))
        plan = self._plans.now
        learned = plan.facts.curve, plan.facts.curve_evidence
        # A configured curve takes precedence.
        if plan.config.curve is None and learned != self._logged:
            self._logged = learned
            _log.info("curve: %s (%s)", *learned)
