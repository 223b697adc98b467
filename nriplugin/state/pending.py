"""Direct writes that happen before or after the runtime's own writes to a container.

Writes before a creation or an update are done while the runtime waits for the answer.
Writes after a creation are done when the container starts, and writes after an update
when the runtime has reported the end of the update. When a container ends, its claims,
its journal entries and its part of the sums above it are removed.

The background thread writes to containers, too (corrections.py). No lock is held for
the length of an update, because the runtime does a part of it. Instead the request
thread and the background thread each publish first what they are about to do, and then
look at what the other one has published. So at least one of the two sees the other:
either the background thread does not write to the container, or the update is marked as
overtaken and its values are written once more at its end.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nriplugin.engine.decision import Level, When
from nriplugin.node.outcomes import log_failures
from nriplugin.node.protection import FILES as PROTECTION
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from nriplugin.engine.decision import Write
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.node.ownership_records import OwnershipRecords
    from nriplugin.state.events import EventLog
    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.scheduler import Scheduler

    Job = Callable[[], None]

_log = logging.getLogger(__name__)

# If the runtime has not reported the end of an update after this time, the update is
# taken as failed.
UPDATE_LIMIT_S = 10.0

# How many containers may wait for the comparison of their files.
TO_VERIFY = 4096


class Cancellation:
    """Set when a call has stopped waiting for its decision.

    The thread that still decides must not write anything after that.
    """

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False


class PendingUpdate:
    """An update that the runtime is doing."""

    __slots__ = (
        "become",
        "before",
        "noted",
        "overtaken",
        "until",
        "unwritten",
        "writes",
    )

    def __init__(
        self,
        before: ContainerEntry,
        become: ContainerEntry,
        writes: Sequence[Write],
        noted: ContainerEntry | None,
    ) -> None:
        self.before = before  # the container when the decision was made
        self.become = become  # the container when the update is done
        self.writes = writes
        self.noted = noted  # the inventory's entry when the decision was made
        # The update counts as failed after this time.
        self.until = monotonic() + UPDATE_LIMIT_S
        # Whether another thread wrote to the container meanwhile, so that all values
        # have to be written once more at the end.
        self.overtaken = False
        # Files of the container that should have been written before the update, and
        # could not be.
        self.unwritten: frozenset[str] = frozenset()


class PendingWrites:
    """The direct writes that wait for the runtime, by container."""

    def __init__(
        self,
        inventory: Inventory,
        scheduler: Scheduler,
        records: OwnershipRecords | None,
        events: EventLog,
    ) -> None:
        """Begin without a writer: `writer` is set when direct writes are opened."""
        self.writer: DirectWriter | None = None
        self._inventory = inventory
        self._scheduler = scheduler
        self._records = records
        self._events = events
        # By container ID: writes that wait for the start, and updates under way.
        self._starting: dict[str, Sequence[Write]] = {}
        self._updates: dict[str, PendingUpdate] = {}
        # IDs of containers with values that were written directly, so that the runtime
        # may keep others, and the journal has entries for them.
        self.directly_written: set[str] = set()
        # IDs of containers whose files are to be compared with their decision soon,
        # because they have just started or are changing. The request thread only
        # appends, and wakes no thread. If nobody takes them, the oldest are dropped:
        # the comparison of all containers finds these as well.
        self.to_verify: deque[str] = deque(maxlen=TO_VERIFY)
        # Makes the check of a `Cancellation` and the publication in `_updates` one
        # step, so that a late decision cannot replace the one made in its place.
        self._publishing = threading.Lock()
        # IDs of containers to which threads other than the request's are writing; a
        # list, because two threads may write to the same container.
        self._being_written: list[str] = []

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
            key: the container's ID, or a text that the door uses until it has the ID.
            writes: all writes of the decision.
            pod: the cgroup of the container's pod, if the door knows it.
            name: a text that the name of the container's cgroup will contain, if known.
            cancellation: set when the call stops waiting for its decision.
        """
        if self.writer is None or not any(_is_before(write) for write in writes):
            return
        # The cancellation counts when the lock is held: waiting for it may have been
        # what took too long.
        with self.writer.exclusive():
            if cancellation is None or not cancellation.cancelled:
                log_failures(self.writer.prepare_creation(writes, pod, key, name))
        if cancellation is not None and cancellation.cancelled:
            # The call was cancelled meanwhile, so no answer will end the claim.
            self.creation_failed(key, pod)

    def created(self, key: str, container_id: str) -> None:
        """Replace the door's key of a new container by the ID from the runtime."""
        if self.writer is not None:
            self.writer.claims.rename(key, container_id)

    def creation_failed(self, key: str, pod: str | None) -> None:
        """Lower the sums that were raised for a container that was not created."""
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
        """Do the writes that waited for the start, and end the container's claim.

        The container's cgroup exists at this moment. With NRI no process runs in it
        yet; with CRI the runtime has just started the container.
        """
        writes = self._starting.pop(container_id, None)
        if self.writer is not None:
            if writes:
                self.directly_written.add(container_id)
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
    ) -> PendingUpdate | None:
        """Publish an update, and do the writes that come before it.

        Args:
            before: the container when the decision was made.
            become: the container when the update is done.
            writes: all writes of the decision.
            noted: the inventory's entry when the decision was made, if there was one.
            cancellation: set when the call stops waiting for its decision.

        Returns the update, for `finish_update` or `update_failed`; None if the call was
        cancelled.
        """
        update = PendingUpdate(before, become, writes, noted)
        with self._publishing:
            if cancellation is not None and cancellation.cancelled:
                return None
            self._updates[before.id] = update
        # This check has to come after the publication: then either this thread sees the
        # other writer, or the other writer sees the update (`is_changing`).
        if before.id in self._being_written:
            update.overtaken = True
        if self.writer is None or not any(_is_before(write) for write in writes):
            return update
        # As at a creation, the cancellation counts when the lock is held.
        with self.writer.exclusive():
            if cancellation is not None and cancellation.cancelled:
                self._end(update)
                return None
            self.directly_written.add(before.id)
            pod, cgroup = before.pod_cgroup, before.cgroup
            outcomes = self.writer.carry_out(writes, When.BEFORE, pod, cgroup)
            log_failures(outcomes)
        of_container = {write.file for write in writes if _is_first_of_container(write)}
        if of_container:
            written = {outcome.path for outcome in outcomes if outcome.ok}
            update.unwritten = frozenset(
                file for file in of_container if f"{cgroup}/{file}" not in written
            )
            expire = partial(self._expire_update, update)
            self._scheduler.after(UPDATE_LIMIT_S, expire)
        return update

    def pending_update(self, container_id: str) -> PendingUpdate | None:
        """Return the update of a container that was begun last and has no end yet.

        For doors that are told only whose update is done.
        """
        return self._updates.get(container_id)

    def finish_update(self, update: PendingUpdate) -> Job | None:
        """Store the result of an update that the runtime has done.

        Returns the job that is left to do, if any: storing the record, and the writes
        that come after the update.
        """
        self.to_verify.append(update.before.id)  # before its entry has new values
        self._end(update)
        now, become = self._inventory.get(update.before.id), update.become
        if now is not update.noted and not _has_only_started(update.noted, now):
            # The entry was replaced since the decision: the decision was late, and the
            # runtime has written another answer.
            update.overtaken = True
        if now is not None and now.started:
            become = update.become = become._replace(started=True)
        if become.pod.id:  # a container that the runtime does not list has no pod
            self._inventory.put_late(become)
        self._events.note(EventKind.UPDATED, become)
        records, changed = self._records, become.managed != update.before.managed
        if records is not None and changed:
            records.expect(become.id)
        elif not (update.overtaken or any(_is_after(w) for w in update.writes)):
            return None
        return partial(self._do_rest, update, stores=changed)

    def update_failed(self, update: PendingUpdate) -> None:
        """Take back the writes that came before an update that the runtime refused."""
        self._end(update)
        self._write_back(update, "the runtime has refused the update")

    def _end(self, update: PendingUpdate) -> None:
        """Remove an update, unless a later one has taken its place."""
        with self._publishing:
            if self._updates.get(update.before.id) is update:
                del self._updates[update.before.id]

    def _expire_update(self, update: PendingUpdate) -> None:
        """Take back the writes before an update whose end was not reported in time."""
        if self._updates.get(update.before.id) is update:
            # If the runtime finishes the update later, all values are written again.
            update.overtaken = True
            limit = (
                f"the runtime reported no end of an update for {UPDATE_LIMIT_S:.0f} s"
            )
            self._write_back(update, f"{limit}: the update is taken as failed")

    def _write_back(self, update: PendingUpdate, reason: str) -> None:
        entry = self._inventory.get(update.before.id)
        if self.writer is None or entry is None or entry.cgroup is None:
            return
        if any(_is_first_of_container(write) for write in update.writes):
            _log.warning(
                "%s: %s, and the earlier values are written back", entry.cgroup, reason
            )
            log_failures(self.writer.put(entry.files, entry.cgroup))

    def _do_rest(self, update: PendingUpdate, *, stores: bool) -> None:
        become = update.become
        if stores and self._records is not None:
            self._records.put_expected(become.id, become.managed)
        with self.writing_to(become.id):
            if self.is_changing(become) or self.writer is None:
                return  # a newer update is under way; its end writes its own values
            self.directly_written.add(become.id)
            pod, cgroup = become.pod_cgroup, become.cgroup
            log_failures(self.writer.carry_out(update.writes, When.AFTER, pod, cgroup))
            if update.overtaken and cgroup is not None:
                log_failures(self.writer.put(become.files, cgroup))

    # The end

    def removed(self, container_id: str, entry: ContainerEntry | None) -> Job | None:
        """Drop a container's pending writes; return the job that is left to do, if any.

        `entry` is the inventory's entry of the container, if there was one.
        """
        self._starting.pop(container_id, None)
        self._updates.pop(container_id, None)
        if self.writer is not None:
            self.writer.claims.end(container_id)
        recorded = self._records is not None and self._records.has(container_id)
        written = container_id in self.directly_written
        self.directly_written.discard(container_id)
        # A job wakes the background thread, so there is none where nothing is left.
        if not recorded and not written and not _is_protected(entry):
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
        if pod is not None and _is_protected(entry):
            log_failures(self.writer.lower(pod))

    def pod_removed(self, pod: str | None, containers: Iterable[str]) -> Job | None:
        """Drop the pending writes of a pod's containers; return the job left to do."""
        for container_id in containers:
            self._starting.pop(container_id, None)
            self._updates.pop(container_id, None)
            self.directly_written.discard(container_id)
        if self.writer is None or pod is None:
            return None
        return partial(self._after_pod, pod)

    def _after_pod(self, pod: str) -> None:
        assert self.writer is not None
        self.writer.forget(pod)
        for one in self.writer.claims.end_in(pod):
            log_failures(self.writer.lower(one))

    def abandon(self) -> None:
        """Drop the writes of decisions that were made so far and are not done yet."""
        self._starting.clear()
        for update in list(self._updates.values()):
            update.writes = ()

    def keep_only(self, container_ids: Collection[str]) -> None:
        """Drop what an ended connection to the runtime has left unfinished.

        `container_ids` are the containers that exist. Their writes at the start stay.
        """
        for gone in self._starting.keys() - set(container_ids):
            self._starting.pop(gone, None)
        self._updates.clear()
        self.directly_written.intersection_update(container_ids)
        if self.writer is not None:
            pods = self.writer.claims.end_all_but(container_ids)
            self._scheduler.soon(partial(self._sweep, pods))

    def _sweep(self, pods: Iterable[str]) -> None:
        assert self.writer is not None
        self.writer.sweep()
        for pod in pods:
            log_failures(self.writer.lower(pod))

    # For threads other than the request's

    @contextmanager
    def writing_to(self, container_id: str) -> Iterator[None]:
        """Publish that a thread other than the request's writes to a container."""
        end = self.begin_writing(container_id)
        try:
            yield
        finally:
            end()

    def begin_writing(self, container_id: str) -> Job:
        """Publish as `writing_to` does; return the function that ends it.

        The function may be called on any thread, and once.
        """
        self._being_written.append(container_id)
        return partial(self._being_written.remove, container_id)

    def is_changing(self, entry: ContainerEntry) -> bool:
        """Whether the runtime is changing a container, or has done so since `entry`.

        To be called within `writing_to`.
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


def _is_protected(entry: ContainerEntry | None) -> bool:
    """Whether a container has memory protection, which counts in the cgroups above."""
    if entry is None:
        return False
    kept = entry.kept.resources.unified if entry.kept is not None else ()
    return any(file in entry.ours or file in kept for file in PROTECTION)


def _is_before(write: Write) -> bool:
    return write.when is When.BEFORE


def _is_first_of_container(write: Write) -> bool:
    return _is_before(write) and write.level is Level.CONTAINER


def _is_after(write: Write) -> bool:
    return write.when is When.AFTER


def _has_only_started(was: ContainerEntry | None, now: ContainerEntry | None) -> bool:
    return was is not None and now == was._replace(started=True)
