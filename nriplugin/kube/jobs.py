"""Volcano's jobs and tasks, as its scheduler sees them, built from pods alone. Pure.

To the scheduler a job is a PodGroup with its pods, and a task is one of the pods. A
`TaskInfo` is made of a pod's keys and resources, which a node has without the API
server. A `JobInfo` is there from the first of its pods or its PodGroup object on, and
gone with the last of them. Amounts are in thousandths.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.kube.podgroup import NO_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nriplugin.kube.podgroup import Membership, TaskKeys
    from nriplugin.kube.podgroup_object import GroupObject

DEFAULT_PRIORITY = 1
_MAX_INT32 = 2**31 - 1

_NOTHING: Mapping[str, int] = MappingProxyType({})


class TaskStatus(StrEnum):
    """How far a pod is."""

    PENDING = "pending"  # none of its containers has started
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    # All of its containers have ended. A node is not told how, unless by a manifest.
    ENDED = "ended"


class JobPhase(StrEnum):
    """The phase of a Volcano Job."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    ABORTING = "Aborting"
    ABORTED = "Aborted"


_PHASES = {phase.value: phase for phase in JobPhase}

# A pod that has got as far as this counts for the least number of pods of its job.
_STARTED = frozenset(TaskStatus) - {TaskStatus.PENDING}


def phase_of(stated: str, min_available: int, started: int) -> JobPhase:
    """Return a job's phase by the rule of Volcano's controller.

    A job is pending by default, also if its phase is none that is known. It runs as
    soon as `min_available` of its pods are running, have succeeded or have failed.
    """
    phase = _PHASES.get(stated, JobPhase.PENDING)
    if phase is JobPhase.PENDING and min_available <= started:
        return JobPhase.RUNNING
    return phase


class Demand(NamedTuple):
    """What a pod, or several, request and are limited to."""

    requests: Mapping[str, int] = _NOTHING
    limits: Mapping[str, int] = _NOTHING
    # Containers for which a request or a limit is not known, and is left out.
    unknown: int = 0


class TaskInfo(NamedTuple):
    """A pod as the scheduler's task.

    The scheduler's Resreq and InitResreq are the same; both are `demand.requests`.
    """

    uid: str
    job: str  # NAMESPACE/GROUP; empty for a pod without a group
    name: str
    namespace: str
    member: Membership
    keys: TaskKeys = NO_KEYS
    priority: int = DEFAULT_PRIORITY
    demand: Demand = Demand()
    status: TaskStatus = TaskStatus.PENDING

    @property
    def best_effort(self) -> bool:
        """Whether the pod requests nothing, as far as its requests are known."""
        return not (self.demand.unknown or any(self.demand.requests.values()))


class TaskSums(NamedTuple):
    """What several pods are together."""

    demand: Demand
    by_status: Mapping[TaskStatus, int]
    by_task: Mapping[str, Mapping[TaskStatus, int]]  # by the name of the task

    @property
    def pods(self) -> int:
        """Return how many there are."""
        return sum(self.by_status.values())

    @property
    def started(self) -> int:
        """Return how many are running, have succeeded or have failed."""
        return sum(self.by_status.get(one, 0) for one in _STARTED)


class JobInfo(NamedTuple):
    """A job: its pods by UID, and its PodGroup object if that is known."""

    id: str
    tasks: Mapping[str, TaskInfo]
    group: GroupObject | None = None

    @property
    def sums(self) -> TaskSums:
        """Return what its pods are together."""
        return sum_tasks(self.tasks.values())

    @property
    def queue(self) -> str:
        """Return its queue: the PodGroup's, else that of its pods."""
        if self.group is not None:
            return self.group.queue
        return self._first("queue")

    @property
    def job(self) -> str:
        """Return the name of the Volcano Job that its pods name."""
        return self._first("job")

    @property
    def phase(self) -> JobPhase | None:
        """Return its phase; None without a PodGroup, as MinMember is not known then.

        Pods on other nodes count as far as the PodGroup's status has them.
        """
        if self.group is None:
            return None
        started = max(self.sums.started, self.group.started)
        return phase_of(self.group.phase, self.group.min_member, started)

    def _first(self, key: str) -> str:
        found = (getattr(task.member, key) for task in self.tasks.values())
        return next(filter(None, found), "")


def job_infos(
    tasks: Iterable[TaskInfo], groups: Mapping[str, GroupObject]
) -> dict[str, JobInfo]:
    """Return the jobs by ID: those of PodGroup objects and those that pods name."""
    of_job: dict[str, dict[str, TaskInfo]] = {one: {} for one in groups}
    for task in tasks:
        if task.job:
            of_job.setdefault(task.job, {})[task.uid] = task
    return {one: JobInfo(one, found, groups.get(one)) for one, found in of_job.items()}


def sum_tasks(tasks: Iterable[TaskInfo]) -> TaskSums:
    """Return what pods are together."""
    given = list(tasks)
    by_task: dict[str, Counter[TaskStatus]] = {}
    for task in given:
        by_task.setdefault(task.member.task, Counter())[task.status] += 1
    return TaskSums(
        sum_demands(task.demand for task in given),
        Counter(task.status for task in given),
        by_task,
    )


def sum_demands(demands: Iterable[Demand]) -> Demand:
    """Return the sum of what is requested, and of what it is limited to."""
    requests: Counter[str] = Counter()
    limits: Counter[str] = Counter()
    unknown = 0
    for one in demands:
        requests.update(one.requests)
        limits.update(one.limits)
        unknown += one.unknown
    return Demand(requests, limits, unknown)


def priority_of(keys: TaskKeys, of_pod: int | None = None) -> int:
    """Return a task's priority: its own key's, else the pod's, else 1."""
    text = keys.priority
    if text.removeprefix("-").isdecimal() and text.isascii() and len(text) <= 11:
        stated = int(text)
        if -_MAX_INT32 - 1 <= stated <= _MAX_INT32:
            return stated
    return DEFAULT_PRIORITY if of_pod is None else of_pod
