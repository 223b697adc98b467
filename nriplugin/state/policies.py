"""Asks the policies about running containers, and carries out what they answer.

Every interval the background thread measures each container for which a policy is on,
asks the policy, and writes what changed. Nothing of this is on the request path.

A container's file goes back to the value that was decided, or that follows from
kubelet's numbers. A resize replaces the container's entry in the inventory, so it also
replaces the original, and the policies begin anew. A pod's file belongs to kubelet: its
original is what it held before, and any value that nriplugin has not written there is a
new original.

Values go back when a policy gives them up, is switched off, or the process ends. After
a crash the next process puts them back before it asks any policy.
"""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from time import thread_time, time
from typing import TYPE_CHECKING

from nriplugin.engine.decision import Level
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.policies import Measure, NodeSample, PolicyAnswer
from nriplugin.engine.policy_settings import (
    ContainerPolicies,
    all_needs,
    needs_texts,
    policies_of,
)
from nriplugin.engine.qos_class import qos_class_of
from nriplugin.errors import CgroupError
from nriplugin.loglimit import LimitedLog
from nriplugin.node.policy_samples import PolicySampler
from nriplugin.state.policy_holds import (
    FAILED,
    NO_HOLDS,
    SHOWN,
    PolicyCounts,
    PolicyState,
    Wanted,
    originals_of,
)
from nriplugin.state.policy_recovery import PolicyRecovery
from nriplugin.state.policy_starts import ContainerStarts
from nriplugin.state.policy_triggers import PolicyTriggers
from nriplugin.state.policy_writing import PolicyWriting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.config import Config
    from nriplugin.engine.policies import Trigger
    from nriplugin.node.policy_writes import PolicyRecord
    from nriplugin.state.events import EventLog
    from nriplugin.state.inventory import ContainerEntry, Inventory, PodEntry
    from nriplugin.state.locating import CgroupLocator
    from nriplugin.state.pending import PendingWrites
    from nriplugin.state.plan import CurrentPlan, Plan
    from nriplugin.state.policy_holds import HeldFile
    from nriplugin.state.scheduler import Scheduler

_log = logging.getLogger(__name__)

JOB = "policies"
NO_POLICIES = ContainerPolicies()
# Values of a container that cannot be measured stay for so many looks, and then go
# back: no policy could end them.
MOST_UNMEASURED = 3
# Without a configuration: how long until values that an earlier process has left, and
# that could not be put back, are looked at again.
RETRY_S = 5.0
OTHERS_ACT = "another process of nriplugin acts by policies on this node"


class Policies:
    """The policies of one node's containers; all work is on the background thread."""

    def __init__(
        self,
        inventory: Inventory,
        plans: CurrentPlan,
        pending: PendingWrites,
        events: EventLog,
        tree: Tree | None,
        *,
        locator: CgroupLocator,
        record: PolicyRecord,
        host_root: str = "/",
    ) -> None:
        """Act on the cgroups of this tree; without one, no policy is ever on."""
        self.counts = PolicyCounts()
        # Returns the pod of an entry with its labels and annotations, if they are
        # known; set by the door.
        self.read_pod: Callable[[PodEntry], Pod | None] = _described
        self._inventory = inventory
        self._plans = plans
        self._pending = pending
        self._locator = locator
        self._record = record
        self._tree = tree
        self._limited = LimitedLog(_log)
        if tree is not None:
            self.sampler = PolicySampler(tree, host_root)
            self._writing = PolicyWriting(tree, pending, events, record, self.counts)
            self._triggers = PolicyTriggers(tree, pending, self.counts)
        self._told: set[tuple[str, str]] = set()  # what was logged, by policy
        # Replaced as a whole: other threads look containers up in it.
        self._states: dict[str, PolicyState] = {}
        self._starts = ContainerStarts(inventory)
        self._on = False  # whether a policy is on for some containers
        self.keeps_pods = False
        self._connected = False
        self._recovery = PolicyRecovery(record, pending, inventory, locator)
        self._ended = False
        self._again: Callable[[], None] = _never

    # What other threads call

    def configure(self, scheduler: Scheduler, config: Config) -> None:
        """Begin or end by a configuration; values of a policy that is off go back."""
        needs = all_needs(config.engine) if self._tree is not None else frozenset()
        on = bool(needs) and not (self._ended or self._plans.withdrawn)
        self._starts.wanted = on and Measure.AGE in needs
        self._schedule(scheduler, config.policies.interval_seconds, on=on)

    def give_back(self, scheduler: Scheduler, pod: str | None) -> None:
        """Have all values of a pod and its containers go back soon, for a moment.

        The next interval begins anew.
        """
        if self._on:
            scheduler.soon(partial(self._give_back, pod))

    def withdraw(self, scheduler: Scheduler) -> None:
        """Act no more, whatever configuration comes; values go back."""
        self._starts.wanted = False
        self._schedule(scheduler, self.counts.interval_s or 1.0, on=False)

    def _schedule(self, scheduler: Scheduler, interval_s: float, *, on: bool) -> None:
        was, self._on = self._on, on
        # Whether the doors have to keep pods with all their labels and annotations.
        self.keeps_pods = on and needs_texts(self._plans.now.config)
        self.counts.interval_s = float(interval_s) if on else 0.0
        scheduler.every(interval_s, self.look if self._on else None, JOB)
        if was or self._on:  # else no thread has to be started for this
            scheduler.soon(self.look)
        self._again = partial(scheduler.after, interval_s, self.look)

    @property
    def on(self) -> bool:
        """Whether a policy is on for some containers."""
        return self._on

    def started(self, container_id: str, scheduler: Scheduler) -> None:
        """Take note that a container starts; called by the thread of a request."""
        if self._starts.wanted:
            self._starts.note(container_id, self.sampler.clock())
            scheduler.soon(self.look_at_new)

    def connected(self, scheduler: Scheduler) -> None:
        """Take note that the inventory has the node's containers."""
        self._connected = True
        if self._again is _never:
            self._again = partial(scheduler.after, RETRY_S, self.look)
        if self._on or self._record.exists():
            scheduler.soon(self.look)

    def state_of(self, container_id: str) -> PolicyState | None:
        """Return what is known about a container for which a policy is on."""
        return self._states.get(container_id)

    def held_by(self, container_id: str) -> Mapping[str, HeldFile]:
        """Return the files of a container that hold a policy's value."""
        state = self._states.get(container_id)
        return NO_HOLDS if state is None else state.held

    def pod_held_by(self, pod: str) -> Mapping[str, HeldFile]:
        """Return the files of a pod's cgroup that hold a policy's value."""
        return NO_HOLDS if self._tree is None else self._writing.pods.get(pod, NO_HOLDS)

    # The background thread

    def look(self) -> None:
        """Measure, ask and write, once."""
        if self._tree is None or not self._connected or self._ended:
            return
        if self._plans.others_decide:
            return  # what files hold is the other process's
        began = thread_time()
        if self._may_act() and not self._recovery.done:
            self._recovery.look(self._plans.now.facts)
            self._writing.store()
        self._starts.forget_ended()
        if self._recovery.begun:
            self._ask_all(self._plans.now)
            self._carry_out()
            self._triggers.carry_out(self._states.values())
            self._count()
        holds = self._writing.pods or any(one.held for one in self._states.values())
        if not self._on and (holds or not self._recovery.done):
            # The runtime was changing a container, a write has failed, or another
            # process acts.
            self._again()
        elif not self._on:
            self._leave_to_others()
        self.counts.cpu_s += thread_time() - began

    def look_at_new(self) -> None:
        """Ask about the containers that have started since the last call."""
        if self._ended or self._plans.others_decide:
            return
        if not (self._may_act() and self._recovery.begun):
            return  # the next look has all containers
        began = thread_time()
        states, pods = {}, set()
        for container_id in self._starts.take_new():
            entry = self._inventory.get(container_id)
            if entry is None or not entry.started:
                continue
            state = self._states.get(container_id)
            if state is not None and state.sample and state.sample.age_s is not None:
                continue  # a look has come first
            state = state or PolicyState(entry)
            self._follow(state, entry, self._plans.now)
            if state.policies.on:
                states[container_id] = state
                pods.add(entry.pod_cgroup or "")
                self._ask(state, NodeSample(cpus=self.sampler.cpus()))
        if states:
            # Without those that have ended since the last look: nothing may be written
            # beside a container that changes.
            known = self._inventory.snapshot()
            there = {i: one for i, one in self._states.items() if i in known}
            self._states = {**there, **states}
            self._carry_out(pods)
        self.counts.cpu_s += thread_time() - began

    def end(self) -> None:
        """Put every value back; to be called when no job runs any more."""
        if self._tree is None or self._ended:
            return
        self._ended, self._on = True, False
        for state in self._states.values():
            state.want_nothing()
        self._carry_out(ending=True)
        self._record.release()

    def _may_act(self) -> bool:
        """Return whether no other process acts; one that cannot write disturbs none."""
        claimed = self._record.claimed
        if self._pending.writer is None or self._record.claim():
            if self._record.claimed and not claimed:
                self._recovery.begin_anew()  # what the process before has left
            self.counts.waits_because = ""
            return True
        self._recovery.begin_anew()
        if not self.counts.waits_because:
            _log.warning("policies: nothing is done: %s", OTHERS_ACT)
        self.counts.waits_because = OTHERS_ACT
        return False

    def _leave_to_others(self) -> None:
        """Let another process act, now that no policy is on and nothing is held."""
        self._record.release()
        self._recovery.begin_anew()

    def _give_back(self, pod: str | None) -> None:
        for state in self._states.values():
            if state.entry.pod_cgroup == pod:
                state.begin_anew()
        self._carry_out()

    def _ask_all(self, plan: Plan) -> None:
        known = self._inventory.snapshot() if self._on or self._states else {}
        states = {}
        for container_id, entry in known.items():
            state = self._states.get(container_id)
            if state is None:
                if not (self._on and entry.started):
                    continue
                state = PolicyState(entry)
            self._follow(state, entry, plan)
            if state.policies.on or state.held:
                states[container_id] = state
        self._states = states
        needs = frozenset().union(*(one.policies.needs for one in states.values()))
        node = self.sampler.node(needs)
        for state in states.values():
            if state.policies.on:
                self._ask(state, node)

    def _follow(self, state: PolicyState, entry: ContainerEntry, plan: Plan) -> None:
        """Take over a new entry of a container, and a new configuration."""
        if state.entry.numbers != entry.numbers:
            self._starts.resized(entry.id)
        if state.entry is not entry or not state.cgroup:
            state.cgroup = self._locator.cgroup_of(entry) or ""
            original = originals_of(entry, plan.facts)
            if original != state.original:
                self._writing.resized(state, original)
                state.original = original
                state.begin_anew()
        if state.plan is not plan or state.entry.pod is not entry.pod:
            policies = self._policies_of(entry, plan) if state.cgroup else NO_POLICIES
            if policies != state.policies:
                state.policies = policies
                state.begin_anew()
        state.entry, state.plan = entry, plan

    def _policies_of(self, entry: ContainerEntry, plan: Plan) -> ContainerPolicies:
        if not self._on:
            return NO_POLICIES
        newest = self._inventory.pod(entry.pod.id) or entry.pod
        pod = self.read_pod(newest) or self.read_pod(entry.pod)
        if pod is None and not needs_texts(plan.config):
            pod = Pod(newest.uid, newest.name, newest.namespace)
            pod = pod._replace(
                annotations=dict(newest.annotations),
                cgroup_parent=newest.cgroup_parent,
            )
        if pod is None:
            return NO_POLICIES
        container = entry.kept or Container(entry.name, entry.id)
        return policies_of(pod, container, qos_class_of(pod, container), plan.config)

    def _ask(self, state: PolicyState, node: NodeSample) -> None:
        """Ask the policies of one container; the first one has a file."""
        pod, policies = state.entry.pod_cgroup, state.policies
        if self._recovery.concerns(pod or ""):
            return
        try:
            sample = self.sampler.container(
                state.cgroup, pod, policies.needs, state.original
            )
        except CgroupError as exc:
            self._limited.log(
                logging.WARNING, "policies: %s: %s", state.entry.path, exc
            )
            state.unmeasured += 1
            if state.unmeasured >= MOST_UNMEASURED:
                state.begin_anew("it cannot be measured")
            return
        state.unmeasured = 0
        if sample is None:
            # Its pod needs no more for its sake.
            state.begin_anew("it has ended")
            return
        if self._starts.wanted:
            age_s = self._starts.age_s(state.entry.id, sample.at_s)
            sample = sample._replace(age_s=age_s)
        sample = sample._replace(triggered=state.triggered)
        state.triggered = {}
        wanted: dict[str, Wanted] = {}
        growths: dict[str, Wanted] = {}
        triggers: list[tuple[str, Trigger]] = []
        for name, policy, settings in policies.on:
            before = state.states.get(name)
            try:
                answer = policy.decide(settings, before, state.sample, sample, node)
            except Exception as exc:  # noqa: BLE001 - a defect of one policy
                # Its values go back, and the others do their work.
                self.counts.actions[name, FAILED] += 1
                self._limited.log(
                    *(logging.ERROR, "policies: %s: %s: %r"),
                    *(name, state.entry.path, exc),
                )
                answer = PolicyAnswer(None)
            state.states[name] = answer.state
            state.reasons[name] = answer.unable or answer.reason
            self._tell_unable(name, answer.unable)
            triggers += [(name, trigger) for trigger in answer.triggers]
            for file, value, level in answer.actions:
                into = wanted if level is Level.CONTAINER else growths
                into.setdefault(file, Wanted(name, value, answer.reason))
        state.sample = sample
        if policies.shadow or self._pending.writer is None:
            self._show(state, wanted)
            self.counts.actions.update((name, SHOWN) for name, _ in triggers)
        else:
            state.wanted, state.growths, state.shown = wanted, growths, {}
            state.triggers = tuple(triggers)

    def _tell_unable(self, policy: str, text: str) -> None:
        """Log once why a policy can do nothing on this node."""
        if text and (policy, text) not in self._told:
            self._told.add((policy, text))
            _log.warning("policies: %s does nothing: %s", policy, text)

    def _show(self, state: PolicyState, wanted: Mapping[str, Wanted]) -> None:
        for file, one in wanted.items():
            if state.shown.get(file) != one:
                self.counts.actions[one.policy, SHOWN] += 1
        state.want_nothing()
        state.shown = wanted

    def _carry_out(
        self, only: Collection[str] | None = None, *, ending: bool = False
    ) -> None:
        """Write what changed, pod by pod: in these pods, or in all."""
        if only is None:
            self._writing.forget_ended({one.cgroup for one in self._states.values()})
        by_pod: dict[str, list[PolicyState]] = {}
        for state in self._states.values():
            by_pod.setdefault(state.entry.pod_cgroup or "", []).append(state)
        pods = only if only is not None else {**self._writing.pods, **by_pod}
        self._writing.carry_out(
            {pod: by_pod.get(pod, []) for pod in pods}, ending=ending
        )

    def _count(self) -> None:
        on: Counter[str] = Counter()
        holding: Counter[str] = Counter()
        for state in self._states.values():
            on.update(one.name for one in state.policies.on)
            holding.update({hold.policy for hold in state.held.values()})
        self.counts.containers, self.counts.holding = on, holding
        self.counts.last_at = time()
        self.counts.looks += 1


def _never() -> None:
    """Do not look again: nothing was configured yet."""


def _described(pod: PodEntry) -> Pod | None:
    return pod.described
