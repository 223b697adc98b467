"""Values that a container is given although no request asks for them.

A correction comes from Synchronize (values that became stale by a resize while the
plugin was not connected, or values that `adopt` adds) or from an update that was
answered without the handlers. It is valid only while the inventory has the very entry
that the correction was made from, or that entry at the container's start. If an update
has replaced the entry, the update's decision is newer, and the correction is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.decision import When
from nriplugin.node.outcomes import log_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nriplugin.engine.decision import Decision, Write
    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.pending import PendingWrites


class Correction(NamedTuple):
    """The values that one container is to get, and its entry before and after."""

    was: ContainerEntry  # the entry that the correction was made from
    become: ContainerEntry
    files: Mapping[str, str]  # the container's files that do not hold their value yet
    writes: Sequence[Write]  # direct writes of the decision, for all levels
    # Whether the container becomes idle. That takes cleared shares, which no runtime
    # can do to an existing container, so cpu.idle has to be written directly.
    idle: bool
    warnings: Sequence[str] = ()

    def for_runtime(self) -> dict[str, str]:
        """Return the files that the runtime itself can write."""
        return {
            file: value
            for file, value in self.files.items()
            if not (self.idle and file == "cpu.idle")
        }


def correction_of(
    was: ContainerEntry,
    become: ContainerEntry,
    files: Mapping[str, str],
    decision: Decision,
) -> Correction:
    """Return the correction by a decision; `files` are those that need a new value."""
    # All warnings of decisions are about memory.high. There is no second warning about
    # a container whose memory.high is right already.
    warnings = decision.warnings if "memory.high" in files else ()
    idle = bool(decision.cleared)
    return Correction(was, become, files, decision.writes, idle, warnings)


class Corrections:
    """Carries out corrections by direct writes, on the background thread."""

    def __init__(self, inventory: Inventory, pending: PendingWrites) -> None:
        self._inventory = inventory
        self._pending = pending
        # By container ID: the corrections of containers that have not started. The
        # runtime has made no cgroup for them, or will write its own values there.
        self._at_start: dict[str, Callable[[], None]] = {}

    def waits_for_start(self, one: Correction, job: Callable[[], None]) -> bool:
        """Return whether the container has yet to start; then `started` returns `job`.

        Called on the background thread.
        """
        container_id = one.was.id
        # The job is kept before the entry is looked at: a start in between finds it.
        self._at_start[container_id] = job
        entry = self._inventory.get(container_id)
        if entry is not None and not entry.started:
            return True
        return self._at_start.pop(container_id, None) is None

    def started(self, container_id: str) -> Callable[[], None] | None:
        """Return the job that waited for a container's start, if any.

        The caller has it done on the background thread, or drops it.
        """
        return self._at_start.pop(container_id, None) if self._at_start else None

    def forget_waiting(self) -> None:
        """Drop the corrections that wait: the next Synchronize makes new ones."""
        self._at_start.clear()

    def since_start(self, one: Correction) -> Correction:
        """Return the correction made from the entry that a start has replaced it by."""
        now = self._inventory.get(one.was.id)
        if now is None or now is one.was or now != one.was.at_start(now.cgroups_path):
            return one
        become = one.become.at_start(now.cgroups_path)
        return one._replace(was=now, become=become)

    def write(self, one: Correction) -> bool:
        """Write a correction to the container's cgroup.

        Returns whether the correction was still valid, so that its entry is in the
        inventory now.
        """
        one = self.since_start(one)
        writer, cgroup = self._pending.writer, one.become.cgroup
        if writer is None or cgroup is None:
            return False
        pod = one.become.pod_cgroup
        # `writing_to` comes before `is_changing`: an update that begins between the two
        # then sees this thread, and its values are written once more (pending.py).
        with self._pending.writing_to(one.was.id), writer.exclusive():
            if self._pending.is_changing(one.was):
                return False
            if self._pending.forbids(one.become.decision):
                return False
            self._pending.directly_written.add(one.was.id)
            log_failures(writer.carry_out(one.writes, When.BEFORE, pod, cgroup))
            log_failures(writer.put(one.files, cgroup))
            log_failures(writer.carry_out(one.writes, When.AFTER, pod, cgroup))
            return self._inventory.change(one.was, one.become)
