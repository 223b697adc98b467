"""The life of containers as nriplugin sees it, the same for every long-lived door.

A door turns a message into the engine's `Pod` and `Container`, calls the methods here
in the order of a container's life, and turns the decision into its own answer:

    decide_new → creating → start → decide_update → begin/finish update → removed

This module puts the parts together: the plan by which decisions are made, the cache of
decisions, the inventory, the pending direct writes, the corrections and the log. It
holds no rule of its own about cgroup values; those are the engine's.
"""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING

from nriplugin.engine.decide import decide_update, together
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.settings import DEFAULT_CONFIG
from nriplugin.engine.shadow import to_enforce_at_update
from nriplugin.engine.stale import numbers_of
from nriplugin.node.observe import memory_use
from nriplugin.node.policy_writes import PolicyRecord
from nriplugin.state.allocated_requests import AllocatedRequests
from nriplugin.state.connection import RuntimeConnection
from nriplugin.state.corrections import Corrections
from nriplugin.state.creation_decision import decide_creation
from nriplugin.state.decision_log import DecisionLog
from nriplugin.state.events import EventKind, EventLog
from nriplugin.state.inventory import NO_FILES, Inventory
from nriplugin.state.job_table import JobTable
from nriplugin.state.learning import Learning
from nriplugin.state.locating import CgroupLocator
from nriplugin.state.ownership import Ownership
from nriplugin.state.pending import PendingWrites
from nriplugin.state.plan import CurrentPlan, Plan
from nriplugin.state.policies import Policies
from nriplugin.state.protection_checks import ProtectionChecks
from nriplugin.state.update_readback import UpdateReadback
from nriplugin.state.verification import ShadowCounts, VerificationCounts
from nriplugin.state.verifier import Verifier
from nriplugin.state.writer_opening import WriterOpening

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.config import Config
    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import NodeFacts, Use
    from nriplugin.kube.managed import Managed
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.node.ownership_records import OwnershipRecords
    from nriplugin.state.creation_decision import Render
    from nriplugin.state.decision_cache import CachedDecision
    from nriplugin.state.inventory import ContainerEntry, PodEntry
    from nriplugin.state.scheduler import Scheduler


_log = logging.getLogger(__name__)

NO_POD = Pod()

# How long after a silence the runtime has done the updates that came before its end.
SILENCE_SETTLED_S = 2.0


class Lifecycle:
    """The parts of one process that know the node's containers."""

    def __init__(
        self,
        scheduler: Scheduler,
        facts: NodeFacts | None = None,
        tree: Tree | None = None,
        *,
        open_writer: Callable[[], DirectWriter] | None = None,
        written_before: Callable[[], bool] = bool,
        records: OwnershipRecords | None = None,
        render: Render | None = None,
        shadow: bool = False,
        policy_record: PolicyRecord | None = None,
        host_root: str = "/",
    ) -> None:
        """Begin with the default configuration and an empty inventory.

        Args:
            scheduler: runs jobs that no request may wait for.
            facts: facts about the node. `writable` must be false in them; it becomes
                true when the writer is opened.
            tree: the node's cgroups, if they can be read.
            open_writer: creates the direct writer; called when a configuration or a
                runtime first needs direct writes. None if cgroups must not be written.
            written_before: whether another process has left a journal. Its writes may
                have to be taken back under any configuration.
            records: stores the values that updates set, across restarts.
            render: makes the door's response from a decision; cached with the decision.
            shadow: whether all decisions are for show alone, whatever a configuration
                says.
            policy_record: stores which files hold a policy's value, across a crash.
            host_root: where the node's own files are.
        """
        self.scheduler = scheduler
        self.tree = tree
        self.records = records
        self.ownership = Ownership()
        self._always_shadow = shadow
        config = DEFAULT_CONFIG.in_shadow() if shadow else DEFAULT_CONFIG
        self.plans = CurrentPlan(facts, config)
        self.config: Config | None = None  # the one in force; None for the defaults
        self.inventory = Inventory()
        self.log = DecisionLog()
        self.events = EventLog()
        self.connection = RuntimeConnection()
        self.verification = VerificationCounts()
        self.shadow = ShadowCounts()
        self.shadow.configure(config)
        self.learning = Learning(self.plans, tree)
        self.pending = PendingWrites(self.inventory, scheduler, records, self.events)
        self.writer_opening = WriterOpening(
            open_writer, self.pending, self.plans, written_before=written_before
        )
        self.corrections = Corrections(self.inventory, self.pending)
        self.requests = AllocatedRequests(self)
        self.locator = CgroupLocator(self.inventory, tree)
        self.jobs = JobTable(self)
        self.protection = ProtectionChecks(tree, scheduler, self.locator)
        self.readback = UpdateReadback(
            self.plans, self.pending, self.corrections, self.writer_opening.open
        )
        self.verifier = Verifier(
            *(self.inventory, self.pending, self.events, tree),
            locator=self.locator,
            counts=self.verification,
            shadow=self.shadow,
            readback=self.readback,
        )
        self.policies = Policies(
            *(self.inventory, self.plans, self.pending, self.events, tree),
            locator=self.locator,
            record=policy_record or PolicyRecord(None),
            host_root=host_root,
        )
        self.verifier.held_by_policies = self.policies.held_by
        # Set by a door that can be silent: puts stale values right after the silence.
        self.correct_after_silence: Callable[[], None] | None = None
        self._render = render
        self._applying = threading.Lock()

    def close(self) -> None:
        """Finish the background work, then close the writer, which that work uses.

        Values that policies hold go back before. If a job does not end, the writer
        stays open, because the job may be using it, and the next process puts these
        values back.
        """
        ended = self.scheduler.stop()
        if ended:
            self.policies.end()
        if ended and self.pending.writer is not None:
            self.pending.writer.close()

    def withdraw(self) -> None:
        """Set no values any more, until the process ends; see `CurrentPlan`.

        Direct writes stay possible, because the end of a value may need one: a burst
        has to be lowered before a quota.
        """
        self.plans.withdraw()
        self.pending.abandon()
        # Corrections that are on their way would write what is about to be put back.
        self.scheduler.paced((), 1)
        self.verifier.end(self.scheduler)
        self.policies.withdraw(self.scheduler)

    def end_silence(self) -> None:
        """Begin to decide, because the other process has ended; see `CurrentPlan`.

        That process has stored the values that its updates set. The values of a
        container are determined at its first update, as for every container that is
        older than this process. An update that nobody has answered left stale values,
        which are put right a moment later.
        """
        if self.records is not None:
            self.ownership = self.ownership._replace(records=self.records.load())
        self.plans.set_silent(False)
        for entry in self.inventory.snapshot().values():
            record = self.ownership.records.get(entry.id)
            if record is not None and not entry.owned:
                files, others, numbers = record
                become = entry._replace(files=files, others=others, numbers=numbers)
                self.inventory.change(entry, become)
        if self.correct_after_silence is not None:
            self.scheduler.after(SILENCE_SETTLED_S, self.correct_after_silence)
        self.verifier.compare_all_soon()
        self.policies.connected(self.scheduler)

    # The plan

    @property
    def plan(self) -> Plan:
        """Return the plan in force."""
        return self.plans.now

    def apply(self, config: Config) -> None:
        """Put a configuration in force, also while requests are served.

        The writer is opened first: if that fails, the configuration is still applied,
        and settings that need direct writes are skipped by the decisions.
        """
        config = self.effective(config)
        with self._applying:
            self.writer_opening.refresh_s = config.direct_writes.refresh_seconds
            self.writer_opening.open_for(config)
            self.plans.apply(config.engine)
            self.config = config
            self.shadow.configure(config.engine)
            self.requests.configure(config.checkpoint_path)
            self.jobs.configure(config.pod_groups)
            self.policies.configure(self.scheduler, config)

    def effective(self, config: Config) -> Config:
        """Return the configuration that a given one leads to in this process."""
        return config.in_shadow() if self._always_shadow else config

    def learn_runtime(self, name: str, version: str) -> None:
        """Take note of the runtime's name and version.

        A runtime that drops `unified` from updates needs direct writes in any case.
        """
        ignores = self.readback.ignores(name, version)
        self.plans.learn(
            {
                "runtime": name,
                "runtime_version": version,
                "ignores_unified": ignores,
            }
        )
        facts = self.plan.facts
        if facts.drops_unified and not facts.direct_only:
            self.writer_opening.open()

    def connected(self, missed: int) -> None:
        """Take note that the runtime's containers are known and requests are answered.

        `missed` is how many of them were created without nriplugin since the last
        connection.
        """
        self.connection.synchronized(missed)
        self.events.note(EventKind.CONNECTED)
        self.verifier.compare_all_soon()
        self.policies.connected(self.scheduler)

    # Creation

    def decide_new(
        self, plan: Plan, pod: Pod, container: Container, *, annotated: bool = True
    ) -> CachedDecision:
        """Return the decision about a container that is about to be created.

        `annotated` False says that the pod has no annotation with nriplugin's suffix.

        Raises:
            HandlerFailed: a handler could not do its work, and is configured to fail.
        """
        key = plan.cache.key_of(pod, container, annotated=annotated)
        found = plan.cache.get(key)
        if found is None:
            if plan.numbers_only:
                # The key has nothing else, so nothing else may decide.
                pod, container = NO_POD, Container(resources=container.resources)
            found = decide_creation(plan, pod, container, self._render)
            plan.cache.put(key, found)
        return found

    def creating(self, entry: ContainerEntry, decided: CachedDecision) -> None:
        """Add a container that is being created, and do its first direct writes.

        For the NRI door, which knows the container's ID before the runtime creates the
        container. The CRI door gets the ID with the runtime's answer.
        """
        decision = decided.decision
        if decision.refused or decision.warnings:
            self.log.note(entry.path, decision)
        self.inventory.put(entry)
        self.events.note(EventKind.CREATED, entry)
        if decision.writes:
            self.pending.directly_written.add(entry.id)
            name = (entry.cgroup or entry.id).rpartition("/")[2]
            pending = self.pending
            pending.before_creation(entry.id, decision.writes, entry.pod_cgroup, name)
            pending.wait_for_start(entry.id, decision.writes)
        self.record_created(entry)
        if decided.protects:
            self.check_protection(entry, decided)

    def record_created(self, entry: ContainerEntry) -> None:
        """Store the record of a new container that gets no annotation with it."""
        records = self.records
        if self.plan.facts.direct_only and entry.files and records is not None:
            records.expect(entry.id)
            self.scheduler.soon(partial(records.put_expected, entry.id, entry.managed))

    def check_protection(self, entry: ContainerEntry, decided: CachedDecision) -> None:
        """Have a warning logged later if the container's protection has no effect."""
        raised = decided.decision.settings.of(MemoryQoSSettings).raise_ancestors
        self.protection.add(entry, raised=raised)

    def start(self, container_id: str, cgroup: str = "") -> None:
        """Do the direct writes that waited for a container's start.

        `cgroup` is the container's cgroup if the door has found it only now.
        """
        entry = self.inventory.get(container_id)
        if entry is None:
            self.pending.start(container_id, None, None)
            return
        started = entry.at_start(cgroup or entry.cgroups_path)
        self.pending.start(container_id, started.pod_cgroup, started.cgroup)
        if not entry.started or cgroup:
            self._put_started(entry, started)
        correct = self.corrections.started(container_id)
        if correct is not None:
            self.scheduler.soon(correct)
        self.pending.to_verify.append(container_id)
        self.policies.started(container_id, self.scheduler)

    def _put_started(self, entry: ContainerEntry, started: ContainerEntry) -> None:
        """Replace the entry of a container that starts.

        The background thread may replace it at the same time.
        """
        while not self.inventory.change(entry, started):
            now = self.inventory.get(entry.id)
            if now is None:
                return
            entry, started = now, now.at_start(started.cgroups_path)

    # Updates

    def own(
        self,
        entry: ContainerEntry,
        pod: Pod,
        container: Container,
        annotated: Managed | None,
        plan: Plan,
    ) -> ContainerEntry:
        """Return the entry, with the values that nriplugin set determined.

        `annotated` is the record in the container's annotations, if there is one.
        """
        if entry.owned:
            return entry
        ours, others, numbers = self.ownership.of(pod, container, annotated, plan)
        return entry._replace(
            files={}, outdated=ours, others=others, numbers=numbers, owned=True
        )

    def use_of(self, cgroup: str | None, asked: Resources) -> Use | None:
        """Return a container's memory use; None if the update sets no memory limit."""
        if self.tree is None or cgroup is None or asked.memory_limit_bytes is None:
            return None
        return memory_use(self.tree, cgroup)

    def make_room_for_update(self, plan: Plan, entry: ContainerEntry) -> None:
        """Have what policies have raised in a pod go back, on cgroup v1.

        No quota of a pod may be below that of a container there, and kubelet may be
        about to lower the pod.
        """
        if plan.facts.direct_only:
            self.policies.give_back(self.scheduler, entry.pod_cgroup)

    def decide_update(
        self,
        plan: Plan,
        entry: ContainerEntry,
        pod: Pod,
        container: Container,
        asked: Resources,
        *,
        writing: bool = True,
    ) -> Decision:
        """Return the decision about an update.

        `container` is the one that `with_ownership` returned. If not `writing`, the
        decision has no direct writes, even if they are on.

        Raises:
            HandlerFailed: a handler could not do its work, and is configured to fail.
        """
        use = self.use_of(entry.cgroup, asked)
        facts = plan.facts if writing else plan.facts._replace(writable=False)
        given = (pod, container, asked, facts, plan.config, use)
        decision = decide_update(*given)
        if decision.settings.shadow:
            decision = to_enforce_at_update(decision, *given)
        if decision.refused or decision.warnings:
            self.log.note(entry.path, decision)
        return decision

    # The end

    def removed(self, container_id: str) -> Callable[[], None] | None:
        """Drop a container; return the job to run outside of the request, if any."""
        self.corrections.started(container_id)
        return self.pending.removed(container_id, self.inventory.drop(container_id))

    def pod_removed(self, pod: PodEntry) -> None:
        """Drop a pod's sandbox, its containers and the journal's entries of its cgroup.

        The cgroup itself may stay in use, if kubelet creates a new sandbox for the pod.
        """
        _, containers = self.inventory.drop_pod(pod.id)
        for container_id in containers:
            self.corrections.started(container_id)
        job = self.pending.pod_removed(pod.cgroup, containers)
        if job is not None:
            self.scheduler.soon(job)

    # Entries that change without a request

    def change(self, was: ContainerEntry, become: ContainerEntry) -> bool:
        """Replace an entry unless it has changed since; return whether it was done."""
        self.pending.to_verify.append(was.id)  # before: its values come only now
        changed = self.inventory.change(was, become)
        if changed:
            self.store_record(was, become)
        return changed

    def store_record(self, was: ContainerEntry, become: ContainerEntry) -> None:
        """Have the background thread store a container's record if it has changed."""
        records, managed = self.records, become.managed
        if records is not None and managed != was.managed:
            records.expect(become.id)
            self.scheduler.soon(partial(records.put_expected, become.id, managed))

    def with_ownership(
        self, container: Container, entry: ContainerEntry, plan: Plan
    ) -> Container:
        """Return a container with the values that nriplugin and others set on it.

        Where nothing but the conversion decides and no value was written directly, the
        runtime keeps what nriplugin sent, so no value has to be sent again.
        """
        again = not plan.numbers_only or entry.id in self.pending.directly_written
        decided = entry.files if again else NO_FILES
        return container._replace(ours=entry.ours, decided=decided, others=entry.others)


def log_direct_only(lifecycle: Lifecycle) -> None:
    """Say what a node with cgroup v1 means for the decisions."""
    facts = lifecycle.plan.facts
    node = f"cgroup v{facts.cgroup_version} ({facts.cgroup_evidence})"
    if lifecycle.writer_opening.allowed:
        _log.warning("direct writes only: %s", node)
    else:
        _log.warning("inactive: %s, and direct writes are off", node)


def after_update(
    entry: ContainerEntry, container: Container, asked: Resources, decision: Decision
) -> ContainerEntry:
    """Return the entry of a container once an update is done."""
    numbers = numbers_of(together(container.resources, asked))
    become = entry.after(decision, asked.unified, numbers)
    return become._replace(allocated_request_bytes=container.allocated_request_bytes)
