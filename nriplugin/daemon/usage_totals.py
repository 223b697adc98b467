"""Sums of what the kernel counts for containers, by handler and by PodGroup.

Throttling and OOM kills, and for PodGroups pressure, too: they answer whether a handler
or a job suffers from the values that its containers got.
The figures of single containers are cAdvisor's; a pod's are served only if the operator
asks for them, and then for a limited number of pods.

The sums never go down when a container ends, because only increases are added. The
cgroups are read by whoever asks for metrics, at most every few seconds and at most so
many at once; what a container counted after it was read last is lost with its cgroup.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.daemon.cgroup_usage import NOTHING, usage_of
from nriplugin.daemon.container_counts import handlers_of
from nriplugin.daemon.group_labels import OTHER, GroupLabels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.daemon.cgroup_usage import UsageTotal
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle

# The time between two readings, and how many cgroups one of them reads: so many took 7
# to 10 ms of CPU time, with ordinary files in place of the kernel's.
INTERVAL_S = 15.0
AT_ONCE = 256


class _Watched(NamedTuple):
    """A container whose cgroup was read, and the sums that it belongs to.

    They stay the same for the life of the container, so that no sum loses a part.
    """

    read: UsageTotal
    handlers: tuple[str, ...]
    group: str
    pod: tuple[str, str] | None  # namespace and name, if the pod has its own sum


class UsageTotals:
    """The sums. Any thread may call it; the request threads do not."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        max_pods: int = 0,
        clock: Callable[[], float] = monotonic,
        labels: GroupLabels | None = None,
    ) -> None:
        """Begin with no sums.

        Args:
            lifecycle: knows the containers.
            max_pods: for how many pods there may be a sum of each.
            clock: of seconds.
            labels: the names of PodGroups, if other metrics have them, too.
        """
        self._lifecycle = lifecycle
        self.max_pods = max_pods
        self._clock = clock
        self._labels = GroupLabels() if labels is None else labels
        self._lock = threading.Lock()  # two scrapers may come at once
        self._watched: dict[str, _Watched] = {}
        self._next_at = -1.0
        self._last_id = ""
        self.by_handler: dict[str, UsageTotal] = {}
        self.by_group: dict[str, UsageTotal] = {}
        self.by_pod: dict[tuple[str, str], UsageTotal] = {}

    def refresh(self) -> None:
        """Read cgroups, unless that was done a moment ago."""
        tree = self._lifecycle.tree
        if tree is None or tree.version != 2:
            return
        with self._lock:
            now = self._clock()
            if now < self._next_at:
                return
            self._next_at = now + INTERVAL_S
            entries = self._lifecycle.inventory.snapshot()
            managed = {i: e for i, e in entries.items() if e.started and e.ours}
            self._drop_all_but(managed.keys())
            for container_id in self._due(managed.keys()):
                self._look_at(tree, managed[container_id])

    def _due(self, ids: Iterable[str]) -> list[str]:
        """Return the containers to read now; the others' turn comes next time."""
        ordered = sorted(ids)
        if len(ordered) > AT_ONCE:
            later = [one for one in ordered if one > self._last_id]
            ordered = (later + ordered)[:AT_ONCE]
            self._last_id = ordered[-1]
        return ordered

    def _look_at(self, tree: Tree, entry: ContainerEntry) -> None:
        cgroup = self._lifecycle.locator.cgroup_of(entry)
        grouped = entry.pod.group is not None and bool(entry.pod.group.job_id)
        if cgroup is None:
            return
        read = usage_of(tree, cgroup, with_pressure=grouped)
        if read is None:
            return
        watched = self._watched.get(entry.id)
        if watched is None:
            watched = self._new(entry, read)
        added = read.since(watched.read)
        self._watched[entry.id] = watched._replace(read=read)
        for handler in watched.handlers:
            total = self.by_handler.get(handler, NOTHING)
            self.by_handler[handler] = total.plus(added)
        total = self.by_group.get(watched.group, NOTHING)
        self.by_group[watched.group] = total.plus(added)
        if watched.pod is not None:
            total = self.by_pod.get(watched.pod, NOTHING)
            self.by_pod[watched.pod] = total.plus(added)

    def _new(self, entry: ContainerEntry, read: UsageTotal) -> _Watched:
        group = self._labels.of(entry.pod.group.job_id if entry.pod.group else "")
        pod = entry.pod.namespace, entry.pod.name
        has_own = pod in self.by_pod or len(self.by_pod) < self.max_pods
        # What a container counted before this process knew it was counted by an earlier
        # process: it would look like an increase at every restart.
        created_here = entry.decided_at > 0 and not entry.adopted
        return _Watched(
            NOTHING if created_here else read,
            tuple(sorted(handlers_of(entry))),
            group,
            pod if has_own else None,
        )

    def _drop_all_but(self, ids: Iterable[str]) -> None:
        """Forget containers that are gone, and groups and pods without containers."""
        kept = set(ids)
        if kept.issuperset(self._watched):
            return
        self._watched = {i: w for i, w in self._watched.items() if i in kept}
        groups = {watched.group for watched in self._watched.values()} | {"", OTHER}
        pods = {watched.pod for watched in self._watched.values()}
        self.by_group = {g: t for g, t in self.by_group.items() if g in groups}
        self.by_pod = {p: t for p, t in self.by_pod.items() if p in pods}
