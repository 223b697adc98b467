"""Values that a container is given although no request asks for them.

A correction comes from Synchronize (values that became stale by a resize while the
plugin was not connected, or values that `adopt` adds) or from an update that was
answered without the handlers. It is valid only while the inventory has the very entry
that the correction was made from. If an update has replaced that entry, the update's
decision is newer, and the correction is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.decision import When
from nriplugin.node.outcomes import log_failures

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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

    def write(self, one: Correction) -> bool:
        """Write a correction to the container's cgroup.

        Returns whether the correction was still valid, so that its entry is in the
        inventory now.
        """
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
