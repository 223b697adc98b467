"""Direct writes around the runtime's own writes, and what ends with a container.

A decision's direct writes come before or after those of the runtime. Before a creation
or an update they are done while the runtime waits for the answer. After a creation they
are done when the container is about to start, and after an update when the runtime has
said that the update is done. A container that ends takes its claims, its journal
entries and its part of the sums above it along.

The background thread writes to containers, too (corrections.py). It and the request
thread never hold a lock while the kernel writes; instead each first publishes what it
is about to do and then looks at what the other one has published. So at least one of
the two sees the other: either the background thread leaves the container alone, or the
update is marked as overtaken and its values are written once more at its end.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.decision import Level, When
from nriplugin.node.outcomes import log_failures
from nriplugin.node.protection import FILES as PROTECTION

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from nriplugin.engine.decision import Write
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.node.ownership_records import OwnershipRecords
    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.scheduler import Scheduler

    Job = Callable[[], None]

_log = logging.getLogger(__name__)

# A runtime that has not said for so long that an update is done has failed at it.
UPDATE_LIMIT_S = 10.0


class Cancellation:
    """Set once a call no longer waits: a decision that is late must not write."""

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False


class _Update(NamedTuple):
    """An update that the runtime is doing."""

    before: ContainerEntry
    become: ContainerEntry
    writes: Sequence[Write]
    until: float  # the update counts as failed after this time
    noted: ContainerEntry | None  # the inventory's entry when the decision was made
    # Whether other values were written meanwhile, so that all are written once more.
    overtaken: bool = False


class PendingWrites:
    """The direct writes that wait for the runtime, by container."""

    def __init__(
        self,
        inventory: Inventory,
        scheduler: Scheduler,
        records: OwnershipRecords | None,
    ) -> None:
        """Begin without a writer: `writer` is set when direct writes are opened."""
        self.writer: DirectWriter | None = None
        self._inventory = inventory
        self._scheduler = scheduler
        self._records = records
        self._starting: dict[str, Sequence[Write]] = {}
        self._updates: dict[str, _Update] = {}
        self._publishing = threading.Lock()
        # The containers to which other threads than the request's are writing.
        self._being_written: set[str] = set()

    # Creation

    def before_creation(
        self,
        key: str,
        writes: Sequence[Write],
        pod: str | None,
        name: str = "",
        cancellation: Cancellation | None = None,
    ) -> None:
        """Do the writes that come before a creation, and claim the parts of sums.

        Args:
            key: the container's ID, or a text that stands for it until it has one.
            writes: all writes of the decision.
            pod: the cgroup of its pod, if the door knows it.
            name: a text that the name of its cgroup will contain, if known.
            cancellation: of a call that may end before this.
        """
        if self.writer is None or (cancellation and cancellation.cancelled):
            return
        log_failures(self.writer.prepare_creation(writes, pod, key, name))

    def created(self, key: str, container_id: str) -> None:
        """Take note of the ID that the runtime gave to a new container."""
        if self.writer is not None:
            self.writer.claims.rename(key, container_id)

    def creation_failed(self, key: str, pod: str | None) -> None:
        """Take back the sums that were raised for a container that was not created."""
        if self.writer is not None and pod is not None:
            self.writer.claims.end(key)
            log_failures(self.writer.lower(pod))

    def wait_for_start(self, container_id: str, writes: Sequence[Write]) -> None:
        """Keep the writes that come after a creation until the container starts."""
        if any(write.when is When.AFTER for write in writes):
            self._starting[container_id] = writes

    def has_to_start(self, container_id: str) -> bool:
        """Whether writes wait for a container's start."""
        return container_id in self._starting

    def start(self, container_id: str, pod: str | None, cgroup: str | None) -> None:
        """Do the writes that waited: the cgroup exists, and no process runs yet."""
        writes = self._starting.pop(container_id, None)
        if self.writer is not None:
            if writes:
                log_failures(self.writer.carry_out(writes, When.AFTER, pod, cgroup))
            self.writer.claims.end(container_id)

    # Updates

    def begin_update(
        self,
        before: ContainerEntry,
        become: ContainerEntry,
        writes: Sequence[Write],
        noted: ContainerEntry | None,
        cancellation: Cancellation | None = None,
    ) -> None:
        """Publish an update, and do the writes that come before it.

        Args:
            before: the container when the decision was made.
            become: the container when the update is done.
            writes: all writes of the decision.
            noted: the inventory's entry when the decision was made, if it had one.
            cancellation: of a call that may end before this.
        """
        until = monotonic() + UPDATE_LIMIT_S
        update = _Update(before, become, writes, until, noted)
        with self._publishing:
            if cancellation is not None and cancellation.cancelled:
                return
            self._updates[before.id] = update
        # Only after publishing the update is it safe to look at the other side.
        if before.id in self._being_written:
            update = self._updates[before.id] = update._replace(overtaken=True)
        if self.writer is None or (cancellation and cancellation.cancelled):
            return
        pod, cgroup = before.pod_cgroup, before.cgroup
        log_failures(self.writer.carry_out(writes, When.BEFORE, pod, cgroup))
        if any(_is_before(w) and w.level is Level.CONTAINER for w in writes):
            expire = partial(self._expire_update, before.id, update)
            self._scheduler.after(UPDATE_LIMIT_S, expire)

    def finish_update(self, container_id: str) -> Job | None:
        """Take note that the runtime has done an update; return what is left to do."""
        update = self._updates.pop(container_id, None)
        if update is None:
            return None
        now, become = self._inventory.get(container_id), update.become
        if now is not update.noted and not _has_only_started(update.noted, now):
            # The decision was late, and the runtime has written another answer.
            update = update._replace(overtaken=True)
        if now is not None and now.started:
            become = become._replace(started=True)
        update = update._replace(become=become)
        if become.pod.id:  # a container that the runtime does not list has no pod
            self._inventory.put_late(become)
        changed = become.managed != update.before.managed
        stores = changed and self._records is not None
        if not (stores or update.overtaken or any(_is_after(w) for w in update.writes)):
            return None
        return partial(self._do_rest, update, stores=stores)

    def update_failed(self, container_id: str) -> None:
        """Undo what was written before an update that the runtime has refused."""
        update = self._updates.pop(container_id, None)
        if update is not None:
            self._write_back(update, "the runtime has refused the update")

    def _expire_update(self, container_id: str, update: _Update) -> None:
        """Undo what was written before an update of which no end was reported."""
        if self._updates.get(container_id) is update:
            # Should the runtime finish it all the same, all values are written again.
            self._updates[container_id] = update._replace(overtaken=True)
            limit = f"no PostUpdateContainer within {UPDATE_LIMIT_S:.0f} s"
            self._write_back(update, f"{limit}: the update is taken as failed")

    def _write_back(self, update: _Update, reason: str) -> None:
        entry = self._inventory.get(update.before.id)
        if self.writer is None or entry is None or entry.cgroup is None:
            return
        if any(_is_before(w) and w.level is Level.CONTAINER for w in update.writes):
            _log.warning(
                "%s: %s, and the earlier values are written back", entry.cgroup, reason
            )
            log_failures(self.writer.put(entry.files, entry.cgroup))

    def _do_rest(self, update: _Update, *, stores: bool) -> None:
        become = update.become
        if stores and self._records is not None:
            self._records.put(become.id, become.managed)
        with self.writing_to(become.id):
            if self.is_changing(become) or self.writer is None:
                return  # another update is under way, which has an end of its own
            pod, cgroup = become.pod_cgroup, become.cgroup
            log_failures(self.writer.carry_out(update.writes, When.AFTER, pod, cgroup))
            if update.overtaken and cgroup is not None:
                log_failures(self.writer.put(become.files, cgroup))

    # The end

    def removed(self, container_id: str, entry: ContainerEntry | None) -> Job | None:
        """Forget a container; return what is left to do.

        `entry` is what the inventory had of it, if anything.
        """
        self._starting.pop(container_id, None)
        self._updates.pop(container_id, None)
        if self.writer is not None:
            self.writer.claims.end(container_id)
        recorded = self._records is not None and self._records.has(container_id)
        if not recorded and (entry is None or self.writer is None):
            return None
        return partial(self._after_removal, container_id, entry)

    def _after_removal(self, container_id: str, entry: ContainerEntry | None) -> None:
        if self._records is not None:
            self._records.drop(container_id)
        if self.writer is None or entry is None:
            return
        if entry.cgroup is not None:
            self.writer.forget(entry.cgroup)
        pod = entry.pod_cgroup
        if pod is not None and not PROTECTION.isdisjoint(entry.files):
            log_failures(self.writer.lower(pod))

    def pod_removed(self, pod: str | None, containers: Iterable[str]) -> Job | None:
        """Forget a pod's cgroup and its containers; return what is left to do."""
        for container_id in containers:
            self._starting.pop(container_id, None)
            self._updates.pop(container_id, None)
        if self.writer is None or pod is None:
            return None
        return partial(self._after_pod, pod)

    def _after_pod(self, pod: str) -> None:
        assert self.writer is not None
        self.writer.forget(pod)
        for one in self.writer.claims.end_in(pod):
            log_failures(self.writer.lower(one))

    def keep_only(self, container_ids: Collection[str]) -> None:
        """Forget what an ended connection left unfinished; these containers exist."""
        for gone in self._starting.keys() - set(container_ids):
            self._starting.pop(gone, None)
        self._updates.clear()
        if self.writer is not None:
            pods = self.writer.claims.end_all_but(container_ids)
            self._scheduler.soon(partial(self._sweep, pods))

    def _sweep(self, pods: Iterable[str]) -> None:
        assert self.writer is not None
        self.writer.sweep()
        for pod in pods:
            log_failures(self.writer.lower(pod))

    # For threads beside the request's

    @contextmanager
    def writing_to(self, container_id: str) -> Iterator[None]:
        """Publish that a thread other than the request's writes to a container."""
        self._being_written.add(container_id)
        try:
            yield
        finally:
            self._being_written.discard(container_id)

    def is_changing(self, entry: ContainerEntry) -> bool:
        """Whether the runtime is at work on a container, or was since `entry`.

        To be asked within `writing_to`.
        """
        update = self._updates.get(entry.id)
        if entry.id in self._starting:
            return True
        if update is not None and monotonic() < update.until:
            return True
        return self._inventory.get(entry.id) is not entry

    def is_updating(self, container_id: str) -> bool:
        """Whether the runtime was given an update that it has not reported yet."""
        return container_id in self._updates


def _is_before(write: Write) -> bool:
    return write.when is When.BEFORE


def _is_after(write: Write) -> bool:
    return write.when is When.AFTER


def _has_only_started(was: ContainerEntry | None, now: ContainerEntry | None) -> bool:
    return was is not None and now == was._replace(started=True)
