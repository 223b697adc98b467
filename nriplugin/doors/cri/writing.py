"""Writes that no request carries, at the time when the engine wants them."""

from __future__ import annotations

import itertools
import logging
import threading
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.paths import cgroup_of_parent
from nriplugin.engine.decision import When
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.stale import numbers_of
from nriplugin.kube.managed import Managed
from nriplugin.node.observe import container_cgroup, memory_use
from nriplugin.node.outcomes import GapWarnings, tell
from nriplugin.node.protection import FILES as PROTECTION
from nriplugin.node.protection import without_effect

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.doors.cri.inventory import Known
    from nriplugin.engine.decision import Decision, Write
    from nriplugin.engine.model import Container, Pod, Use
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.node.ownership_records import OwnershipRecords

_log = logging.getLogger(__name__)


class Turn:
    """Whether somebody still waits: who is late must not change anything any more."""

    def __init__(self) -> None:
        self.over = threading.Event()


class Writing:
    """The hands, used by one thread at a time: sums are read and then written."""

    def __init__(
        self,
        tree: Tree | None,
        hands: DirectWriter | None,
        records: OwnershipRecords | None = None,
    ) -> None:
        """Look at this tree, and write with these hands, where there are any.

        `records` are of what updates set, where there is a state directory.
        """
        self._records = records
        self._tree = tree
        self._hands = hands
        self._lock = threading.Lock()
        self._gap_warnings = GapWarnings()
        self._creations = itertools.count()

    def before(
        self, writes: Iterable[Write], pod: Pod, container_id: str, turn: Turn
    ) -> None:
        """Do what comes before an update, unless the runtime's part has begun."""
        self._do([w for w in writes if w.when is When.BEFORE], pod, container_id, turn)

    def before_creation(self, writes: Iterable[Write], pod: Pod, turn: Turn) -> str:
        """Do what comes before a creation, unless the runtime's part has begun.

        Returns:
            What the container is called until `created` or `not_created` is told of it.
        """
        key = f"creation {next(self._creations)}"
        due = [w for w in writes if w.when is When.BEFORE]
        parent = cgroup_of_parent(pod.cgroup_parent)
        if due and self._hands is not None and parent is not None:
            with self._lock:
                if not turn.over.is_set():
                    tell(self._hands.prepare(due, parent, key))
        return key

    def created(self, key: str, container_id: str) -> None:
        """Take note of the ID that the runtime gave to a new container."""
        if self._hands is not None:
            self._hands.promises.rename(key, container_id)

    def not_created(self, key: str, pod: Pod) -> None:
        """Take back what was raised for a container that the runtime refused."""
        parent = cgroup_of_parent(pod.cgroup_parent)
        if self._hands is not None and parent is not None:
            with self._lock:
                self._hands.promises.end(key)
                tell(self._hands.lower(parent))

    def started(self, container_id: str) -> None:
        """Take note that a container's cgroup shows what it has."""
        if self._hands is not None:
            self._hands.promises.end(container_id)

    def after(self, writes: Iterable[Write], pod: Pod, container_id: str) -> str | None:
        """Do what comes after it; return the cgroup in which something was done."""
        due = [w for w in writes if w.when is When.AFTER]
        return self._do(due, pod, container_id, Turn())

    def use(self, pod: Pod, container_id: str) -> Use | None:
        """Return what a container uses, where that can be looked at."""
        parent = cgroup_of_parent(pod.cgroup_parent)
        if self._tree is None or parent is None:
            return None
        cgroup = container_cgroup(self._tree, parent, container_id)
        return None if cgroup is None else memory_use(self._tree, cgroup)

    def check_protection(self, pod: Pod, decision: Decision) -> None:
        """Log why a new container's protection has no effect, once for each reason."""
        parent = cgroup_of_parent(pod.cgroup_parent)
        if self._tree is None or parent is None:
            return
        raised = decision.settings.of(MemoryQoSSettings).raise_ancestors
        self._gap_warnings.tell(
            without_effect(self._tree, parent, None, decision.files, raised=raised)
        )

    def recorded(self) -> Mapping[str, Managed]:
        """Return what updates have set, by container."""
        if self._records is None:
            return {}
        with self._lock:
            return self._records.load()

    def record(self, container: Container) -> None:
        """Store what a container has from us after an update."""
        if self._records is None:
            return
        numbers = numbers_of(container.resources)
        managed = Managed(container.ours or {}, container.others, numbers)
        with self._lock:
            self._records.put(container.id, managed)

    def container_ended(self, pod: Pod, known: Known) -> None:
        """Forget its cgroup, and take back what it had from those above."""
        if self._records is not None:
            with self._lock:
                self._records.drop(known.container.id)
        parent = cgroup_of_parent(pod.cgroup_parent)
        if self._hands is None or parent is None:
            return
        with self._lock:
            self._hands.promises.end(known.container.id)
            if known.cgroup is not None:
                self._hands.forget(known.cgroup)
            if not PROTECTION.isdisjoint(known.container.resources.unified):
                tell(self._hands.lower(parent))

    def pod_ended(self, pod: Pod) -> None:
        """Forget what is gone of the pod's cgroup, and of all below it."""
        parent = cgroup_of_parent(pod.cgroup_parent)
        if self._hands is not None and parent is not None:
            with self._lock:
                self._hands.forget(parent)
                if self._hands.promises.end_in(parent):
                    tell(self._hands.lower(parent))

    def _do(
        self, due: list[Write], pod: Pod, container_id: str, turn: Turn
    ) -> str | None:
        parent = cgroup_of_parent(pod.cgroup_parent)
        if not due or self._hands is None or parent is None:
            return None
        with self._lock:
            if turn.over.is_set():
                return None
            cgroup = container_cgroup(self._hands.tree, parent, container_id)
            tell(self._hands.carry_out(due, parent, cgroup))
        return cgroup
