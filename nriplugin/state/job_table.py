"""The jobs and tasks of the node's pods: derived from the inventory when asked.

Nothing is kept that could grow old: a job is there as long as a pod in the inventory
names it. Only PodGroup objects come from outside, if they are watched
(daemon/podgroups/).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.stale import resources_of_numbers
from nriplugin.kube.container_demand import container_demand, memory_request
from nriplugin.kube.jobs import (
    JobInfo,
    TaskInfo,
    TaskStatus,
    job_infos,
    priority_of,
    sum_demands,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nriplugin.config.file import PodGroupsSection
    from nriplugin.kube.jobs import Demand
    from nriplugin.kube.podgroup import Membership
    from nriplugin.kube.podgroup_object import GroupObject
    from nriplugin.state.inventory import ContainerEntry, PodEntry
    from nriplugin.state.lifecycle import Lifecycle


class MemberContainer(NamedTuple):
    """A container that runs, and its cgroup if that is known."""

    entry: ContainerEntry
    cgroup: str | None


class NodeTask(NamedTuple):
    """A pod of a job, and those of its containers that run."""

    info: TaskInfo
    running: tuple[MemberContainer, ...]


class JobTable:
    """The jobs of the node. Any thread may ask; a request thread never does."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        """Derive jobs from a life-cycle's inventory."""
        self._lifecycle = lifecycle
        # PodGroup objects by the ID of their job. Another thread changes the mapping,
        # so it is looked up in, and not iterated over.
        self.groups: Mapping[str, GroupObject] = {}
        # Begins to watch PodGroups as a configuration says; set by the daemon.
        self.watch: Callable[[PodGroupsSection], None] | None = None

    def configure(self, section: PodGroupsSection) -> None:
        """Watch PodGroups as a configuration says."""
        if self.watch is not None:
            self.watch(section)

    def publish(self, groups: Mapping[str, GroupObject]) -> None:
        """Put PodGroup objects in force."""
        self.groups = groups

    def tasks(self) -> list[NodeTask]:
        """Return the pods that have any of Volcano's keys."""
        inventory = self._lifecycle.inventory
        pods: dict[str, PodEntry] = {}
        containers: dict[str, list[ContainerEntry]] = {}
        for pod in inventory.pods():
            if pod.group is not None:
                # Kubelet may have replaced the sandbox of a pod: its UID stays.
                pods[pod.uid or pod.id] = pod
        for entry in inventory.snapshot().values():
            if entry.pod.group is not None:
                uid = entry.pod.uid or entry.pod.id
                pods.setdefault(uid, entry.pod)
                containers.setdefault(uid, []).append(entry)
        return [
            self._task(uid, pod, containers.get(uid, [])) for uid, pod in pods.items()
        ]

    def jobs(self, tasks: list[NodeTask]) -> dict[str, JobInfo]:
        """Return the jobs that tasks belong to, by ID."""
        infos = [task.info for task in tasks]
        known = self.groups
        found = ((info.job, known.get(info.job)) for info in infos)
        return job_infos(infos, {one: group for one, group in found if group})

    def queue_of(self, member: Membership) -> str:
        """Return a pod's queue: its own, else that of its PodGroup.

        Kubeflow's pods do not name their queue.
        """
        if member.queue:
            return member.queue
        group = self.groups.get(member.job_id)
        return "" if group is None else group.queue

    def _task(self, uid: str, pod: PodEntry, entries: list[ContainerEntry]) -> NodeTask:
        member = pod.group
        assert member is not None, "only pods with a membership are tasks"
        started = [entry for entry in entries if entry.started]
        running = [
            MemberContainer(entry, cgroup)
            for entry in started
            for exists, cgroup in [self._look(entry)]
            if exists
        ]
        if running:
            status = TaskStatus.RUNNING
        else:
            status = TaskStatus.ENDED if started else TaskStatus.PENDING
        # What has ended uses nothing any more; what has not started will.
        asking = [one.entry for one in running]
        asking += [entry for entry in entries if not entry.started]
        info = TaskInfo(
            uid=uid,
            job=member.job_id,
            name=pod.name,
            namespace=pod.namespace,
            member=member,
            keys=pod.task_keys,
            priority=priority_of(pod.task_keys),
            demand=sum_demands(map(self._demand, asking)),
            status=status,
        )
        return NodeTask(info, tuple(running))

    def _look(self, entry: ContainerEntry) -> tuple[bool, str | None]:
        """Return whether a container that has started still runs, and its cgroup.

        Its runtime removes the cgroup when the container ends, and kubelet the
        container often much later. Without a view of cgroups it counts as running.
        """
        lifecycle = self._lifecycle
        if lifecycle.tree is None:
            return True, None
        cgroup = lifecycle.locator.cgroup_of(entry)
        if cgroup is None:
            return False, None
        return lifecycle.tree.files.exists(cgroup), cgroup

    def _demand(self, entry: ContainerEntry) -> Demand:
        given = resources_of_numbers(entry.numbers)
        return container_demand(given, self.memory_request_of(entry))

    def memory_request_of(self, entry: ContainerEntry) -> int | None:
        """Return what a container requests in bytes; None if it is not known."""
        given = resources_of_numbers(entry.numbers)
        limit = None if given is None else given.memory_limit_bytes
        kept = entry.kept
        return memory_request(
            entry.pod.qos_class,
            limit if isinstance(limit, int) else None,
            entry.allocated_request_bytes,
            entry.oom_score_adj if kept is None else kept.oom_score_adj,
            self._lifecycle.plan.facts.memory_capacity_bytes,
        )
