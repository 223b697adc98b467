"""The CRI calls that create, change or end pods and containers.

The proxy calls the methods here with requests and the runtime's answers. A creation or
an update is decided before the runtime gets it, and the decision's files are added to
the request. All other fields of the request stay, also those that this version of
nriplugin does not know. Work that depends on the runtime's answer, such as direct
writes after the runtime's own, is done when the runtime has answered without an error.

Calls arrive on many threads. Each call reads the plan once, so that no decision mixes
two configurations. If a decision is late, the proxy cancels it, and the deciding thread
must not write after that (`Cancellation` in state/pending.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from time import time
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from nriplugin.api import cri_pb2 as cri
from nriplugin.doors.cri.immediate import Undecidable, decide_immediately
from nriplugin.doors.cri.messages import described_pod, pod_of, resources_of
from nriplugin.doors.cri.methods import RUNTIME_SERVICE
from nriplugin.engine.idle import needs_cleared_shares
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.provenance import others_files
from nriplugin.engine.runtimes import oci_runtime_of
from nriplugin.engine.stale import numbers_of
from nriplugin.kube.managed import KEY as MANAGED_KEY
from nriplugin.kube.managed import render_managed
from nriplugin.state.creation_decision import decide_creation
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import NO_POD, ContainerEntry, summarise_pod

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Resources
    from nriplugin.doors.cri.discovery import Discovery
    from nriplugin.engine.decision import Decision
    from nriplugin.state.decision_cache import CachedDecision
    from nriplugin.state.inventory import PodEntry
    from nriplugin.state.lifecycle import Lifecycle
    from nriplugin.state.pending import Cancellation
    from nriplugin.state.pending_updates import PendingUpdate
    from nriplugin.state.plan import Plan


# The part of the work after the runtime's answer that may take long, such as writing
# files. The proxy runs it on another thread.
Rest = Callable[[], None]


class Prepared(NamedTuple):
    """A request for the runtime, and the work after the runtime's answer."""

    request: bytes
    then: Callable[[bytes], Rest | None] | None = None  # called with a good answer
    otherwise: Rest | None = None  # called if the runtime refused the request


class Interceptor:
    """Reads and rewrites calls. Any thread may call it."""

    def __init__(self, lifecycle: Lifecycle, discovery: Discovery) -> None:
        """Decide with a life-cycle, and look up unknown containers with `discovery`.

        A container is unknown if it was created before this process was started and the
        first discovery has not found it yet.
        """
        self._lifecycle = lifecycle
        self._discovery = discovery
        self._creations = itertools.count()
        prefix = f"/{RUNTIME_SERVICE}/"
        # Calls that wait for a decision, because it may change the request.
        self.rewriting: Mapping[str, Callable[[bytes, Cancellation], Prepared]] = {
            f"{prefix}CreateContainer": self._create,
            f"{prefix}UpdateContainerResources": self._update,
        }
        # Decisions to use instead if the ordinary decision fails or is late. A call
        # without such a decision is then forwarded unchanged.
        self.undecided: Mapping[str, Callable[[bytes], Prepared]] = {
            f"{prefix}UpdateContainerResources": self._update_immediately,
        }
        # Calls that are forwarded at once, and read with their answers afterwards.
        self.following: Mapping[str, Callable[[bytes, bytes], Rest | None]] = {
            f"{prefix}RunPodSandbox": self._pod_runs,
            f"{prefix}StartContainer": self._started,
            f"{prefix}StopContainer": self._container_ended,
            f"{prefix}RemoveContainer": self._container_ended,
            f"{prefix}StopPodSandbox": self._pod_ended,
            f"{prefix}RemovePodSandbox": self._pod_ended,
        }

    @property
    def fails_lost_updates(self) -> bool:
        """Whether to fail an update that would end with nriplugin's earlier values.

        A runtime on cgroup v1 keeps none.
        """
        plan = self._lifecycle.plan
        keeps = not plan.facts.direct_only
        return keeps and plan.config.base.resources.fail_lost_update

    # Pods

    def _pod_runs(self, request: bytes, response: bytes) -> None:
        asked = cri.RunPodSandboxRequest.FromString(request)
        sandbox_id = cri.RunPodSandboxResponse.FromString(response).pod_sandbox_id
        pod = pod_of(asked.config, oci_runtime_of(asked.runtime_handler))
        entry = summarise_pod(sandbox_id, pod, describe=True)
        self._lifecycle.inventory.put_pod_late(entry)

    def _pod_ended(self, request: bytes, response: bytes) -> Rest | None:
        sandbox_id = cri.PodSandboxRequest.FromString(request).pod_sandbox_id
        pod, containers = self._lifecycle.inventory.drop_pod(sandbox_id)
        cgroup = None if pod is None else pod.cgroup
        return self._lifecycle.pending.pod_removed(cgroup, containers)

    # Creation

    def _create(self, request: bytes, cancellation: Cancellation) -> Prepared:
        message = cri.CreateContainerRequest.FromString(request)
        if not message.config.HasField("linux"):
            return Prepared(request)
        lifecycle, plan = self._lifecycle, self._lifecycle.plan
        entry_of_pod = self._pod_of_creation(message)
        if not lifecycle.learning.files_known:
            plan = lifecycle.learning.look_at_files(entry_of_pod.cgroup)
        pod = described_pod(entry_of_pod, plan)
        resources = message.config.linux.resources
        container = Container(
            name=message.config.metadata.name,
            resources=resources_of(resources),
            oom_score_adj=resources.oom_score_adj,
        )
        container = lifecycle.requests.with_request(pod, container, plan)
        decided = lifecycle.decide_new(plan, pod, container)
        decision = decided.decision
        # Stands for the container until the runtime has given it an ID.
        key = f"creation {next(self._creations)}"
        pod_cgroup = entry_of_pod.cgroup
        lifecycle.pending.before_creation(
            key, decision.writes, pod_cgroup, cancellation=cancellation
        )
        entry = self._new_entry(entry_of_pod, container, decided)
        if decision.refused or decision.warnings:
            lifecycle.log.note(entry.path, decision)
        annotated = bool(entry.files) and not plan.facts.direct_only
        if annotated:
            record = render_managed(*entry.managed)
            message.config.annotations[MANAGED_KEY] = record
        if _put(decision, resources) or annotated:
            request = message.SerializeToString()
        refused = None
        if any(write.part for write in decision.writes):
            refused = partial(lifecycle.pending.creation_failed, key, pod_cgroup)
        then = partial(self._created, key, entry, decided)
        return Prepared(request, then, refused)

    def _new_entry(
        self, pod: PodEntry, container: Container, decided: CachedDecision
    ) -> ContainerEntry:
        """Return the entry of a new container, which has no ID yet."""
        decision = decided.decision
        sent = _sent(container.resources, decision)
        unified = {**sent.unified, **decision.files}
        return ContainerEntry(
            "",
            container.name,
            pod,
            files=decision.expected(),
            others=others_files(sent.unified, decision.files),
            numbers=numbers_of(sent),
            decision=decided.summary,
            kept=container._replace(resources=sent._replace(unified=unified)),
            decided_at=time(),
            shadow=decided.shadow,
            allocated_request_bytes=container.allocated_request_bytes,
        )

    def _created(
        self,
        key: str,
        entry: ContainerEntry,
        decided: CachedDecision,
        response: bytes,
    ) -> None:
        container_id = cri.CreateContainerResponse.FromString(response).container_id
        lifecycle = self._lifecycle
        lifecycle.pending.created(key, container_id)
        if entry.pod.described is not None:
            lifecycle.inventory.put_pod_late(entry.pod)
        kept = None if entry.kept is None else entry.kept._replace(id=container_id)
        entry = entry._replace(id=container_id, kept=kept)
        if not lifecycle.inventory.put_late(entry):
            return  # another call has removed the container meanwhile
        lifecycle.events.note(EventKind.CREATED, entry)
        lifecycle.pending.wait_for_start(container_id, decided.decision.writes)
        lifecycle.record_created(entry)
        if decided.protects:
            lifecycle.check_protection(entry, decided)

    def _started(self, request: bytes, response: bytes) -> Rest | None:
        container_id = cri.ContainerRequest.FromString(request).container_id
        lifecycle = self._lifecycle
        entry = lifecycle.inventory.get(container_id)
        # Created before this process was started, so no decision was made about it.
        unknown = entry is not None and entry.decision is None and not entry.started
        if entry is None or not (unknown or lifecycle.pending.has_to_start(entry.id)):
            lifecycle.start(container_id)
            return None
        return partial(self._write_at_start, entry, unknown=unknown)

    def _write_at_start(self, entry: ContainerEntry, *, unknown: bool) -> None:
        lifecycle = self._lifecycle
        if unknown and entry.kept is not None:
            # The container lacks only the direct writes of the decision. The runtime
            # has the values that were in the container's creation request.
            plan = lifecycle.plan
            pod = described_pod(self._pod_entry(entry.pod.id), plan)
            _, container = self._owned(entry, pod, plan)
            decision = decide_creation(plan, pod, container).decision
            lifecycle.pending.wait_for_start(entry.id, decision.writes)
        lifecycle.start(entry.id, self._located(entry).cgroups_path)

    # Updates

    def _update(self, request: bytes, cancellation: Cancellation) -> Prepared:
        message = cri.UpdateContainerResourcesRequest.FromString(request)
        if not message.HasField("linux"):
            return Prepared(request)
        lifecycle, plan = self._lifecycle, self._lifecycle.plan
        noted = lifecycle.inventory.get(message.container_id)
        entry = noted or self._discovery.container(message.container_id)
        entry = entry or ContainerEntry(message.container_id)
        of_pod = self._pod_entry(entry.pod.id)
        if of_pod.id:  # the entry may be older than what is known of its pod
            entry = entry._replace(pod=of_pod)
        pod = described_pod(of_pod, plan)
        entry, container = self._owned(self._located(entry), pod, plan)
        asked = resources_of(message.linux)
        lifecycle.make_room_for_update(plan, entry)
        decide = partial(lifecycle.decide_update, plan, entry, pod, container, asked)
        decision = decide()
        update = self._begin(message, entry, noted, decision, cancellation)
        if update and needs_cleared_shares(decision, container, update.unwritten):
            # The second decision takes the place of the first.
            decision = decide(writing=False)
            update = self._begin(message, entry, noted, decision, cancellation)
        return self._prepared(request, message, decision, update)

    def _update_immediately(self, request: bytes) -> Prepared:
        """Decide from the inventory alone, because the decision failed or was late.

        Raises:
            RequestFails: a handler is configured to fail the call.
            Exception: any other exception means that the update cannot be decided, and
                would end with nriplugin's earlier values if it were forwarded.
        """
        try:
            message = cri.UpdateContainerResourcesRequest.FromString(request)
        except DecodeError:
            return Prepared(request)  # the runtime cannot parse it either
        if not message.HasField("linux"):
            return Prepared(request)
        plan = self._lifecycle.plan
        if plan.facts.direct_only:
            return Prepared(request)
        noted = entry = self._lifecycle.inventory.get(message.container_id)
        if entry is None or entry.kept is None:
            raise Undecidable("the container is not known yet")
        if not entry.ours and not entry.kept.resources.unified:
            return Prepared(request)  # nriplugin set no value that could undo it
        of_pod = self._lifecycle.inventory.pod(entry.pod.id)
        if of_pod is None:
            raise Undecidable("the container's pod is not known yet")
        pod = described_pod(of_pod, plan)
        entry, container = self._owned(entry, pod, plan)
        asked = resources_of(message.linux)
        decision = decide_immediately(pod, container, asked, plan.facts, plan.config)
        update = self._begin(message, entry, noted, decision, None)
        return self._prepared(request, message, decision, update)

    def _begin(
        self,
        message: cri.UpdateContainerResourcesRequest,
        entry: ContainerEntry,
        noted: ContainerEntry | None,
        decision: Decision,
        cancellation: Cancellation | None,
    ) -> PendingUpdate | None:
        """Begin an update; None if its call was cancelled."""
        sent = _sent(resources_of(message.linux), decision)
        kept = _after_update(entry.kept or Container(id=entry.id), sent, decision)
        numbers = numbers_of(kept.resources)
        become = entry.after(decision, sent.unified, numbers)._replace(
            kept=kept, allocated_request_bytes=kept.allocated_request_bytes
        )
        return self._lifecycle.pending.updates.begin(
            entry, become, decision.writes, noted, cancellation
        )

    def _prepared(
        self,
        request: bytes,
        message: cri.UpdateContainerResourcesRequest,
        decision: Decision,
        update: PendingUpdate | None,
    ) -> Prepared:
        """Add a decision's files to an update request, for an update that has begun."""
        if _put(decision, message.linux):
            request = message.SerializeToString()
        if update is None:
            return Prepared(request)
        updates = self._lifecycle.pending.updates
        return Prepared(
            request,
            lambda response: updates.finish(update),
            partial(updates.failed, update),
        )

    # The end

    def _container_ended(self, request: bytes, response: bytes) -> Rest | None:
        container_id = cri.ContainerRequest.FromString(request).container_id
        return self._lifecycle.removed(container_id)

    # Look-ups in the inventory, with questions to the runtime where it has no entry

    def _pod_of_creation(self, message: cri.CreateContainerRequest) -> PodEntry:
        """Return the pod as the request describes it, which is newer than the entry.

        The request does not name the pod's OCI runtime, so that comes from the entry.
        """
        sandbox_id = message.pod_sandbox_id
        if not message.HasField("sandbox_config"):
            return self._pod_entry(sandbox_id)
        entry = self._lifecycle.inventory.pod(sandbox_id)
        described = None if entry is None else entry.described
        oci_runtime = None if described is None else described.oci_runtime
        pod = pod_of(message.sandbox_config, oci_runtime)
        if entry is not None and described == pod:
            return entry  # all containers of a pod share one description
        return summarise_pod(sandbox_id, pod, describe=True)

    def _pod_entry(self, sandbox_id: str) -> PodEntry:
        """Return a pod's entry; ask the runtime if the inventory has none."""
        entry = self._lifecycle.inventory.pod(sandbox_id)
        if entry is None and sandbox_id:
            entry = self._discovery.pod(sandbox_id)
            if entry is not None:
                self._lifecycle.inventory.put_pod_late(entry)
        return entry or NO_POD

    def _owned(
        self, entry: ContainerEntry, pod: Pod, plan: Plan
    ) -> tuple[ContainerEntry, Container]:
        """Return the entry and its container, with the values that nriplugin set."""
        kept = entry.kept or Container(id=entry.id)
        kept = self._lifecycle.requests.with_request(pod, kept, plan)
        if entry.kept is not None:
            entry = entry._replace(kept=kept)
        entry = self._lifecycle.own(entry, pod, kept, None, plan)
        return entry, self._lifecycle.with_ownership(kept, entry, plan)

    def _located(self, entry: ContainerEntry) -> ContainerEntry:
        """Return the entry with the container's cgroup, which CRI messages lack."""
        if entry.cgroups_path:
            return entry
        cgroup = self._lifecycle.locator.cgroup_of(entry)
        return entry if cgroup is None else entry._replace(cgroups_path=cgroup)


def _put(decision: Decision, resources: cri.LinuxContainerResources) -> bool:
    """Add a decision's files to a request; return whether that changed the request."""
    resources.unified.update(decision.files)
    if "cpu.shares" in decision.cleared:
        resources.cpu_shares = 0
    return bool(decision.files or decision.cleared)


def _sent(asked: Resources, decision: Decision) -> Resources:
    """Return the resources that the runtime gets; cleared shares are not given."""
    return asked._replace(shares=None) if decision.cleared else asked


def _after_update(
    container: Container, asked: Resources, decision: Decision
) -> Container:
    """Return the container with the resources that the runtime keeps after an update.

    Fields that the update does not give keep their values.
    """
    given = {
        field: value
        for field, value in asked._asdict().items()
        if value not in (None, ()) and field != "unified"
    }
    old = container.resources
    unified = {**old.unified, **asked.unified, **decision.files}
    return container._replace(resources=old._replace(**given, unified=unified))
