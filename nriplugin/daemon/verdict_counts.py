"""How many containers are held back by what, on the node and in each PodGroup.

The containers are measured by the thread that asks for metrics, at most every few
seconds and at most so many at once, as for daemon/usage_totals.py. A verdict is about
the time since the container was measured before, and is kept until it is measured
again.
"""

from __future__ import annotations

import threading
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.daemon.group_labels import GroupLabels
from nriplugin.engine.verdicts import Verdict, judge
from nriplugin.node.verdict_samples import MomentSampler

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nriplugin.engine.verdicts import Judgement, Moment
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle

# The time between two readings, and how many containers one of them measures, with ten
# files each.
INTERVAL_S = 15.0
AT_ONCE = 128
# The label of containers about which every verdict was told, and none holds; and of
# those for which some could not be told, and none of the others holds.
NONE = "none"
UNKNOWN = "unknown"
LABELS = (*(verdict.value for verdict in Verdict), NONE, UNKNOWN)


class _Judged(NamedTuple):
    """A container that was measured."""

    moment: Moment
    labels: tuple[str, ...]
    group: str


class VerdictCounts:
    """The counts. Any thread may call it; the request threads do not."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        labels: GroupLabels | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Begin with no counts; names of PodGroups may be shared with other metrics."""
        self._lifecycle = lifecycle
        self._labels = GroupLabels() if labels is None else labels
        self._clock = clock
        self._lock = threading.Lock()  # two scrapers may come at once
        self._judged: dict[str, _Judged] = {}
        self._next_at = -1.0
        self._last_id = ""
        # Replaced as a whole: other threads read them. The second one is by PodGroup
        # and label.
        self.by_label: Mapping[str, int] = {}
        self.by_group: Mapping[tuple[str, str], int] = {}

    def refresh(self) -> None:
        """Measure containers, unless that was done a moment ago."""
        tree = self._lifecycle.tree
        if tree is None:
            return
        with self._lock:
            now = self._clock()
            if now < self._next_at:
                return
            self._next_at = now + INTERVAL_S
            entries = self._lifecycle.inventory.snapshot()
            running = {i: e for i, e in entries.items() if e.started}
            known = self._judged
            self._judged = {i: one for i, one in known.items() if i in running}
            sampler = MomentSampler(tree, self._lifecycle.policies.sampler)
            for container_id in self._due(sorted(running)):
                self._look_at(sampler, running[container_id])
            self._count()

    def _due(self, ids: list[str]) -> list[str]:
        """Return the containers to measure now; the others' turn comes next time."""
        if len(ids) > AT_ONCE:
            later = [one for one in ids if one > self._last_id]
            ids = (later + ids)[:AT_ONCE]
            self._last_id = ids[-1]
        return ids

    def _look_at(self, sampler: MomentSampler, entry: ContainerEntry) -> None:
        cgroup = self._lifecycle.locator.cgroup_of(entry)
        moment = None if cgroup is None else sampler.moment(cgroup, entry.pod_cgroup)
        known = self._judged.pop(entry.id, None)
        if moment is None:
            return
        labels = () if known is None else _labels(judge(known.moment, moment))
        group = entry.pod.group.job_id if entry.pod.group else ""
        self._judged[entry.id] = _Judged(moment, labels, group)

    def _count(self) -> None:
        judged = self._judged.values()
        by_group: Counter[tuple[str, str]] = Counter()
        for one in judged:
            group = self._labels.of(one.group)
            by_group.update((group, label) for label in one.labels)
        self.by_label = Counter(label for one in judged for label in one.labels)
        self.by_group = by_group


def _labels(judgement: Judgement) -> tuple[str, ...]:
    if judgement.findings:
        return tuple(one.verdict.value for one in judgement.findings)
    return (UNKNOWN if judgement.untold else NONE,)
