"""The part of `nriplugin status --by` about members of PodGroups, jobs and queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cli.amount_texts import amount_text, short_amount
from nriplugin.cli.layout import Tone, Toned, titles
from nriplugin.cli.times import latency, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.api import control_pb2 as control
    from nriplugin.cli.printing import Page

_RESOURCES = ("cpu", "memory", "io")


def draw_members(page: Page, groups: Sequence[control.ContainerGroup], by: str) -> None:
    """Add what is known about the members of each group, in three small tables."""
    found = [(one.name, one.members) for one in groups if one.members.pods]
    if not found:
        return
    names = ("pods", "running", "ended", "preemptable")
    page.text("")
    page.text("Members on this node:")
    rows = [titles(by, *names, "tasks")]
    for name, members in found:
        counts = [str(getattr(members, one)) for one in names]
        tasks = ", ".join(
            f"{task.name or '(no task)'} {task.pods}" for task in members.tasks
        )
        rows.append((name, *counts, tasks))
    page.table(rows, indent=2)
    _draw_objects(page, found, by)
    _draw_demand(page, found, by)
    _draw_usage(page, found, by)


def _draw_objects(
    page: Page, found: Sequence[tuple[str, control.GroupMembers]], by: str
) -> None:
    """Add what the PodGroup objects say."""
    rows = [
        (
            name,
            members.pod_group.phase,
            members.pod_group.queue,
            members.pod_group.priority_class or "none",
            str(members.pod_group.min_member),
            ", ".join(
                f"{task} {least}"
                for task, least in sorted(members.pod_group.min_task_member.items())
            ),
            ", ".join(
                f"{resource} {amount}"
                for resource, amount in sorted(members.pod_group.min_resources.items())
            ),
        )
        for name, members in found
        if members.HasField("pod_group")
    ]
    if rows:
        names = ("phase", "queue", "priority", "least", "of tasks", "resources")
        page.text("")
        page.table([titles(by, *names), *rows], indent=2)


def _draw_demand(
    page: Page, found: Sequence[tuple[str, control.GroupMembers]], by: str
) -> None:
    """Add what is requested, and what it is limited to."""
    rows = [titles(by, "cpu request", "limit", "memory request", "limit", "not known")]
    for name, members in found:
        requests, limits = members.requests, members.limits
        unknown = str(members.unknown_containers or "")
        rows.append(
            (
                name,
                amount_text("cpu", requests.milli_cpu),
                amount_text("cpu", limits.milli_cpu) if limits.milli_cpu else "none",
                short_amount("memory", requests.memory_bytes),
                short_amount("memory", limits.memory_bytes)
                if limits.memory_bytes
                else "none",
                Toned(unknown, Tone.WARNING),
            )
        )
    page.text("")
    page.table(rows, indent=2, numbers=True)


def _draw_usage(
    page: Page, found: Sequence[tuple[str, control.GroupMembers]], by: str
) -> None:
    """Add what the members suffer from: pressure is the highest of a container."""
    pressures = (f"{resource} pressure" for resource in _RESOURCES)
    rows = [titles(by, "throttled", "oom kills", *pressures)]
    for name, members in found:
        most = {one.resource: f"{one.most_avg60:.1f}%" for one in members.pressure}
        kills = members.oom_kills
        rows.append(
            (
                name,
                latency(members.throttled_seconds),
                Toned(str(kills), Tone.BAD if kills else None),
                *(most.get(resource, "") for resource in _RESOURCES),
            )
        )
    page.text("")
    page.table(rows, indent=2, numbers=True)


def draw_source(page: Page, found: control.PodGroupsStatus, now: float) -> None:
    """Add where PodGroup objects are taken from, if they are."""
    if not found.source:
        return
    page.section("PodGroups", 15)
    page.text(f"{found.objects} from {found.source}")
    if found.read_at:
        page.text(f"read {moment(found.read_at, now)}")
    if found.problem:
        page.text(Toned(found.problem, Tone.BAD))
    for one in found.failures:
        page.text(f"{one.reason}: {one.count}", indent=2)
