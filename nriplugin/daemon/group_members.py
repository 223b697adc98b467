"""The members of a PodGroup, a job or a queue on this node, for `status --by`.

What the kernel has counted is read from the cgroups of the containers that run, by the
thread that asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.daemon.cgroup_usage import RESOURCES, pressure_of, usage_of
from nriplugin.daemon.plain import valid_text
from nriplugin.kube.jobs import TaskStatus, sum_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nriplugin.kube.jobs import JobInfo
    from nriplugin.kube.podgroup_object import GroupObject
    from nriplugin.state.job_table import JobTable, NodeTask
    from nriplugin.state.lifecycle import Lifecycle

# What `by` has members for; one pod is a member of one of each at most.
MEMBERSHIPS = ("group", "job", "queue")


def members_by(lifecycle: Lifecycle, by: str) -> dict[str, control.GroupMembers]:
    """Return the members of each PodGroup, job or queue by its name."""
    table = lifecycle.jobs
    tasks = table.tasks()
    of_name: dict[str, list[NodeTask]] = {}
    for task in tasks:
        name = _name_of(task, by, table)
        if name:
            of_name.setdefault(name, []).append(task)
    jobs = table.jobs(tasks) if by == "group" else {}
    return {
        name: _members(lifecycle, found, jobs.get(name))
        for name, found in of_name.items()
    }


def _name_of(task: NodeTask, by: str, table: JobTable) -> str:
    member = task.info.member
    if by == "group":
        return member.job_id
    if by == "job":
        return f"{task.info.namespace}/{member.job}" if member.job else ""
    return table.queue_of(member)


def _members(
    lifecycle: Lifecycle, tasks: list[NodeTask], job: JobInfo | None
) -> control.GroupMembers:
    infos = [task.info for task in tasks]
    sums = sum_tasks(infos)
    of_status = sums.by_status
    members = control.GroupMembers(
        pods=sums.pods,
        pending=of_status.get(TaskStatus.PENDING, 0),
        running=of_status.get(TaskStatus.RUNNING, 0),
        ended=of_status.get(TaskStatus.ENDED, 0),
        tasks=[
            control.TaskMembers(
                name=valid_text(name),
                pods=sum(counts.values()),
                running=counts.get(TaskStatus.RUNNING, 0),
            )
            for name, counts in sorted(sums.by_task.items())
        ],
        requests=_amounts(sums.demand.requests),
        limits=_amounts(sums.demand.limits),
        unknown_containers=sums.demand.unknown,
        preemptable=sum(info.keys.preemptable for info in infos),
    )
    if job is not None:
        members.queue = valid_text(job.queue)
        members.job = valid_text(job.job)
        if job.group is not None:
            members.pod_group.CopyFrom(_object(job.group, job))
    _add_usage(members, lifecycle, tasks)
    return members


def _amounts(given: Mapping[str, int]) -> control.Amounts:
    memory = given.get("memory", 0)
    return control.Amounts(
        milli_cpu=given.get("cpu", 0), memory_bytes=-(-memory // 1000)
    )


def _object(group: GroupObject, job: JobInfo) -> control.PodGroupObject:
    return control.PodGroupObject(
        min_member=group.min_member,
        min_task_member={
            valid_text(name): least for name, least in group.min_task_member.items()
        },
        queue=valid_text(group.queue),
        priority_class=valid_text(group.priority_class),
        min_resources={
            valid_text(name): valid_text(str(amount))
            for name, amount in group.min_resources.items()
        },
        phase=job.phase or "",
        stated_phase=valid_text(group.phase),
    )


def _add_usage(
    members: control.GroupMembers, lifecycle: Lifecycle, tasks: Iterable[NodeTask]
) -> None:
    tree = lifecycle.tree
    if tree is None or tree.version != 2:
        return
    waited: dict[str, int] = {}
    most: dict[str, float] = {}
    for one in (one for task in tasks for one in task.running):
        if one.cgroup is None:
            continue
        used = usage_of(tree, one.cgroup)
        if used is not None:
            members.throttled_periods += used.throttled_periods
            members.throttled_seconds += used.throttled_us / 1e6
            members.oom_kills += used.oom_kills
        for resource, stall in pressure_of(tree, one.cgroup).items():
            waited[resource] = waited.get(resource, 0) + stall.total_us
            most[resource] = max(most.get(resource, 0.0), stall.avg60)
    members.pressure.extend(
        control.GroupPressure(
            resource=resource,
            some_seconds=waited[resource] / 1e6,
            most_avg60=most[resource],
        )
        for resource in RESOURCES
        if resource in waited
    )
