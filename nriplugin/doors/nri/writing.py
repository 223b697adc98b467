"""The NRI plugin on a node whose cgroups it may write.

Writes that come before the runtime's are done before the answer. Those that come after
a creation are done when the container is about to start, after an update by the keeper,
so that no request waits for the kernel to reclaim memory.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from functools import partial
from math import inf
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.api import view_pb2 as view
from nriplugin.cgroup.locate.paths import cgroup_of_parent
from nriplugin.cgroup.writing.updates import Status
from nriplugin.doors.nri.messages import cgroups_of, parse_pod
from nriplugin.doors.nri.plugin import NodePlugin, new_container
from nriplugin.doors.nri.synchronized import carried
from nriplugin.engine.decision import Level, When
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.errors import NRIPluginError
from nriplugin.kube.managed import Managed
from nriplugin.node.outcomes import tell
from nriplugin.node.protection import FILES as PROTECTION
from nriplugin.state.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.config import Config
    from nriplugin.doors.nri.adoption import Correction
    from nriplugin.doors.nri.synchronized import Outgoing
    from nriplugin.engine.decision import Decision, Write
    from nriplugin.engine.model import NodeFacts, Pod
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.node.ownership_records import OwnershipRecords
    from nriplugin.state.decision_cache import CachedAnswer
    from nriplugin.state.inventory import Known

_log = logging.getLogger(__name__)

# A runtime that says nothing for so long about an update has failed at it.
UPDATE_PATIENCE_S = 10.0
# A runtime that gets an update with our answer has done it by then.
SETTLED_S = 2.0


class _Pending(NamedTuple):
    """What is to be done when the runtime is done with a container."""

    known: Known
    pod: str
    writes: Sequence[Write]
    until: float  # when the runtime is not expected to be at it any more
    overtaken: bool = False  # by a write of ours, of what was right until then
    was: Managed = Managed({})  # ours before an update
    noted: Known | None = None  # what the inventory had when an update began


def _has_only_started(was: Known | None, now: Known | None) -> bool:
    return was is not None and now == was._replace(started=True)


def _lower(hands: DirectWriter, pod: str) -> None:
    tell(hands.lower(pod))


class WritingPlugin(NodePlugin):
    """Decides, and writes what the runtime cannot."""

    views = MappingProxyType(
        {
            **NodePlugin.views,
            "start_container": view.ContainerEvent,
            "post_update_container": view.ContainerEvent,
        }
    )

    def __init__(
        self,
        facts: NodeFacts,
        tree: Tree,
        open_hands: Callable[[], DirectWriter],
        records: OwnershipRecords | None = None,
        *,
        written_before: bool = False,
    ) -> None:
        """Write through the hands, which are opened when a configuration needs them.

        Or when there is something to take back, because an earlier process has written.
        """
        self._open_hands = open_hands
        self._written_before = written_before
        self._hands: DirectWriter | None = None
        self._repairs = False
        # By container: those that are to start, and those that are being updated.
        self._starting: dict[str, _Pending] = {}
        self._updates: dict[str, _Pending] = {}
        self._keeper_writes_to = ""
        super().__init__(facts._replace(writable=False), tree, records=records)

    def close(self) -> None:
        """Stop writing."""
        super().close()
        if self._hands is not None:
            self._hands.close()

    def _prepare(self, config: Config) -> None:
        """Open the hands for the first configuration that has a use for them."""
        repair = config.repair
        plain = Plan(config=config.engine).plain
        # A curve may take a write under crun with systemd; whether it does shows later.
        systemd = self._plan.facts.driver == SYSTEMD
        curved = systemd and config.engine.curve is not None
        needed = not plain or curved or config.adopt.enabled or repair.enabled
        needed = needed or self._written_before
        if needed:
            self._open()
        self._repairs = repair.enabled and self._hands is not None
        self.keeper.every(repair.every_seconds, self.repair if self._repairs else None)

    def _open(self) -> None:
        if self._hands is not None:
            return
        try:
            self._hands = self._open_hands()
        except NRIPluginError as exc:
            _log.warning("cgroups are not written: %s", exc)
        else:
            self._learn(writable=True)

    def configure(self, request: nri.ConfigureRequest) -> None:
        """Get ready to write what a runtime drops from updates, whatever is on."""
        super().configure(request)
        facts = self._plan.facts
        if facts.drops_unified and facts.cgroup_version == 2:
            self._open()

    @property
    def _remembers(self) -> bool:
        return super()._remembers or self._repairs

    # Creation

    def _write_new(
        self, request: view.CreateContainerRequest, answer: CachedAnswer
    ) -> None:
        message, writes = request.container, answer.decision.writes
        parent, own = cgroups_of(parse_pod(request.pod, {}), message)
        before = [w for w in writes if w.when is When.BEFORE]
        if before and parent is not None and self._hands is not None:
            name = (own or message.id).rpartition("/")[2]
            tell(self._hands.prepare(before, parent, message.id, name))
        after = [w for w in writes if w.when is When.AFTER]
        if after:
            known = new_container(message, answer)
            self._starting[message.id] = _Pending(known, parent or "", after, inf)

    def start_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Write what has to wait for the cgroup: it is there, and no process runs."""
        pending = self._starting.pop(container.id, None)
        if pending is not None:
            self._carry_out(pending)
        known = self.inventory.get(container.id)
        if known is not None and not known.started:
            self.inventory.put(container.id, known._replace(started=True))
        if self._hands is not None:
            self._hands.promises.end(container.id)

    # Updates

    def _updating(
        self,
        pod: Pod,
        request: view.UpdateContainerRequest,
        known: Known,
        become: Known,
        decision: Decision,
    ) -> None:
        message, writes = request.container, decision.writes
        parent, cgroup = cgroups_of(pod, message)
        pending = _Pending(
            become,
            parent or "",
            [w for w in writes if w.when is When.AFTER],
            monotonic() + UPDATE_PATIENCE_S,
            was=known.managed,
            noted=self.inventory.get(message.id),
        )
        # Said before asking: either the keeper sees it and leaves the container alone,
        # or we see the keeper, and what it is writing is put right later.
        self._updates[message.id] = pending
        if self._keeper_writes_to == message.id:
            pending = self._updates[message.id] = pending._replace(overtaken=True)
        if self._write_before(writes, parent, cgroup):
            undo = partial(self._put_back, message.id, pending)
            self.keeper.after(UPDATE_PATIENCE_S, undo)

    def post_update_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Take note that the runtime has done it, and do the rest."""
        pending = self._updates.pop(container.id, None)
        if pending is not None:
            now, known = self.inventory.get(container.id), pending.known
            if now is not pending.noted and not _has_only_started(pending.noted, now):
                # Our answer was late, and the runtime has written another one.
                pending = pending._replace(overtaken=True)
            if now is not None and now.started:
                known = known._replace(started=True)
            pending = pending._replace(known=known)
            self.inventory.put(container.id, known)
            self._keep(container.id, pending.was, known.managed)
            if pending.writes or pending.overtaken:
                self.keeper.soon(partial(self._finish_update, container.id, pending))

    def _put_back(self, container_id: str, pending: _Pending) -> None:
        """Undo what was written for an update of which no end was seen."""
        known = self.inventory.get(container_id)
        if self._updates.get(container_id) is not pending or known is None:
            return
        # Should the end come yet, all of it has to be written again.
        self._updates[container_id] = pending._replace(overtaken=True)
        cgroup = known.cgroup
        if self._hands is not None and cgroup is not None:
            _log.warning("%s: the runtime has not updated it: as before", cgroup)
            tell(self._hands.put(known.files, cgroup))

    def _finish_update(self, container_id: str, pending: _Pending) -> None:
        with self._writing_to(container_id):
            if self._is_changing(container_id, pending.known):
                return  # by another update, which has its own end
            self._carry_out(pending)
            cgroup = pending.known.cgroup
            if pending.overtaken and self._hands is not None and cgroup is not None:
                tell(self._hands.put(pending.known.files, cgroup))

    def remove_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Forget the container."""
        self._starting.pop(container.id, None)
        self._updates.pop(container.id, None)
        known = self._forget(container.id)
        if self._hands is not None:
            self._hands.promises.end(container.id)
            if known is not None:
                self.keeper.soon(partial(self._after_removal, self._hands, known))

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Forget the pod's own cgroup, unless the pod's next sandbox keeps it."""
        parent = cgroup_of_parent(pod.linux.cgroup_parent)
        if parent is not None and self._hands is not None:
            self.keeper.soon(partial(self._hands.forget, parent))
            self._lower_soon(self._hands, self._hands.promises.end_in(parent))

    def _lower_soon(self, hands: DirectWriter, pods: Iterable[str]) -> None:
        """Have the keeper take back what was raised for promises that ended unkept."""
        for pod in pods:
            self.keeper.soon(partial(_lower, hands, pod))

    def _after_removal(self, hands: DirectWriter, known: Known) -> None:
        cgroup = known.cgroup
        if cgroup is None:
            return
        hands.forget(cgroup)
        if not PROTECTION.isdisjoint(known.files):
            _lower(hands, cgroup.rpartition("/")[0])

    def _write_before(
        self, writes: Sequence[Write], parent: str | None, cgroup: str | None
    ) -> bool:
        """Write what comes before the runtime's part; whether to the container."""
        before = [w for w in writes if w.when is When.BEFORE]
        if not before or parent is None or self._hands is None:
            return False
        tell(self._hands.carry_out(before, parent, cgroup))
        return any(write.level is Level.CONTAINER for write in before)

    def _carry_out(self, pending: _Pending) -> None:
        if self._hands is not None:
            writes, cgroup = pending.writes, pending.known.cgroup
            tell(self._hands.carry_out(writes, pending.pod, cgroup))

    # Containers that exist

    def synchronize(  # type: ignore[override] # the view declared above
        self, pods: Sequence[view.PodSandbox], containers: Sequence[view.Container]
    ) -> list[nri.ContainerUpdate] | None:
        """Forget what the last connection left unfinished; the rest as all plugins."""
        there = {container.id for container in containers}
        for container_id in self._starting.keys() - there:
            del self._starting[container_id]
        self._updates.clear()
        if self._hands is not None:
            self.keeper.soon(self._hands.sweep)
            self._lower_soon(self._hands, self._hands.promises.end_all_but(there))
        return super().synchronize(pods, containers)

    def _send(
        self,
        corrections: Sequence[Correction],
        at_once: int,
        out: Outgoing,
    ) -> None:
        """Have the runtime write what it can, and do the rest when it is done."""
        hands = self._hands
        if hands is None:
            super()._send(corrections, at_once, out)
            return
        for one in corrections[:at_once]:
            if not carried(one):
                self.keeper.soon(partial(self._adopt_one, one))
                continue
            before = [w for w in one.writes if w.when is When.BEFORE]
            if before and one.pod is not None:
                tell(hands.carry_out(before, one.pod, one.was.cgroup))
            finish = partial(self._adopt_one, one._replace(was=one.known))
            self.keeper.after(SETTLED_S, finish)
        super()._send(corrections[:at_once], at_once, out)
        rest = corrections[at_once:]
        out.later += [partial(self._adopt_one, one) for one in rest]

    def _adopt_missing(
        self,
        missing: Sequence[Correction],
        at_once: int,
        out: Outgoing,
    ) -> None:
        """Write by ourselves: the first ones soon, the rest by and by."""
        if self._hands is None:
            super()._adopt_missing(missing, at_once, out)
            return
        now, rest = missing[:at_once], missing[at_once:]
        _log.info("adopt: %d containers now, %d later", len(now), len(rest))
        for one in now:
            self.keeper.soon(partial(self._adopt_one, one))
        out.later += [partial(self._adopt_one, one) for one in rest]

    def _correct(self, one: Correction) -> None:
        if self._hands is None:
            super()._correct(one)
        else:
            self._adopt_one(one)

    def _adopt_one(self, one: Correction) -> None:
        hands, cgroup = self._hands, one.known.cgroup
        if hands is None or cgroup is None:
            return
        before = [w for w in one.writes if w.when is When.BEFORE]
        after = [w for w in one.writes if w.when is When.AFTER]
        with self._writing_to(one.container_id), hands.exclusive():
            if self._is_changing(one.container_id, one.was):
                return  # or gone, or changed: then an update has asked us
            if one.pod is not None:
                tell(hands.carry_out(before, one.pod, cgroup))
            tell(hands.put(one.files, cgroup))
            if one.pod is not None:
                tell(hands.carry_out(after, one.pod, cgroup))
            self._becomes(one.container_id, one.was, one.known)

    def repair(self) -> None:
        """Put right what somebody else changed, in every container that we know."""
        hands = self._hands
        if hands is None:
            return
        for container_id, known in self.inventory.snapshot().items():
            cgroup = known.cgroup
            if cgroup is None or not known.started:
                continue
            with self._writing_to(container_id):
                if self._is_changing(container_id, known):
                    continue
                outcomes = hands.put(known.files, cgroup)
            tell(outcomes)
            for outcome in outcomes:
                if outcome.status is Status.WRITTEN:
                    _log.info("repair: %s: %s", outcome.path, outcome.content)

    @contextmanager
    def _writing_to(self, container_id: str) -> Iterator[None]:
        """Say so while the keeper is at a container, before looking at it."""
        self._keeper_writes_to = container_id
        try:
            yield
        finally:
            self._keeper_writes_to = ""

    def _is_changing(self, container_id: str, known: Known) -> bool:
        """Whether the runtime is at work on a container, or was since we looked."""
        for pending in (self._starting, self._updates):
            one = pending.get(container_id)
            if one is not None and monotonic() < one.until:
                return True
        return self.inventory.get(container_id) is not known
