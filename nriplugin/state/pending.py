"""Direct writes that happen before or after the runtime's own writes to a container.

Writes before a creation are done while the runtime waits for the answer, and writes
after it when the container starts. Those of an update are in pending_updates.py. When a
container ends, its claims, its journal entries and its part of the sums above it are
removed.

The background thread writes to containers, too (corrections.py). No lock is held for
the length of an update, because the runtime does a part of it. Instead the request
thread and the background thread each publish first what they are about to do, and then
look at what the other one has published. So at least one of the two sees the other:
either the background thread does not write to the container, or the update is marked as
overtaken and its values are written once more at its end.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from nriplugin.engine.decision import When
from nriplugin.node.outcomes import log_failures
from nriplugin.node.protection import FILES as PROTECTION
from nriplugin.state.pending_updates import PendingUpdates

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from nriplugin.engine.decision import Write
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.node.ownership_records import OwnershipRecords
    from nriplugin.state.decision_summary import DecisionSummary
    from nriplugin.state.events import EventLog
    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.scheduler import Scheduler

    Job = Callable[[], None]

# How many containers may wait for the comparison of their files.
TO_VERIFY = 4096


class Cancellation:
    """Set when a call has stopped waiting for its decision.

    The thread that still decides must not write anything after that.
    """

    __slots__ = ("cancelled",)

    def __init__(self) -> None:
        self.cancelled = False


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
        self.updates = PendingUpdates(self, inventory, scheduler, records, events)
        # By container ID: writes that wait for the start.
        self._starting: dict[str, Sequence[Write]] = {}
        # IDs of containers with values that were written directly, so that the runtime
        # may keep others, and the journal has entries for them.
        self.directly_written: set[str] = set()
        # IDs of containers whose files are to be compared with their decision soon,
        # because they have just started or are changing. The request thread only
        # appends, and wakes no thread. If nobody takes them, the oldest are dropped:
        # the comparison of all containers finds these as well.
        self.to_verify: deque[str] = deque(maxlen=TO_VERIFY)
        # IDs of containers to which threads other than the request's are writing; a
        # list, because two threads may write to the same container.
        self.being_written: list[str] = []
        # Whether all values are put back and none is set any more.
        self.withdrawn = False

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
        if self.writer is None or not any(
            write.when is When.BEFORE for write in writes
        ):
            return
        # The cancellation counts when the lock is held: waiting for it may have been
        # what took too long.
        with self.writer.exclusive():
            cancelled = cancellation is not None and cancellation.cancelled
            if not (cancelled or self.withdrawn):
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
                with self.writer.exclusive():
                    if not self.withdrawn:
                        self.directly_written.add(container_id)
                        log_failures(
                            self.writer.carry_out(writes, When.AFTER, pod, cgroup)
                        )
            self.writer.claims.end(container_id)

    # The end

    def removed(self, container_id: str, entry: ContainerEntry | None) -> Job | None:
        """Drop a container's pending writes; return the job that is left to do, if any.

        `entry` is the inventory's entry of the container, if there was one.
        """
        self._starting.pop(container_id, None)
        self.updates.under_way.pop(container_id, None)
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
            self.updates.under_way.pop(container_id, None)
            self.directly_written.discard(container_id)
        if self.writer is None or pod is None:
            return None
        return partial(self._after_pod, pod)

    def _after_pod(self, pod: str) -> None:
        assert self.writer is not None
        self.writer.forget(pod)
        for one in self.writer.claims.end_in(pod):
            log_failures(self.writer.lower(one))

    # The withdrawal

    def abandon(self) -> None:
        """Drop the writes of decisions that were made so far and are not done yet.

        A thread may be between its decision and its writes. It asks `forbids` once it
        has the writer's lock, and values are put back under the same lock. So either
        its writes are done before that and are put back, or they are not done.
        """
        self.withdrawn = True
        self._starting.clear()
        for update in list(self.updates.under_way.values()):
            update.writes = ()

    def forbids(self, decision: DecisionSummary | None) -> bool:
        """Whether the direct writes of a decision must not be done any more.

        After a withdrawal only those may be done that end earlier values. To be asked
        within the writer's `exclusive`.
        """
        return self.withdrawn and (decision is None or decision.handled)

    def keep_only(self, container_ids: Collection[str]) -> None:
        """Drop what an ended connection to the runtime has left unfinished.

        `container_ids` are the containers that exist. Their writes at the start stay.
        """
        for gone in self._starting.keys() - set(container_ids):
            self._starting.pop(gone, None)
        self.updates.under_way.clear()
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
        self.being_written.append(container_id)
        return partial(self.being_written.remove, container_id)

    def is_changing(self, entry: ContainerEntry) -> bool:
        """Whether the runtime is changing a container, or has done so since `entry`.

        To be called within `writing_to`.
        """
        update = self.updates.under_way.get(entry.id)
        if entry.id in self._starting:
            return True
        if update is not None and monotonic() < update.until:
            return True
        return self._inventory.get(entry.id) is not entry


def _is_protected(entry: ContainerEntry | None) -> bool:
    """Whether a container has memory protection, which counts in the cgroups above."""
    if entry is None:
        return False
    kept = entry.kept.resources.unified if entry.kept is not None else ()
    return any(file in entry.ours or file in kept for file in PROTECTION)
