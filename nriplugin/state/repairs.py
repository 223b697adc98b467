"""Puts values right that have drifted, where the configuration allows it.

The runtime is asked first, so that its own record of the container agrees with the
values. If it cannot be asked, or the file still holds another value afterwards, the
value is written directly. repair_backoff.py says when a file may be written again.

The background thread alone calls this.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.updates import Status
from nriplugin.node.outcomes import log_failures
from nriplugin.state.events import EventKind
from nriplugin.state.repair_backoff import WAITS_S, RepairBackoff

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping

    from nriplugin.state.events import EventLog
    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.pending import PendingWrites
    from nriplugin.state.verification import ShadowCounts, VerificationCounts
    from nriplugin.state.verifier import Drift

    # Asks the runtime to write files of a container; returns whether it was asked.
    Send = Callable[[ContainerEntry, Mapping[str, str]], bool]

_log = logging.getLogger(__name__)

# The kernel accepts these only in a certain order with other files, and a runtime
# writes the files of an update in any order.
_DIRECT_ONLY = frozenset({"cpu.max.burst", "cpu.idle"})


class Repairs:
    """Writes values again, first through the runtime, then directly."""

    def __init__(
        self,
        inventory: Inventory,
        pending: PendingWrites,
        events: EventLog,
        counts: VerificationCounts,
        shadow: ShadowCounts,
    ) -> None:
        self.enabled = False
        # Set by a door whose runtime takes updates that it did not ask for.
        self.send: Send | None = None
        self._inventory = inventory
        self._pending = pending
        self._events = events
        self._counts = counts
        self._shadow = shadow
        self._backoff = RepairBackoff()

    def attend(
        self,
        entry: ContainerEntry,
        cgroup: str,
        drift: Mapping[str, Drift],
        now: float,
    ) -> Collection[str]:
        """Begin what is due for a container that was compared just now.

        Returns the files that were written directly. If there are any, the container
        has to be compared again, for `conclude`.
        """
        self._backoff.held(entry.id, drift, now)
        self._end_successful(entry, drift)
        # `outdated` values and those of a mere record are never written again.
        files = {f: d.wanted for f, d in drift.items() if f in entry.files}
        if not files or not self.may_repair(entry):
            return ()
        self._backoff.begin(entry.id, entry.decided_at)
        failed = self._backoff.take_sent(entry.id, files)
        for file in failed:
            self._counts.failed_repairs[file] += 1
            _log.warning("repair: %s: the runtime did not set %s", entry.path, file)
        # Before the next attempts: these files have drifted since their last one.
        self._give_up(entry, drift, files)
        due = {f: files[f] for f in self._backoff.due(entry.id, files, now)}
        through = self._for_runtime(entry, due)
        if through and self.send is not None and self.send(entry, through):
            self._backoff.tried(entry.id, through, now, sent=True)
            # The result is compared when the runtime has had time to write.
            self._pending.to_verify.append(entry.id)
            due = {f: v for f, v in due.items() if f not in through}
        directly = {**due, **{file: files[file] for file in failed}}
        if directly and self._write(entry, cgroup, directly):
            self._backoff.tried(entry.id, due, now)
        else:
            directly = {}
        return directly

    def conclude(
        self,
        entry: ContainerEntry,
        written: Iterable[str],
        before: Mapping[str, Drift],
        after: Container[str],
    ) -> None:
        """Count and name what direct writes have put right.

        `before` is the drift before the files were written, `after` that of now.
        """
        done = []
        for file in written:
            if file in after:
                self._counts.failed_repairs[file] += 1
                continue
            self._counts.repairs[file] += 1
            drift = before[file]
            done.append(f"{file} is {drift.wanted!r} again, it held {drift.held!r}")
        if done:
            self._events.note(EventKind.REPAIRED, entry, "; ".join(done))

    def keep_only(self, container_ids: Container[str]) -> None:
        """Forget containers that have ended."""
        self._backoff.keep_only(container_ids)

    def gave_up(self, container_id: str, file: str) -> bool:
        """Whether a file is not written again before there is a new decision."""
        return self._backoff.gave_up(container_id, file)

    def may_repair(self, entry: ContainerEntry) -> bool:
        """Whether the configuration lets a container's values be written again."""
        if not (self.enabled and entry.owned):
            return False
        rule = "" if entry.decision is None else entry.decision.matched
        shadow = self._shadow
        return not (entry.shadow or shadow.enabled or rule in shadow.rules)

    def _end_successful(self, entry: ContainerEntry, drift: Container[str]) -> None:
        """Count and name the files that the runtime has put right."""
        held = [file for file in entry.files if file not in drift]
        done = self._backoff.take_sent(entry.id, held)
        if not done:
            return
        for file in done:
            self._counts.repairs[file] += 1
            _log.info("repair: %s: the runtime has set %s", entry.path, file)
        values = [f"{file} is {entry.files[file]!r} again" for file in done]
        text = f"{', '.join(values)}, set by the runtime"
        self._events.note(EventKind.REPAIRED, entry, text)

    def _for_runtime(
        self, entry: ContainerEntry, due: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the files that the runtime is asked to write.

        A runtime writes all values that it keeps for a container at every update. It
        would undo those that were written directly, so a container that has some, or
        gets some now, is left to direct writes.
        """
        if self._pending.writer is not None:
            written = entry.id in self._pending.directly_written
            if written or not _DIRECT_ONLY.isdisjoint(due):
                return {}
        return {f: v for f, v in due.items() if f not in _DIRECT_ONLY}

    def _write(
        self, entry: ContainerEntry, cgroup: str, files: Mapping[str, str]
    ) -> bool:
        """Write files directly; return whether anything was attempted."""
        writer = self._pending.writer
        if writer is None:
            return False
        # `writing_to` comes before `is_changing`: an update that begins between the two
        # then sees this thread, and its values are written once more (pending.py).
        with self._pending.writing_to(entry.id), writer.exclusive():
            if self._pending.is_changing(entry) or self._pending.withdrawn:
                return False
            outcomes = writer.put(files, cgroup)
        log_failures(outcomes)
        for outcome in outcomes:
            if outcome.status is Status.WRITTEN:
                self._pending.directly_written.add(entry.id)
                _log.info("repair: %s: %s", outcome.path, outcome.content)
        return bool(outcomes)

    def _give_up(
        self,
        entry: ContainerEntry,
        drift: Mapping[str, Drift],
        files: Mapping[str, str],
    ) -> None:
        for file in self._backoff.gives_up(entry.id, files):
            text = (
                f"repair gives up on {file} after {len(WAITS_S)} attempts: another "
                f"program writes {drift[file].held!r} in place of {files[file]!r}; it "
                "is tried again after an update or a new decision"
            )
            _log.warning("%s: %s", entry.path, text)
            self._events.note(EventKind.DRIFTED, entry, text)
