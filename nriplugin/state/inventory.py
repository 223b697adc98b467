"""The pods and containers of the node: their values, who set them, and why.

One inventory serves every long-lived door. An entry is a summary of about 1 KB, because
a parsed request would need ten times as much. Entries are immutable, and every change
replaces an entry, so `get(id) is entry` says that the container has not changed since
the caller got `entry`.

The CRI door handles calls on many threads, so a creation may be noted after the removal
of the same container. The IDs of pods and containers that have ended are therefore
remembered for a while, and `put_late` and `put_pod_late` ignore them. That is safe,
because a runtime never uses an ID twice.
"""

from __future__ import annotations

import threading
from enum import StrEnum
from functools import lru_cache
from sys import intern
from time import time
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.paths import cgroup_of, cgroup_of_parent
from nriplugin.engine.policy_settings import annotations_of_policies
from nriplugin.kube.managed import Managed
from nriplugin.kube.podgroup import (
    NO_KEYS,
    Membership,
    TaskKeys,
    membership,
    task_keys,
)
from nriplugin.kube.qos import qos_of_cgroup
from nriplugin.state.decision_summary import summarise

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping

    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container as EngineContainer
    from nriplugin.engine.model import Pod
    from nriplugin.state.decision_summary import DecisionSummary

# How many ended IDs are remembered. A node ends fewer pods and containers than this
# while one call is under way.
REMEMBERED_ENDS = 4096

NO_FILES: Mapping[str, str] = MappingProxyType({})


class PodEntry(NamedTuple):
    """What the inventory knows about a pod."""

    id: str = ""  # of its sandbox
    uid: str = ""
    name: str = ""
    namespace: str = ""
    cgroup_parent: str = ""  # as kubelet gives it: a path, or the name of a slice
    group: Membership | None = None  # its PodGroup, job, queue and task
    # The pod with its labels and annotations. Only the CRI door needs it: an update
    # over CRI, unlike one over NRI, does not repeat them.
    described: Pod | None = None
    # The pod as bytes, kept by the NRI door where memory requests may change without a
    # message that repeats the pod. Decoded, it would take several times the memory.
    message: bytes = b""
    # What policies read of its annotations, unless the pod is described: a policy may
    # be switched on while the container runs.
    annotations: tuple[tuple[str, str], ...] = ()
    task_keys: TaskKeys = NO_KEYS  # what else Volcano's keys say

    @property
    def qos_class(self) -> str | None:
        """Return the QoS class, by the pod's cgroup."""
        return qos_of_cgroup(self.cgroup_parent)

    @property
    def cgroup(self) -> str | None:
        """Return the pod's cgroup, if the door knows it."""
        return cgroup_of_parent(self.cgroup_parent) if self.cgroup_parent else None


NO_POD = PodEntry()


class EntryState(StrEnum):
    """What nriplugin has done to a container."""

    MANAGED = "managed"  # it has values from nriplugin
    SKIPPED = "skipped"  # it has none; `ContainerEntry.reason` says why
    ADOPTED = "adopted"  # it existed already when nriplugin gave it its values
    MISSED = "missed"  # it was created without nriplugin, which has values for it
    SHADOWED = "shadowed"  # its values are only shown, because of shadow mode
    DRIFTED = "drifted"  # a file holds another value than the decided one


class ContainerEntry(NamedTuple):
    """What the inventory knows about a container."""

    id: str
    name: str = ""
    pod: PodEntry = NO_POD
    cgroups_path: str = ""  # `linux.cgroupsPath` of its OCI spec, or its cgroup
    # Values that this process has decided about: the files have them, or will have them
    # once the runtime has done its part.
    files: Mapping[str, str] = NO_FILES
    # Values that nriplugin set earlier and would not set now.
    outdated: Mapping[str, str] = NO_FILES
    # Values that another plugin or a user had set when the container was created.
    others: Mapping[str, str] = NO_FILES
    # The numbers that kubelet sent (shares, quota, period, memory limit) in the format
    # of the record (kube/managed.py); empty if they are not known.
    numbers: str = ""
    # Whether the runtime has started the container, and so has written all its files.
    # Before that, a file with another value has not drifted.
    started: bool = False
    # Whether `files`, `outdated` and `others` are known. If not, they are determined
    # when the container is updated (`Lifecycle.own`).
    owned: bool = True
    # Why `files` have their values; None for a container that was never decided about.
    decision: DecisionSummary | None = None
    adopted: bool = False
    # The container with the resources that the runtime keeps for it. Only the CRI door
    # needs it: an update over CRI, unlike one over NRI, does not repeat them.
    kept: EngineContainer | None = None
    # When the decision was made, in seconds since 1970; 0 if this process made none.
    decided_at: float = 0.0
    # In shadow mode: the values that the container would get. Nothing was sent.
    shadow: Mapping[str, str] = NO_FILES
    # The request in kubelet's checkpoint that `files` were decided with, if any.
    allocated_request_bytes: int | None = None
    # One sentence about when the container was created without nriplugin; else empty.
    missed: str = ""
    lacks: Mapping[str, str] = NO_FILES  # the values that such a container would get
    # Kubelet's OOM score, from which the memory request of a pod in a job is estimated;
    # None in other pods, and where `kept` has it.
    oom_score_adj: int | None = None

    @property
    def cgroup(self) -> str | None:
        """Return the container's cgroup, if the door knows it."""
        return cgroup_of(self.cgroups_path) if self.cgroups_path else None

    @property
    def pod_cgroup(self) -> str | None:
        """Return the cgroup of the container's pod, if the door knows it."""
        own = self.pod.cgroup
        if own is None and (cgroup := self.cgroup) is not None:
            return cgroup.rpartition("/")[0] or None
        return own

    @property
    def ours(self) -> Mapping[str, str]:
        """Return all values that nriplugin set."""
        return {**self.outdated, **self.files} if self.outdated else self.files

    @property
    def managed(self) -> Managed:
        """Return the record that the next process is to find for this container."""
        return Managed(self.ours, self.others, self.numbers)

    @property
    def path(self) -> str:
        """Return NAMESPACE/POD/CONTAINER, for log lines."""
        name = self.name or self.id[:13]
        return f"{self.pod.namespace}/{self.pod.name}/{name}"

    @property
    def state(self) -> EntryState:
        """Return what nriplugin has done to the container, drift aside.

        Whether it has drifted is asked of the inventory (`Inventory.drift_of`).
        """
        if self.adopted:
            return EntryState.ADOPTED
        if self.ours:
            return EntryState.MANAGED
        if self.shadow:
            return EntryState.SHADOWED
        return EntryState.MISSED if self.missed else EntryState.SKIPPED

    @property
    def reason(self) -> str:
        """Return why the container has no values of nriplugin's; empty if it has."""
        if self.adopted or self.ours:
            return ""
        if self.shadow:
            return "shadow mode: its values are shown and not set"
        if self.missed:
            return self.missed
        if self.decision is None:
            return "it is older than this process, or was created without nriplugin"
        skipped = self.decision.skipped
        return skipped[0] if skipped else "no handler had a value for it"

    def at_start(self, cgroups_path: str) -> ContainerEntry:
        """Return the entry of the container once it has started.

        Every container start comes here, and `_replace` takes several times as long.
        """
        return ContainerEntry._make(
            (*self[:3], cgroups_path, *self[4:8], True, *self[9:])
        )

    def after(
        self, decision: Decision, explicit: Container[str], numbers: str
    ) -> ContainerEntry:
        """Return the entry that the container has once an update is done.

        Args:
            decision: the decision about the update.
            explicit: files that kubelet or another plugin sets with the update; those
                values are not from nriplugin any more.
            numbers: the container's numbers after the update.
        """
        files = {f: v for f, v in self.files.items() if f not in explicit}
        files.update(decision.expected())
        outdated = {
            f: v
            for f, v in self.outdated.items()
            if f not in explicit and f not in files
        }
        return self._replace(
            files=files,
            outdated=outdated,
            numbers=numbers,
            decision=summarise(decision),
            decided_at=time(),
            shadow=self._shadow_after(decision, explicit),
        )

    def _shadow_after(
        self, decision: Decision, explicit: Container[str]
    ) -> Mapping[str, str]:
        """Return the values to show after an update, whose decision names only some."""
        if decision.shadow is None:
            return NO_FILES
        before = self.shadow or self.files
        kept = {f: v for f, v in before.items() if f not in explicit}
        return {**kept, **decision.shadow.expected()}


def summarise_pod(
    sandbox_id: str,
    pod: Pod,
    *,
    grouped: bool = True,
    describe: bool = False,
    message: bytes = b"",
    annotated: bool = True,
) -> PodEntry:
    """Return the inventory's entry of a pod.

    Args:
        sandbox_id: the ID of its sandbox.
        pod: the pod.
        grouped: whether it may have PodGroup keys; False saves looking for them.
        describe: whether to keep the pod with its labels and annotations.
        message: the pod as bytes, if it is to be kept so.
        annotated: whether it may have annotations of nriplugin's, as for `grouped`.
    """
    group, keys = None, NO_KEYS
    if grouped:
        found = membership(pod.namespace, pod.labels, pod.annotations)
        # Interned, because all pods of a group have the same texts.
        group = Membership(*map(intern, found)) if any(found) else None
        keys = _shared(task_keys(pod.labels, pod.annotations))
    described = pod if describe else None
    own: tuple[tuple[str, str], ...] = ()
    if annotated and not describe:
        own = annotations_of_policies(pod.annotations)
    return PodEntry(
        *(sandbox_id, pod.uid, pod.name, intern(pod.namespace), pod.cgroup_parent),
        *(group, described, message, own, keys),
    )


@lru_cache(maxsize=64)
def _shared(keys: TaskKeys) -> TaskKeys:
    """Return one object for equal keys: all pods of a task have the same."""
    return keys


class Inventory:
    """Pods and containers by ID. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[str, PodEntry] = {}
        self._containers: dict[str, ContainerEntry] = {}
        # Files that hold another value than the decided one, by container. They are
        # not part of an entry: a replaced entry is a new decision, and drift is none.
        self._drift: dict[str, tuple[str, ...]] = {}
        self._ended: dict[str, None] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._containers)

    # A dict's own operations are atomic, so look-ups take no lock.

    def get(self, container_id: str) -> ContainerEntry | None:
        """Return a container."""
        return self._containers.get(container_id)

    def pod(self, sandbox_id: str) -> PodEntry | None:
        """Return a pod."""
        return self._pods.get(sandbox_id)

    def put(self, entry: ContainerEntry) -> None:
        """Add a container, or replace its entry."""
        with self._lock:
            self._containers[entry.id] = entry

    def put_pod(self, entry: PodEntry) -> None:
        """Add a pod, or replace its entry."""
        with self._lock:
            self._pods[entry.id] = entry

    def put_late(self, entry: ContainerEntry) -> bool:
        """Add a container or replace its entry, unless it or its pod has ended."""
        with self._lock:
            if self._has_ended(entry):
                return False
            self._containers[entry.id] = entry
            return True

    def put_pod_late(self, entry: PodEntry) -> None:
        """Add a pod or replace its entry, unless the pod has ended."""
        with self._lock:
            if entry.id not in self._ended:
                self._pods[entry.id] = entry

    def change(self, was: ContainerEntry, entry: ContainerEntry) -> bool:
        """Replace the entry `was`; return whether it was still the container's entry.

        It is not if the container is gone or another thread has replaced the entry.
        """
        with self._lock:
            if self._containers.get(entry.id) is not was:
                return False
            self._containers[entry.id] = entry
            return True

    def drop(self, container_id: str) -> ContainerEntry | None:
        """Forget a container that is gone."""
        with self._lock:
            self._remember_end(container_id)
            self._drift.pop(container_id, None)
            return self._containers.pop(container_id, None)

    def drop_pod(self, sandbox_id: str) -> tuple[PodEntry | None, list[str]]:
        """Forget a pod that is gone; return it and the IDs of its containers."""
        with self._lock:
            self._remember_end(sandbox_id)
            of_pod = [
                container_id
                for container_id, entry in self._containers.items()
                if entry.pod.id == sandbox_id
            ]
            for container_id in of_pod:
                del self._containers[container_id]
                self._drift.pop(container_id, None)
            return self._pods.pop(sandbox_id, None), of_pod

    def replace(
        self, pods: Mapping[str, PodEntry], containers: Mapping[str, ContainerEntry]
    ) -> None:
        """Drop all entries and keep these: Synchronize lists everything that exists."""
        with self._lock:
            self._pods, self._containers = dict(pods), dict(containers)
            self._drift = {i: f for i, f in self._drift.items() if i in containers}

    def merge(
        self,
        before: tuple[Collection[str], Collection[str]],
        pods: Mapping[str, PodEntry],
        containers: Mapping[str, ContainerEntry],
    ) -> None:
        """Add the pods and containers of a listing that took time while calls went on.

        Existing entries stay, because they say more than the listing does. An entry
        that existed before the listing began (`before`, as `ids` returned it) and is
        not listed is dropped. A listed ID that has ended since is not added.
        """
        pods_before, containers_before = before
        with self._lock:
            listed_pods = {i: pod for i, pod in pods.items() if i not in self._ended}
            listed = {i: c for i, c in containers.items() if not self._has_ended(c)}
            self._pods = {
                **listed_pods,
                **{
                    one: pod
                    for one, pod in self._pods.items()
                    if one in listed_pods or one not in pods_before
                },
            }
            self._containers = {
                **listed,
                **{
                    one: entry
                    for one, entry in self._containers.items()
                    if one in listed or one not in containers_before
                },
            }

    def drift_of(self, container_id: str) -> tuple[str, ...]:
        """Return the files that hold another value than the decided one."""
        return self._drift.get(container_id, ())

    def state_of(self, entry: ContainerEntry) -> EntryState:
        """Return what nriplugin has done to a container, or that it has drifted."""
        return EntryState.DRIFTED if entry.id in self._drift else entry.state

    def note_drift(self, container_id: str, files: tuple[str, ...]) -> None:
        """Keep which files of an existing container have drifted; none ends that."""
        with self._lock:
            if files and container_id in self._containers:
                self._drift[container_id] = files
            else:
                self._drift.pop(container_id, None)

    def ids(self) -> tuple[set[str], set[str]]:
        """Return the IDs of all pods and of all containers."""
        with self._lock:
            return set(self._pods), set(self._containers)

    def pods(self) -> list[PodEntry]:
        """Return all pods as they are now."""
        with self._lock:
            return list(self._pods.values())

    def snapshot(self) -> dict[str, ContainerEntry]:
        """Return all containers as they are now."""
        with self._lock:
            return self._containers.copy()

    def _has_ended(self, entry: ContainerEntry) -> bool:
        return entry.id in self._ended or entry.pod.id in self._ended

    def _remember_end(self, ended: str) -> None:
        self._ended[ended] = None
        if len(self._ended) > REMEMBERED_ENDS:
            del self._ended[next(iter(self._ended))]
