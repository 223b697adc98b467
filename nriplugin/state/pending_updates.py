"""Updates that the runtime is doing, and the direct writes before and after them.

Writes before an update are done while the runtime waits for the answer, and writes
after it when the runtime has reported its end. If the runtime refuses an update, or
does not report its end, the writes before it are taken back.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nriplugin.engine.decision import Level, When
from nriplugin.node.outcomes import log_failures
from nriplugin.state.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nriplugin.engine.decision import Write
    from nriplugin.node.ownership_records import OwnershipRecords
    from nriplugin.state.events import EventLog
    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.pending import Cancellation, PendingWrites
    from nriplugin.state.scheduler import Scheduler

    Job = Callable[[], None]

_log = logging.getLogger(__name__)

# If the runtime has not reported the end of an update after this time, the update is
# taken as failed. What is then written back may be what the kernel refuses beside the
# runtime's new values, so this is longer than an update takes on a slow and busy node.
UPDATE_LIMIT_S = 30.0

# How many updates may wait for being read back. One that is dropped is no loss: any
# update shows what the runtime does.
MAX_DONE = 256


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


class PendingUpdates:
    """The updates under way, by container."""

    def __init__(
        self,
        pending: PendingWrites,
        inventory: Inventory,
        scheduler: Scheduler,
        records: OwnershipRecords | None,
        events: EventLog,
    ) -> None:
        """Begin without updates; `pending` has the writer, and knows who writes."""
        self._pending = pending
        self._inventory = inventory
        self._scheduler = scheduler
        self._records = records
        self._events = events
        # By container ID: the update that was begun last and has no end yet.
        self.under_way: dict[str, PendingUpdate] = {}
        # Updates that the runtime has done, for the comparison of their files.
        self.done: deque[PendingUpdate] = deque(maxlen=MAX_DONE)
        # Makes the check of a `Cancellation` and the publication in `under_way` one
        # step, so that a late decision cannot replace the one made in its place.
        self._publishing = threading.Lock()

    def begin(
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

        Returns the update, for `finish` or `failed`; None if the call was cancelled.
        """
        update = PendingUpdate(before, become, writes, noted)
        with self._publishing:
            if cancellation is not None and cancellation.cancelled:
                return None
            self.under_way[before.id] = update
        # This check has to come after the publication: then either this thread sees the
        # other writer, or the other writer sees the update (`is_changing`).
        pending = self._pending
        if before.id in pending.being_written:
            update.overtaken = True
        writer = pending.writer
        if writer is None or not any(_is_before(write) for write in writes):
            return update
        # As at a creation, the cancellation counts when the lock is held.
        with writer.exclusive():
            if cancellation is not None and cancellation.cancelled:
                self._end(update)
                return None
            if pending.forbids(become.decision):
                update.writes = ()
                return update
            pending.directly_written.add(before.id)
            pod, cgroup = before.pod_cgroup, before.cgroup
            outcomes = writer.carry_out(writes, When.BEFORE, pod, cgroup)
            log_failures(outcomes)
        of_container = {write.file for write in writes if _is_first_of_container(write)}
        if of_container:
            written = {outcome.path for outcome in outcomes if outcome.ok}
            update.unwritten = frozenset(
                file
                for file in of_container
                if cgroup is None or writer.tree.file_path(cgroup, file) not in written
            )
            expire = partial(self._expire, update)
            self._scheduler.after(UPDATE_LIMIT_S, expire)
        return update

    def finish(self, update: PendingUpdate) -> Job | None:
        """Store the result of an update that the runtime has done.

        Returns the job that is left to do, if any: storing the record, and the writes
        that come after the update.
        """
        # The entry gets its new values only after this.
        self._pending.to_verify.append(update.before.id)
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
        self.done.append(update)
        self._events.note(EventKind.UPDATED, become)
        records, changed = self._records, become.managed != update.before.managed
        if records is not None and changed:
            records.expect(become.id)
        elif not (update.overtaken or any(_is_after(w) for w in update.writes)):
            return None
        return partial(self._do_rest, update, stores=changed)

    def failed(self, update: PendingUpdate) -> None:
        """Take back the writes that came before an update that the runtime refused."""
        self._end(update)
        self._write_back(update, "the runtime has refused the update")

    def _end(self, update: PendingUpdate) -> None:
        """Remove an update, unless a later one has taken its place."""
        with self._publishing:
            if self.under_way.get(update.before.id) is update:
                del self.under_way[update.before.id]

    def _expire(self, update: PendingUpdate) -> None:
        """Take back the writes before an update whose end was not reported in time."""
        if self.under_way.get(update.before.id) is update:
            # If the runtime finishes the update later, all values are written again.
            update.overtaken = True
            limit = (
                f"the runtime reported no end of an update for {UPDATE_LIMIT_S:.0f} s"
            )
            self._write_back(update, f"{limit}: the update is taken as failed")

    def _write_back(self, update: PendingUpdate, reason: str) -> None:
        entry, writer = self._inventory.get(update.before.id), self._pending.writer
        if writer is None or entry is None or entry.cgroup is None:
            return
        if any(_is_first_of_container(write) for write in update.writes):
            _log.warning(
                "%s: %s, and the earlier values are written back", entry.cgroup, reason
            )
            log_failures(writer.put(entry.files, entry.cgroup))

    def _do_rest(self, update: PendingUpdate, *, stores: bool) -> None:
        become = update.become
        if stores and self._records is not None:
            self._records.put_expected(become.id, become.managed)
        pending = self._pending
        writer = pending.writer
        if writer is None:
            return
        with pending.writing_to(become.id), writer.exclusive():
            if pending.is_changing(become) or pending.forbids(become.decision):
                return  # a newer update is under way; its end writes its own values
            pending.directly_written.add(become.id)
            pod, cgroup = become.pod_cgroup, become.cgroup
            log_failures(writer.carry_out(update.writes, When.AFTER, pod, cgroup))
            if update.overtaken and cgroup is not None:
                log_failures(writer.put(become.files, cgroup))


def _is_before(write: Write) -> bool:
    return write.when is When.BEFORE


def _is_first_of_container(write: Write) -> bool:
    return _is_before(write) and write.level is Level.CONTAINER


def _is_after(write: Write) -> bool:
    return write.when is When.AFTER


def _has_only_started(was: ContainerEntry | None, now: ContainerEntry | None) -> bool:
    return was is not None and now == was._replace(started=True)
