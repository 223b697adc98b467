"""The metrics about the members of PodGroups, and about where these are read.

They are derived from the inventory when metrics are scraped, at most every few seconds.
"""

from __future__ import annotations

import threading
from collections import Counter
from time import monotonic
from typing import TYPE_CHECKING

from nriplugin.daemon.metric_families import counters, gauge, gauges
from nriplugin.kube.jobs import TaskStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nriplugin.daemon.group_labels import GroupLabels
    from nriplugin.daemon.metric_encoding import Metric
    from nriplugin.daemon.process import DaemonProcess
    from nriplugin.state.lifecycle import Lifecycle

# With 500 pods in groups, deriving takes about 20 ms.
INTERVAL_S = 15.0

_STATUSES = (TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.ENDED)


class GroupSums:
    """The members of each PodGroup, as they were a moment ago. Any thread may call."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        labels: GroupLabels,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Derive the sums from a life-cycle's inventory."""
        self._lifecycle = lifecycle
        self._labels = labels
        self._clock = clock
        self._lock = threading.Lock()
        self._next_at = -1.0
        self.pods: Counter[tuple[str, ...]] = Counter()  # by group and status
        # By group and by `request` or `limit`.
        self.milli_cpu: Counter[tuple[str, ...]] = Counter()
        self.milli_bytes: Counter[tuple[str, ...]] = Counter()
        self.least: Counter[tuple[str, ...]] = Counter()  # by group, where it is known

    def refresh(self) -> None:
        """Derive the sums anew, unless that was done a moment ago."""
        with self._lock:
            now = self._clock()
            if now < self._next_at:
                return
            self._next_at = now + INTERVAL_S
            self._derive()

    def _derive(self) -> None:
        table = self._lifecycle.jobs
        jobs = table.jobs(table.tasks())
        self._labels.keep_only(jobs.keys())
        pods: Counter[tuple[str, ...]] = Counter()
        cpu: Counter[tuple[str, ...]] = Counter()
        memory: Counter[tuple[str, ...]] = Counter()
        least: Counter[tuple[str, ...]] = Counter()
        for job in jobs.values():
            label, sums = self._labels.of(job.id), job.sums
            for status in _STATUSES:
                pods[label, status.value] += sums.by_status.get(status, 0)
            for what, amounts in (
                ("request", sums.demand.requests),
                ("limit", sums.demand.limits),
            ):
                cpu[label, what] += amounts.get("cpu", 0)
                memory[label, what] += amounts.get("memory", 0)
            if job.group is not None:
                least[(label,)] += job.group.min_member
        # Replaced as a whole: another thread may be going through the earlier ones.
        self.pods, self.milli_cpu, self.milli_bytes = pods, cpu, memory
        self.least = least


def group_metrics(sums: GroupSums) -> Iterator[Metric]:
    """Return the members of PodGroups and what they request."""
    yield gauges(
        "group_pods",
        "Pods of the PodGroup on this node.",
        ("group", "status"),
        sums.pods.items(),
    )
    yield gauges(
        "group_cpu_cores",
        "What containers of the PodGroup on this node request, or are limited to.",
        ("group", "amount"),
        [(one, amount / 1000) for one, amount in sums.milli_cpu.items()],
    )
    yield gauges(
        "group_memory_bytes",
        "What containers of the PodGroup on this node request, or are limited to.",
        ("group", "amount"),
        [(one, amount / 1000) for one, amount in sums.milli_bytes.items()],
    )
    yield gauges(
        "group_min_members",
        "How many pods the PodGroup needs on all nodes, where its object is known.",
        ("group",),
        sums.least.items(),
    )


def source_metrics(process: DaemonProcess) -> Iterator[Metric]:
    """Return how the reading of PodGroup objects goes."""
    watches = process.podgroup_watches
    watch = None if watches is None else watches.watch
    yield gauge(
        "podgroup_objects",
        "PodGroup objects that are known.",
        0 if watch is None else watch.objects,
    )
    failures = {} if watch is None else dict(watch.failures)
    yield counters(
        "podgroup_failures",
        "Failures to read PodGroup objects.",
        ("reason",),
        [((reason.value,), count) for reason, count in failures.items()],
    )
