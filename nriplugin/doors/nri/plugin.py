"""The NRI plugin: reads a request, asks for a decision, answers with `unified` keys.

It is composed of the life-cycle (state/lifecycle.py), which decides and keeps the
inventory, and of the adoption (adoption.py), which corrects existing containers at
Synchronize. The SDK calls the plugin on one thread, one request at a time. Other
threads run `apply` (the configuration watch), `fallback_update` (the SDK's watchdog,
while `update_container` is late), and the jobs for the background thread.

A pod's bytes are decoded at most once per request, and not at all for a further
container of a known pod where only the container's numbers count.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from time import time
from types import MappingProxyType
from typing import TYPE_CHECKING

from nriplugin.api import view_pb2 as view
from nriplugin.convert.readers import core_from_nri
from nriplugin.doors.nri.adoption import Adoption
from nriplugin.doors.nri.messages import (
    OUR_SUFFIX,
    decode_pod,
    existing_entry,
    managed_of,
    name_of,
    pod_entry,
    read_container,
    read_existing,
    read_kept_pod,
    read_pod,
    score_in_job,
)
from nriplugin.doors.nri.responses import update_response
from nriplugin.engine.decide import decide_update
from nriplugin.engine.idle import needs_cleared_shares
from nriplugin.errors import ConversionError, RequestFails
from nriplugin.nri import Plugin
from nriplugin.nri.releases import release_of
from nriplugin.state.corrections import Correction
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import NO_FILES, ContainerEntry, PodEntry
from nriplugin.state.lifecycle import NO_POD, after_update, log_direct_only

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.config import Config
    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container, Pod
    from nriplugin.state.decision_cache import CachedDecision
    from nriplugin.state.lifecycle import Lifecycle
    from nriplugin.state.plan import Plan

_log = logging.getLogger(__name__)

# How long after an update that was answered without the handlers the full decision is
# made. The runtime has finished the update by then.
DECIDE_AGAIN_S = 5.0


class NodePlugin(Plugin):
    """Decides about every container of a node."""

    views = MappingProxyType(
        {
            "create_container": view.CreateContainerRequest,
            "update_container": view.UpdateContainerRequest,
            "start_container": view.ContainerEvent,
            "post_update_container": view.ContainerEvent,
            "remove_container": view.ContainerEvent,
            "synchronize": view.SynchronizeRequest,
        }
    )

    def __init__(self, lifecycle: Lifecycle, unreadable_because: str = "") -> None:
        """Decide with a life-cycle that renders responses with `responses.adjustment`.

        `unreadable_because` is the reason, for the log, if the life-cycle has no tree.
        """
        self.lifecycle = lifecycle
        self._adoption = Adoption(lifecycle, self.enqueue_update)
        lifecycle.verifier.repairs.send = self._adoption.send_again
        lifecycle.correct_after_silence = self._adoption.correct_after_silence
        lifecycle.requests.correct = self._adoption.correct
        lifecycle.requests.read_pod = read_kept_pod
        lifecycle.policies.read_pod = read_kept_pod
        self._unreadable_because = unreadable_because
        self._applying = threading.Lock()

    def close(self) -> None:
        """Stop the background work and close the direct writer."""
        self.lifecycle.close()

    @property
    def plan(self) -> Plan:
        """Return the plan in force."""
        return self.lifecycle.plan

    def apply(self, config: Config) -> None:
        """Put a configuration in force, also while serving."""
        config = self.lifecycle.effective(config)
        with self._applying:  # the runtime and the file may both bring one
            self.lifecycle.apply(config)
            self.failure_policy = config.failure_policy
            withdrawn = self.lifecycle.plans.withdrawn
            adopts = config.adopt.enabled and not withdrawn
            self._adoption.adopt = config.adopt if adopts else None
            self._adoption.repairs = config.repair.enabled and not withdrawn
            if config.repair.enabled and self.lifecycle.pending.writer is None:
                _log.warning(
                    "repair: on, but direct writes are off: only a runtime with NRI "
                    "0.12.1 or later can put values right"
                )
            self.lifecycle.verifier.configure(self.lifecycle.scheduler, config)

    # Once per connection

    def configure(self, request: nri.ConfigureRequest) -> None:
        """Learn the runtime's name and version; apply a configuration that it sends."""
        if request.config:
            from nriplugin.config import parse_config

            self.apply(parse_config(request.config, "configuration from the runtime"))
        name, version = request.runtime_name, request.runtime_version
        release = self._adoption.release = release_of(request)
        spoken = ".".join(map(str, release))
        self.lifecycle.connection.configured(name, version, spoken)
        self.lifecycle.learn_runtime(name, version)
        facts = self.plan.facts
        if facts.direct_only:
            log_direct_only(self.lifecycle)
        if self._unreadable_because:
            _log.warning("cgroups cannot be read: %s", self._unreadable_because)

    def synchronize(  # type: ignore[override] # the view declared above
        self, pods: Sequence[view.PodSandbox], containers: Sequence[view.Container]
    ) -> list[nri.ContainerUpdate] | None:
        """Learn from the existing containers; return corrections of their values."""
        lifecycle = self.lifecycle
        lifecycle.pending.keep_only({container.id for container in containers})
        plan = self.plan
        if plan.silent:
            self._adoption.list_silently(pods, containers)
            lifecycle.connected(missed=0)
            return None
        return self._adoption.synchronize(pods, containers)

    def disconnected(self, reason: str) -> None:
        """Drop corrections that were not sent; the next Synchronize makes new ones."""
        self.lifecycle.scheduler.paced((), 1)
        self.lifecycle.corrections.forget_waiting()
        self.lifecycle.connection.ended(reason)
        self.lifecycle.events.note(EventKind.DISCONNECTED, text=reason)

    # Creation

    def create_container(  # type: ignore[override] # the view declared above
        self, request: view.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        """Answer with the cgroup v2 files of the new container."""
        lifecycle = self.lifecycle
        plan = lifecycle.plans.now
        if plan.inactive:
            if plan.silent:
                self._adoption.silence.add_new(request)
            return None
        message = request.container
        sandbox_id = message.pod_sandbox_id
        known_pod = lifecycle.inventory.pod(sandbox_id) if sandbox_id else None
        if plan.numbers_only and known_pod is not None:
            pod = NO_POD
        else:
            pod = read_pod(decode_pod(request.pod), plan.curves)
            keep = lifecycle.requests.watched or lifecycle.policies.keeps_pods
            if known_pod is None or (keep and not known_pod.message):
                known_pod = pod_entry(sandbox_id, pod, request.pod, keep=keep)
                lifecycle.inventory.put_pod(known_pod)
            if not (plan.numbers_only or lifecycle.learning.files_known):
                entry = ContainerEntry(
                    "", pod=known_pod, cgroups_path=message.linux.cgroups_path
                )
                plan = lifecycle.learning.look_at_files(entry.pod_cgroup)
        container = read_container(message, whole=not plan.numbers_only)
        container = lifecycle.requests.with_request(pod, container, plan)
        annotated = OUR_SUFFIX in request.pod
        decided = lifecycle.decide_new(plan, pod, container, annotated=annotated)
        entry = _new_entry(message, known_pod, decided, container)
        lifecycle.creating(entry, decided)
        response: nri.CreateContainerResponse | None = decided.response
        return response

    def start_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Do the direct writes that need the cgroup, before the first process runs."""
        self.lifecycle.start(container.id)

    # Updates

    def update_container(  # type: ignore[override] # the view declared above
        self, request: view.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Answer with cgroup v2 files, for the runtime to merge into the request."""
        lifecycle, plan = self.lifecycle, self.plan
        if plan.silent:
            self._adoption.silence.note_update(request)
            return None
        message = request.container
        noted = lifecycle.inventory.get(message.id)
        pod = read_pod(decode_pod(request.pod), plan.curves)
        entry, container = existing(lifecycle, request, pod, plan)
        if plan.inactive and not entry.ours:
            return None
        lifecycle.make_room_for_update(plan, entry)
        asked = core_from_nri(request.linux_resources)
        decision = lifecycle.decide_update(plan, entry, pod, container, asked)
        if lifecycle.inventory.get(message.id) is not noted:
            # The entry was replaced meanwhile: this decision is late, and
            # `fallback_update` has answered the runtime in its place.
            return None
        changes = decision.files or decision.writes or entry.ours or decision.shadow
        # Policies go by the numbers in the entry, whether anything is decided or not.
        if changes or lifecycle.requests.watched or lifecycle.policies.on:
            become = after_update(entry, container, asked, decision)
            begin = lifecycle.pending.updates.begin
            update = begin(entry, become, decision.writes, noted)
            if update and needs_cleared_shares(decision, container, update.unwritten):
                # The second decision takes the place of the first.
                decision = lifecycle.decide_update(
                    plan, entry, pod, container, asked, writing=False
                )
                become = after_update(entry, container, asked, decision)
                begin(entry, become, decision.writes, noted)
        return update_response(message.id, decision)

    def fallback_update(
        self, request: view.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Answer with the conversion alone, as `update_container` failed or is late.

        At every update the runtime writes the values again that it keeps from
        nriplugin, over kubelet's new numbers. So an empty answer would undo the update
        of a container that has such values.

        Raises:
            RequestFails: the numbers cannot be converted; kubelet will try again.
        """
        lifecycle, plan = self.lifecycle, self.plan
        if plan.silent:
            return None
        message = request.container
        pod = read_pod(decode_pod(request.pod), plan.curves)
        try:
            entry, container = existing(lifecycle, request, pod, plan)
            asked = core_from_nri(request.linux_resources)
        except ConversionError as exc:
            known = lifecycle.inventory.get(message.id)
            record = managed_of(message, pod)
            ours = (known and known.ours) or (record and record.files)
            if ours and plan.config.base.resources.fail_lost_update:
                raise RequestFails(f"{exc}; the runtime keeps earlier values") from exc
            return None
        if not entry.ours:
            return None
        decision = fallback_decision(plan, pod, container, asked)
        become = after_update(entry, container, asked, decision)
        lifecycle.pending.to_verify.append(become.id)  # its values come only now
        lifecycle.inventory.put(become)
        lifecycle.store_record(entry, become)
        again = partial(self._decide_again, request, become)
        lifecycle.scheduler.after(DECIDE_AGAIN_S, again)
        return update_response(message.id, decision)

    def _decide_again(
        self, request: view.UpdateContainerRequest, entry: ContainerEntry
    ) -> None:
        """Correct a container whose update was answered without the handlers.

        Runs on the background thread, and does nothing if the container was updated
        again or has ended.
        """
        lifecycle, plan = self.lifecycle, self.plan
        if lifecycle.inventory.get(entry.id) is not entry:
            return
        pod = read_pod(decode_pod(request.pod), plan.curves)
        container = read_existing(request.container)._replace(
            ours=entry.ours, others=entry.others
        )
        container = lifecycle.requests.with_request(pod, container, plan)
        asked = core_from_nri(request.linux_resources)
        decision = lifecycle.decide_update(plan, entry, pod, container, asked)
        become = after_update(entry, container, asked, decision)
        idle = bool(decision.cleared)
        self._adoption.correct(
            Correction(entry, become, decision.files, decision.writes, idle)
        )

    def post_update_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Store the result of an update; leave its writes to the background thread."""
        updates = self.lifecycle.pending.updates
        update = updates.under_way.get(container.id)
        rest = None if update is None else updates.finish(update)
        if rest is not None:
            self.lifecycle.scheduler.soon(rest)

    # The end

    def remove_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Drop the container's state."""
        rest = self.lifecycle.removed(container.id)
        if rest is not None:
            self.lifecycle.scheduler.soon(rest)

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Drop the pod's state."""
        parent = pod.linux.cgroup_parent
        self.lifecycle.pod_removed(PodEntry(pod.id, cgroup_parent=parent))


def existing(
    lifecycle: Lifecycle, request: view.UpdateContainerRequest, pod: Pod, plan: Plan
) -> tuple[ContainerEntry, Container]:
    """Return the entry and the container that an update is about.

    Raises:
        ConversionError: a number of the container has no meaning.
    """
    message = request.container
    container = read_existing(message)
    container = lifecycle.requests.with_request(pod, container, plan)
    entry = lifecycle.inventory.get(message.id)
    keep = lifecycle.requests.watched
    if entry is None or (keep and not entry.pod.message):
        of_pod = pod_entry(message.pod_sandbox_id, pod, request.pod, keep=keep)
        entry = (entry or existing_entry(message, of_pod))._replace(pod=of_pod)
    annotated = None if entry.owned else managed_of(message, pod)
    entry = lifecycle.own(entry, pod, container, annotated, plan)
    return entry, lifecycle.with_ownership(container, entry, plan)


def fallback_decision(
    plan: Plan, pod: Pod, container: Container, asked: Resources
) -> Decision:
    """Decide about an update by the conversion alone, without direct writes."""
    facts, config = plan.facts._replace(writable=False), plan.config.without_handlers()
    return decide_update(pod, container, asked, facts, config)


def _new_entry(
    message: view.Container,
    pod: PodEntry,
    decided: CachedDecision,
    container: Container,
) -> ContainerEntry:
    """Return the entry of a container that is about to be created."""
    files, others, numbers = decided.managed
    # Positional arguments are the fastest way to create a NamedTuple.
    return ContainerEntry(
        message.id,
        name_of(message),
        pod,
        message.linux.cgroups_path,
        files,
        NO_FILES,
        others,
        numbers,
        False,  # started
        True,  # owned
        decided.summary,
        False,  # adopted
        None,  # kept
        time(),
        decided.shadow,
        container.allocated_request_bytes,
        "",  # missed
        NO_FILES,  # lacks
        score_in_job(message, pod),
    )
