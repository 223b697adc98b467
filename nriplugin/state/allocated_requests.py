"""The memory requests in kubelet's checkpoint, and containers that follow them.

NRI and CRI carry no memory request. Where kubelet's checkpoint can be read, another
thread publishes its content here (daemon/checkpoint_watch.py). A request thread only
looks up one container in it.

A container may have been decided about with another request than the published one:
because the checkpoint was not read yet, or because the request was changed since, for
which kubelet does not always call the runtime. So after each change of the checkpoint
the background thread compares all containers with it, and corrects those that differ.
It waits a moment first: kubelet usually does send an update, whose decision has the
new request already. A container of which the checkpoint says nothing any more keeps its
values until its next update.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from nriplugin.convert import Resources
from nriplugin.engine.decide import decide_update
from nriplugin.engine.decision import HandlerFailed
from nriplugin.engine.memory import CHECKPOINT
from nriplugin.engine.model import Container
from nriplugin.engine.shadow import to_enforce_at_update
from nriplugin.engine.stale import resources_of_numbers
from nriplugin.node.observe import memory_use
from nriplugin.state.corrections import Correction
from nriplugin.state.decision_summary import with_earlier_reasons
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Pod
    from nriplugin.state.inventory import ContainerEntry, PodEntry
    from nriplugin.state.lifecycle import Lifecycle
    from nriplugin.state.plan import Plan

# How long after a change of the checkpoint containers are compared with it, and how
# long until they are compared again if one could not be corrected just then.
SETTLED_S = 1.0
# How many containers are corrected each time. After an upgrade of kubelet or nriplugin
# all containers of a node may differ, and their runtime has other work to do.
MAX_AT_ONCE = 20

_NOTHING_ASKED = Resources()
_FIELD = Container._fields.index("allocated_request_bytes")


class AllocatedRequests:
    """What kubelet has allocated to containers. Any thread may look up a request."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        """Follow the requests of a life-cycle's containers."""
        self._lifecycle = lifecycle
        self._requests: Mapping[str, Mapping[str, int]] = {}
        self._lock = threading.Lock()
        self._scheduled = False
        # Begins to watch the checkpoint of a path, or ends that; set by the daemon.
        self.watch: Callable[[str | None], None] | None = None
        # Whether the checkpoint is watched. Doors then keep what a decision that no
        # message asks for depends on.
        self.watched = False
        # Carries out a correction on the background thread; a door that can ask the
        # runtime for it sets another one.
        self.correct: Callable[[Correction], None] = self._write
        # Returns the pod of an entry with its labels and annotations, if it is kept.
        self.read_pod: Callable[[PodEntry], Pod | None] = _described

    def configure(self, path: str | None) -> None:
        """Watch the checkpoint of a path, or with None end that."""
        if self.watch is not None:
            self.watched = path is not None
            self.watch(path)

    def publish(self, requests: Mapping[str, Mapping[str, int]]) -> None:
        """Put the content of the checkpoint in force: pod UID -> container -> bytes."""
        self._requests = requests
        self.follow_later()

    @property
    def known(self) -> bool:
        """Whether a checkpoint has been read."""
        return bool(self._requests)

    def with_request(self, pod: Pod, container: Container, plan: Plan) -> Container:
        """Return a container with the request that kubelet has allocated to it."""
        if not plan.uses_requests:
            return container
        amount = self._requests.get(pod.uid, _NONE).get(container.name)
        if amount == container.allocated_request_bytes:
            return container
        # Every container start comes here, and `_replace` takes several times as long.
        return Container._make((*container[:_FIELD], amount, *container[_FIELD + 1 :]))

    def follow(self) -> None:
        """Correct the containers whose request is another one by now.

        Runs on the background thread. A correction changes the container's entry; if it
        did not, because the container is being created or updated, it is tried again.
        """
        with self._lock:
            self._scheduled = False
        lifecycle = self._lifecycle
        plan = lifecycle.plan
        if plan.silent or not plan.uses_requests:
            return
        again, corrected = False, 0
        for entry in lifecycle.inventory.snapshot().values():
            amount = self._requests.get(entry.pod.uid, _NONE).get(entry.name)
            if amount is None or amount == entry.allocated_request_bytes:
                continue
            under_way = entry.id in lifecycle.pending.updates.under_way
            if under_way or not entry.started or corrected == MAX_AT_ONCE:
                again = True
                continue
            with suppress(HandlerFailed):  # it runs, so its values stay as they are
                corrected += self._follow_one(entry, amount, plan)
        if again:
            self.follow_later()

    def follow_later(self) -> None:
        """Have all containers compared with the checkpoint in a moment, if needed."""
        with self._lock:
            if self._scheduled or not self._requests:
                return
            self._scheduled = True
        self._lifecycle.scheduler.after(SETTLED_S, self.follow)

    def _follow_one(self, entry: ContainerEntry, amount: int, plan: Plan) -> bool:
        """Decide about a container with its request; return whether values change."""
        lifecycle = self._lifecycle
        newest = lifecycle.inventory.pod(entry.pod.id) or entry.pod
        pod = self.read_pod(newest) or self.read_pod(entry.pod)
        container = entry.kept or _container(entry)
        if pod is None or container is None:
            return False  # an update will decide with the request
        pod = pod._replace(curve=plan.curves.get(pod.uid))
        container = container._replace(allocated_request_bytes=amount)
        owned = lifecycle.own(entry, pod, container, None, plan)
        if not (owned.ours or owned.decided_at):
            return False  # it was created without nriplugin: `adopt` gives it values
        container = lifecycle.with_ownership(container, owned, plan)
        decision = self._decision(owned, pod, container, plan)
        if decision.refused or decision.warnings:
            lifecycle.log.note(entry.path, decision)
        one = _correction(entry, owned, decision, amount)
        if not (one.files or one.writes):
            lifecycle.inventory.change(entry, one.become)
            return False
        self.correct(one)
        become = lifecycle.inventory.get(entry.id)
        if become is not None and become is not entry:
            text = f"memory request {amount} from {CHECKPOINT}"
            lifecycle.events.note(EventKind.UPDATED, become, text)
        return True

    def _decision(
        self, entry: ContainerEntry, pod: Pod, container: Container, plan: Plan
    ) -> Decision:
        tree, cgroup = self._lifecycle.tree, entry.cgroup
        use = memory_use(tree, cgroup) if tree and cgroup else None
        container = container._replace(decided={})
        given = (pod, container, _NOTHING_ASKED, plan.facts, plan.config, use)
        decision = decide_update(*given, unasked=True, new_request=True)
        return to_enforce_at_update(decision, *given, unasked=True)

    def _write(self, one: Correction) -> None:
        """Carry out a correction by direct writes, if those are on."""
        lifecycle = self._lifecycle
        if one.become.cgroup is None:
            cgroup = lifecycle.locator.cgroup_of(one.was)
            if cgroup is None:
                return
            one = one._replace(become=one.become._replace(cgroups_path=cgroup))
        if lifecycle.corrections.write(one):
            lifecycle.store_record(one.was, one.become)


_NONE: Mapping[str, int] = {}


def _correction(
    was: ContainerEntry, owned: ContainerEntry, decision: Decision, amount: int
) -> Correction:
    """Return the correction from the inventory's entry to what was decided."""
    files = {f: v for f, v in decision.files.items() if owned.files.get(f) != v}
    become = owned.after(decision, (), owned.numbers)
    writes = decision.writes
    if not owned.decided_at:
        # Another process has decided about it: what it lacks is left to `adopt`.
        files, writes = {f: v for f, v in files.items() if f in owned.ours}, []
        become = become._replace(files={**owned.files, **files}, decided_at=0.0)
    summary = with_earlier_reasons(become.decision, owned.decision)
    become = become._replace(decision=summary, allocated_request_bytes=amount)
    return Correction(was, become, files, writes, bool(decision.cleared))


def _container(entry: ContainerEntry) -> Container | None:
    """Return the container of an entry that only has its numbers, if it has them."""
    given = resources_of_numbers(entry.numbers)
    if given is None:
        return None
    return Container(entry.name, entry.id, given._replace(unified=entry.others))


def _described(pod: PodEntry) -> Pod | None:
    return pod.described
