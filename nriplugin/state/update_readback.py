"""Finds out whether the runtime applies `unified` in the answer to an update.

There are runtimes that drop these values without a word, as CRI-O does before 1.36
(engine/runtimes.py). Another such runtime shows itself when the files of an updated
container are read back. Only files count that the runtime does not write by itself from
kubelet's numbers, and that were to get another value. If none of them holds its value,
the runtime ignores `unified` at updates. From then on such values are written directly.

The first result about a runtime, by its name and version, holds until another process
is started. The background thread alone calls this.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.engine.model import CORE_FILES
from nriplugin.state.corrections import Correction
from nriplugin.state.pending_updates import MAX_DONE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from nriplugin.state.corrections import Corrections
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.pending import PendingWrites
    from nriplugin.state.pending_updates import PendingUpdate
    from nriplugin.state.plan import CurrentPlan

_log = logging.getLogger(__name__)


class UpdateReadback:
    """What is known of runtimes, by name and version."""

    def __init__(
        self,
        plans: CurrentPlan,
        pending: PendingWrites,
        corrections: Corrections,
        open_writer: Callable[[], None],
    ) -> None:
        """Know nothing yet; `open_writer` opens direct writes if that is allowed."""
        self._plans = plans
        self._pending = pending
        self._corrections = corrections
        self._open_writer = open_writer
        # Runtime and version -> whether it ignores `unified` at updates.
        self._ignores: dict[tuple[str, str], bool] = {}
        # By container ID: the newest update that was not read back yet; the oldest is
        # first.
        self._updates: dict[str, PendingUpdate] = {}

    def ignores(self, runtime: str, version: str) -> bool:
        """Whether a runtime was found to ignore `unified` at updates."""
        return self._ignores.get((runtime, version), False)

    def collect(self) -> None:
        """Take the updates that the runtime has done since the last call."""
        done = self._pending.updates.done
        while done:
            update = done.popleft()
            self._updates.pop(update.before.id, None)
            self._updates[update.before.id] = update
        # Where containers come and go fast, many of them end before they are read back.
        while len(self._updates) > MAX_DONE:
            del self._updates[next(iter(self._updates))]

    def judge(self, entry: ContainerEntry, differing: Collection[str]) -> None:
        """Draw the conclusion from a container's files that were read just now.

        `differing` are its files that hold another value than the decided one.
        """
        update = self._updates.pop(entry.id, None)
        facts = self._plans.now.facts
        runtime = facts.runtime, facts.runtime_version
        if update is None or runtime in self._ignores or facts.drops_unified:
            return
        if entry.files is not update.become.files or update.overtaken:
            return  # there is a newer decision, or all values were written directly
        sent = self._only_by_unified(update)
        if not sent:
            return
        ignored = all(file in differing for file in sent)
        if ignored and not self._may_write():
            return
        self._ignores[runtime] = ignored
        if ignored:
            _log.warning(
                "%s %s ignores cgroup v2 values in the answer to an update (%s of %s): "
                "from now on nriplugin writes them directly",
                *(*runtime, ", ".join(sent), entry.path),
            )
            self._plans.learn({"ignores_unified": True})
            self._corrections.write(Correction(entry, entry, sent, (), idle=False))
            self._pending.to_verify.append(entry.id)

    def forget_ended(self, known: Collection[str]) -> None:
        """Drop the updates of containers that have ended."""
        for one in [one for one in self._updates if one not in known]:
            del self._updates[one]

    def _may_write(self) -> bool:
        self._open_writer()
        return self._pending.writer is not None

    def _only_by_unified(self, update: PendingUpdate) -> Mapping[str, str]:
        """Return the values that an update has changed through `unified` alone."""
        before, become = update.before.files, update.become.files
        written = {write.file for write in update.writes}
        plan = self._plans.now
        other_curve = plan.config.curve not in (None, plan.facts.curve)
        return {
            file: value
            for file, value in become.items()
            if before.get(file) != value
            and file not in written
            and (file not in CORE_FILES or (file == "cpu.weight" and other_curve))
        }
