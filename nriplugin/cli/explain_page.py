"""What `nriplugin explain` shows people: what changes first, what is ignored second.

The rest follows from Kubernetes and the runtime, with nriplugin and without it: the
numbers, the cgroups, what kubelet writes. It is shown with --details.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cli.layout import Tone, Toned
from nriplugin.engine.decision import EXACT, RESOURCES, Level

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nriplugin.cli.printing import Page
    from nriplugin.explained import (
        ExplainedContainer,
        ExplainedFile,
        ExplainedPod,
        ExplainedWrite,
    )
    from nriplugin.kube.podgroup_object import GroupObject

FOLDED = (
    "--details also shows requests and limits, the numbers that kubelet sends, "
    "cgroups, what kubelet writes, and the rule behind every value."
)
_CGROUPS = {
    Level.CONTAINER.value: "the container's cgroup",
    Level.POD.value: "the pod's cgroup",
    Level.ANCESTORS.value: "the cgroups of the pod and above",
}


def draw_pod(page: Page, pod: ExplainedPod, *, v1: bool, details: bool) -> None:
    """Add a pod with all of its containers to a page, of a node with v1 or v2."""
    facts = [pod.qos_class]
    if pod.replicas is not None:
        facts.append(f"{pod.replicas} replica{'s'[: pod.replicas != 1]}")
    if pod.path not in ("", "spec.template"):
        facts.append(f"template at {pod.path}")
    title = Toned(f"{pod.kind} {pod_title(pod)}", Tone.TITLE)
    page.text(title, f"({', '.join(facts)})", hanging=2)
    for warning in pod.warnings:
        page.text(Toned("warning:", Tone.WARNING), warning, indent=2, hanging=2)
    if details:
        rows = [
            ("curve", f"{pod.curve} ({pod.curve_evidence})"),
            *pod.cgroups.items(),
            ("kubelet writes", joined(pod.pod_v1 if v1 else pod.pod_v2)),
        ]
        if pod.task is not None:
            rows.append(("task", _task_text(pod.task)))
        if pod.added_annotations:
            rows.append(("annotations", joined(pod.added_annotations)))
        page.table(rows, indent=2)
    for container in pod.containers:
        _draw_container(page, container, details=details)
    page.text("")


def _task_text(task: Mapping[str, object]) -> str:
    """Return what the scheduler makes of a pod, in one line."""
    name = f"{task['name']} {task['index']}".strip() or "no task"
    parts = [f"{name} of {task['job']}", f"priority {task['priority']}"]
    if task["queue"]:
        parts.append(f"queue {task['queue']}")
    words = (("best_effort", "best effort"), ("preemptable", "preemptable"))
    parts += [word for key, word in words if task[key]]
    return ", ".join(parts)


def pod_title(pod: ExplainedPod) -> str:
    """Return the namespace and the name of a pod."""
    return pod.name if pod.namespace is None else f"{pod.namespace}/{pod.name}"


def _draw_container(
    page: Page, container: ExplainedContainer, *, details: bool
) -> None:
    role = "" if container.role == "app" else f"({container.role})"
    settings = f"settings of {container.settings}" if container.settings else ""
    title = Toned(f"container {container.name}", Tone.TITLE)
    page.text(title, *filter(None, (role, settings)), indent=2, hanging=2)
    if container.shadow:
        text = "shadow mode: these values are only shown, and not set"
        page.text(Toned(text, Tone.WARNING), indent=4, hanging=2)
    if details:
        page.table(numbers(container), indent=4)
    changed = list(changes(container))
    if changed:
        page.table([(Toned(one, Tone.GOOD), why) for one, why in changed], indent=4)
    same = [file for file in container.files if is_native(file)]
    if same and details:
        rows = [(f"{one.file} = {one.value}", reason(one)) for one in same]
        page.table(rows, indent=4)
    elif same:
        values = ", ".join(f"{one.file} = {one.value}" for one in same)
        text = "as without nriplugin:"
        page.text(Toned(text, Tone.FAINT), values, indent=4, hanging=2)
    for what, why in ignored(container):
        page.text(Toned(what, Tone.WARNING), why, indent=4, hanging=2)
    for note in container.notes if details else ():
        page.text("note:", note, indent=4, hanging=2)


def numbers(container: ExplainedContainer) -> list[tuple[str, str]]:
    """Return what the manifest says of a container, and what kubelet makes of it."""
    requests = joined(container.requests)
    if container.defaulted:
        requests += f" ({', '.join(container.defaulted)} from limits)"
    return [
        ("requests", requests),
        ("limits", joined(container.limits)),
        ("kubelet sends", joined({**container.sent, **container.sent_files})),
    ]


def changes(container: ExplainedContainer) -> Iterator[tuple[str, str]]:
    """Yield the values that there would not be without nriplugin, and why they are."""
    for file in container.files:
        if not is_native(file):
            yield f"{file.file} = {file.value}", reason(file)
    for write in container.writes:
        yield f"{write.file} = {write.value}", _written(write)
    for field in container.cleared:
        yield f"{field} cleared", 'sent as 0, which is "not given"'


def ignored(container: ExplainedContainer) -> Iterator[tuple[str, str]]:
    """Yield what has no effect, or not the one that it seems to, and why."""
    for left in container.left:
        yield f"{left['what']} left alone:", left["why"]
    for refusal in container.refused:
        yield f"refused ({refusal['reason']}):", refusal["text"]
    for one in container.clamped:
        what = f"{one['field']} {one['given']} taken as {one['used']}:"
        yield what, str(one["reason"])
    for dropped in container.dropped:
        yield f"{dropped['field']} dropped:", str(dropped["reason"])


def is_native(file: ExplainedFile) -> bool:
    """Whether the runtime writes the same by itself."""
    return file.value == file.native


def reason(file: ExplainedFile) -> str:
    """Return what a value follows from."""
    if file.handler == RESOURCES:
        return f"from {', '.join(file.fields)}; {file.rule}"
    return f"{file.handler}: {file.rule}; {file.source}{_sure(file)}"


def _written(write: ExplainedWrite) -> str:
    where = _CGROUPS.get(write.level, write.level)
    return (
        f"{write.handler}: written to {where} {write.when} the runtime's; "
        f"{write.rule}; {write.source}{_sure(write)}"
    )


def _sure(one: ExplainedFile | ExplainedWrite) -> str:
    return "" if one.confidence == EXACT else f" ({one.confidence})"


def joined(values: Mapping[str, object]) -> str:
    """Return values with their names in one line."""
    return ", ".join(f"{name} {value}" for name, value in values.items()) or "none"


def draw_group(page: Page, group: GroupObject) -> None:
    """Add a PodGroup to a page."""
    name = group.name if group.namespace is None else f"{group.namespace}/{group.name}"
    page.text(Toned(f"PodGroup {name}", Tone.TITLE))
    facts = [
        ("min members", str(group.min_member)),
        ("of tasks", joined(group.min_task_member)),
        ("min resources", _min_resources(group)),
        ("queue", group.queue),
        ("priority class", group.priority_class or "none"),
        ("phase", group.phase),
    ]
    if group.job:
        facts.append(("made for", f"the Volcano Job {group.job}"))
    page.table(facts, indent=2)
    page.text("")


def _min_resources(group: GroupObject) -> str:
    if group.job:
        return "not computed: Volcano's versions sum them differently"
    return joined(group.min_resources)
