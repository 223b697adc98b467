"""Volcano's PodGroup objects, and those that its controller makes for Jobs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from nriplugin.errors import ConfigError
from nriplugin.kube.amounts import Amounts, read_amounts
from nriplugin.kube.volcano_jobs import DEFAULT_QUEUE, group_of_job

# The counts of pods in a PodGroup's status.
_STARTED = ("running", "succeeded", "failed")


class GroupObject(NamedTuple):
    """How many pods have to be placed at once, and in which queue they wait."""

    name: str
    namespace: str | None
    min_member: int
    min_task_member: Mapping[str, int]
    queue: str
    priority_class: str
    min_resources: Amounts
    phase: str
    job: str = ""  # the Volcano Job that the controller would make it for
    started: int = 0  # pods on all nodes that are running, have succeeded or failed

    @property
    def job_id(self) -> str:
        """Return the scheduler's name of its job."""
        return f"{self.namespace or ''}/{self.name}"


def read_group(content: Mapping[str, Any], name: str, where: str) -> GroupObject:
    """Read a PodGroup; fields that are absent have Volcano's defaults.

    Raises:
        ConfigError: a field is malformed.
    """
    spec = _mapping(content.get("spec"), f"{where}: spec")
    status = _mapping(content.get("status"), f"{where}: status")
    tasks = _mapping(spec.get("minTaskMember"), f"{where}: spec.minTaskMember")
    return GroupObject(
        name=name,
        namespace=_namespace(content),
        min_member=_count(spec.get("minMember"), f"{where}: spec.minMember"),
        min_task_member={
            str(task): _count(least, f"{where}: spec.minTaskMember.{task}")
            for task, least in tasks.items()
        },
        queue=str(spec.get("queue") or DEFAULT_QUEUE),
        priority_class=str(spec.get("priorityClassName") or ""),
        min_resources=read_amounts(
            spec.get("minResources"), f"{where}: spec.minResources"
        ),
        phase=str(status.get("phase") or "Pending"),
        started=sum(
            _count(status.get(key), f"{where}: status.{key}") for key in _STARTED
        ),
    )


def group_of_volcano_job(
    job: Mapping[str, Any], name: str, uid: str, where: str
) -> GroupObject:
    """Return the PodGroup that the controller would make for a Volcano Job.

    The least numbers of pods are those of the Job and its tasks; if one is absent, all
    pods have to be placed at once. MinResources is left out: how it is summed differs
    between versions of Volcano.

    Raises:
        ConfigError: a number of the Job is malformed.
    """
    spec = _mapping(job.get("spec"), f"{where}: spec")
    tasks: dict[str, int] = {}
    for index, task in enumerate(spec.get("tasks") or []):
        here = f"{where}: spec.tasks[{index}]"
        least = task.get("minAvailable")
        if least is None:
            total = _count(task.get("replicas"), f"{here}.replicas")
        else:
            total = _count(least, f"{here}.minAvailable")
        tasks[str(task.get("name") or f"default{index}")] = total
    stated = _count(spec.get("minAvailable"), f"{where}: spec.minAvailable")
    return GroupObject(
        name=group_of_job(name, uid),
        namespace=_namespace(job),
        min_member=stated or sum(tasks.values()),
        min_task_member=tasks,
        queue=str(spec.get("queue") or DEFAULT_QUEUE),
        priority_class=str(spec.get("priorityClassName") or ""),
        min_resources={},
        phase="Pending",
        job=name,
    )


def _namespace(content: Mapping[str, Any]) -> str | None:
    metadata = content.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return None if namespace is None else str(namespace)


def _mapping(given: object, where: str) -> Mapping[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {given!r:.60}, expected fields")
    return given


def _count(given: object, where: str) -> int:
    if given is None:
        return 0
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ConfigError(f"{where}: {given!r:.60}, expected a number of pods")
    return given
