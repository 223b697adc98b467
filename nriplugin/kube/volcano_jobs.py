"""The pods that Volcano's controller makes of a Volcano Job, one for each task. Pure.

A task stands for its pods, which differ in name and index alone: the one with index 0
is made here. Where the Job leaves out a field, Volcano's admission fills it in, and so
does this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nriplugin.errors import ConfigError
from nriplugin.kube.podgroup import (
    GROUP_KEYS,
    INDEX_KEYS,
    JOB_KEYS,
    NUMA_POLICY_KEYS,
    PREEMPTABLE_KEY,
    QUEUE_KEYS,
    REVOCABLE_ZONE_KEY,
    TASK_KEYS,
    TEMPLATE_KEYS,
    VERSION_KEYS,
)
from nriplugin.kube.templates import MAX_TEMPLATES, Template, stated_replicas

API_GROUP = "batch.volcano.sh"
NAMESPACE_KEY = "volcano.sh/job-namespace"
RETRY_KEY = "volcano.sh/job-retry-count"
PARTITION_KEY = "volcano.sh/partition-id"
DEFAULT_QUEUE = "default"

# Of both, the controller copies the first alone.
_BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
# What the controller copies from the Job to its pods, if the Job has it.
_COPIED_ANNOTATIONS = (
    PREEMPTABLE_KEY,
    "volcano.sh/cooldown-time",
    REVOCABLE_ZONE_KEY,
    *_BUDGETS,
)
_COPIED_LABELS = (PREEMPTABLE_KEY, "volcano.sh/cooldown-time")


class TaskPod(NamedTuple):
    """The first pod of a task, with what the controller adds to its template."""

    name: str
    template: Template
    annotations: dict[str, str]
    labels: dict[str, str]


def group_of_job(name: str, uid: str) -> str:
    """Return the name of the PodGroup that the controller makes for a Job."""
    return f"{name}-{uid}"


def task_pods(job: Mapping[str, Any], name: str, uid: str, where: str) -> list[TaskPod]:
    """Return the first pod of each task of a Job.

    Raises:
        ConfigError: the Job has no tasks, too many, or one without a template.
    """
    spec = job.get("spec")
    spec = spec if isinstance(spec, Mapping) else {}
    tasks = spec.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        found = "missing" if not tasks else f"{tasks!r:.60}"
        raise ConfigError(f"{where}: spec.tasks: {found}, expected a list of tasks")
    if len(tasks) > MAX_TEMPLATES:
        raise ConfigError(
            f"{where}: spec.tasks: {len(tasks)} tasks, expected at most {MAX_TEMPLATES}"
        )
    metadata, status = _mapping(job.get("metadata")), _mapping(job.get("status"))
    copied = _copied(metadata.get("annotations"), _COPIED_ANNOTATIONS)
    if _BUDGETS[0] in copied:
        copied.pop(_BUDGETS[1], None)
    of_job = {
        GROUP_KEYS[0]: group_of_job(name, uid),
        JOB_KEYS[0]: name,
        QUEUE_KEYS[0]: str(spec.get("queue") or DEFAULT_QUEUE),
        VERSION_KEYS[0]: str(status.get("version") or 0),
        RETRY_KEY: str(status.get("retryCount") or 0),
        **copied,
    }
    labels = {
        JOB_KEYS[0]: name,
        QUEUE_KEYS[0]: of_job[QUEUE_KEYS[0]],
        **_copied(metadata.get("labels"), _COPIED_LABELS),
    }
    if metadata.get("namespace") is not None:
        labels[NAMESPACE_KEY] = str(metadata["namespace"])
    return [
        _task_pod(index, task, name, of_job, labels, where)
        for index, task in enumerate(tasks)
    ]


def _task_pod(
    index: int,
    task: object,
    job: str,
    of_job: Mapping[str, str],
    labels: Mapping[str, str],
    where: str,
) -> TaskPod:
    path = f"spec.tasks[{index}]"
    if not isinstance(task, Mapping):
        raise ConfigError(f"{where}: {path}: {task!r:.60}, expected a task")
    content = task.get("template")
    if not isinstance(content, Mapping):
        found = "missing" if content is None else f"{content!r:.60}"
        raise ConfigError(
            f"{where}: {path}.template: {found}, expected a pod's template"
        )
    name = str(task.get("name") or f"default{index}")
    of_task = {INDEX_KEYS[0]: "0", TASK_KEYS[0]: name}
    policy = task.get("topologyPolicy")
    numa = {NUMA_POLICY_KEYS[0]: str(policy)} if policy else {}
    # The pod with index 0 is in the first partition, however large these are.
    partition = {} if task.get("partitionPolicy") is None else {PARTITION_KEY: "0"}
    return TaskPod(
        name=f"{job}-{name}-0",
        template=Template(f"{path}.template", content, stated_replicas(task)),
        # The controller gives the template the name of the task.
        annotations={**of_task, **of_job, TEMPLATE_KEYS[0]: f"{job}-{name}", **numa},
        labels={**of_task, **labels, **partition},
    )


def _copied(given: object, keys: tuple[str, ...]) -> dict[str, str]:
    given = _mapping(given)
    return {key: str(given[key]) for key in keys if key in given}


def _mapping(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, Mapping) else {}
