"""Puts values right that have drifted, where the configuration allows it.

The runtime is asked first, so that its own record of the container agrees with the
values. If it cannot be asked, or the file still holds another value afterwards, the
value is written directly. repair_backoff.py says when a file may be written again.

The background thread alone calls this. Direct writes are done by another thread, which
tells `Repairs` about their end.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.updates import Status
from nriplugin.node.outcomes import log_failures
from nriplugin.state.events import EventKind
from nriplugin.state.repair_backoff import WAITS_S, Attempt, RepairBackoff, Way

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from nriplugin.cgroup.writing.updates import Outcome
    from nriplugin.state.events import EventLog
    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.pending import PendingWrites
    from nriplugin.state.verification import ShadowCounts, VerificationCounts
    from nriplugin.state.verifier import Drift

    # Asks the runtime to write files of a container; returns whether it was asked.
    Send = Callable[[ContainerEntry, Mapping[str, str]], bool]

_log = logging.getLogger(__name__)

# A direct write with such an outcome has not touched the file: the state directory was
# full, or the write has waited for too long.
_NOT_TRIED = frozenset({Status.REFUSED, Status.DROPPED})

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
        # IDs of containers for which a direct write was begun and has not ended.
        self._waiting: set[str] = set()
        # IDs of containers whose last direct write has not touched the files.
        self._not_tried: set[str] = set()

    def attend(
        self,
        entry: ContainerEntry,
        cgroup: str,
        drift: Mapping[str, Drift],
        now: float,
    ) -> None:
        """Begin what is due for a container that was compared just now.

        The results are seen when it is compared again, which is soon after a write.
        """
        if entry.id in self._waiting:
            return  # the thread that writes has not come to it yet
        if entry.id in self._not_tried:
            # Nobody fights about these files, so the next attempt needs no long wait.
            self._not_tried.discard(entry.id)
            self._backoff.not_tried(entry.id)
        self._backoff.held(entry.id, drift, now)
        self._end_successful(entry, drift)
        # `outdated` values and those of a mere record are never written again.
        files = {f: d.wanted for f, d in drift.items() if f in entry.files}
        if not files or not self.may_repair(entry):
            return
        self._backoff.begin(entry.id, entry.decided_at)
        failed = self._backoff.take_open(entry.id, files)
        by_runtime = {f: files[f] for f, a in failed.items() if a.way is Way.RUNTIME}
        for file in failed:
            self._counts.failed_repairs[file] += 1
        for file in by_runtime:
            _log.warning("repair: %s: the runtime did not set %s", entry.path, file)
        # Before the next attempts: these files have drifted since their last one.
        self._give_up(entry, drift, files)
        due = {f: files[f] for f in self._backoff.due(entry.id, files, now)}
        through = self._for_runtime(entry, due)
        if through and self.send is not None and self.send(entry, through):
            attempts = {f: Attempt(Way.RUNTIME, drift[f].held) for f in through}
            self._backoff.tried(entry.id, through, now, attempts)
            # The result is compared when the runtime has had time to write.
            self._pending.to_verify.append(entry.id)
            due = {f: v for f, v in due.items() if f not in through}
        directly = {**due, **by_runtime}
        if directly and self._submit(entry, cgroup, directly):
            attempts = {f: Attempt(Way.DIRECT, drift[f].held) for f in directly}
            rest = {f: v for f, v in by_runtime.items() if f not in due}
            self._backoff.tried(entry.id, due, now, attempts)
            self._backoff.tried(entry.id, rest, now, attempts, further=False)

    def keep_only(self, container_ids: Container[str]) -> None:
        """Forget containers that have ended."""
        self._backoff.keep_only(container_ids)
        for one in [one for one in list(self._not_tried) if one not in container_ids]:
            self._not_tried.discard(one)

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
        """Count and name the files that were put right."""
        held = [file for file in entry.files if file not in drift]
        done = self._backoff.take_open(entry.id, held)
        for file in done:
            self._counts.repairs[file] += 1
        by_runtime = [f for f, one in done.items() if one.way is Way.RUNTIME]
        for file in by_runtime:
            _log.info("repair: %s: the runtime has set %s", entry.path, file)
        if by_runtime:
            values = [f"{file} is {entry.files[file]!r} again" for file in by_runtime]
            text = f"{', '.join(values)}, set by the runtime"
            self._events.note(EventKind.REPAIRED, entry, text)
        directly = [
            f"{file} is {entry.files[file]!r} again, it held {one.held!r}"
            for file, one in done.items()
            if one.way is Way.DIRECT
        ]
        if directly:
            self._events.note(EventKind.REPAIRED, entry, "; ".join(directly))

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

    def _submit(
        self, entry: ContainerEntry, cgroup: str, files: Mapping[str, str]
    ) -> bool:
        """Have files written by the thread that writes; return whether it will try.

        The background thread does not wait for it: a write may block for as long as the
        kernel reclaims memory, or systemd does not answer.
        """
        pending = self._pending
        writer = pending.writer
        if writer is None:
            return False
        # The container is published as being written to before `allowed` looks for an
        # update: one that begins between the two then sees this thread, and its values
        # are written once more (pending.py).
        end = pending.begin_writing(entry.id)
        self._waiting.add(entry.id)

        def allowed() -> bool:
            return not (pending.is_changing(entry) or pending.withdrawn)

        def ended() -> None:
            end()
            self._waiting.discard(entry.id)

        def done(outcomes: list[Outcome]) -> None:
            ended()
            log_failures(outcomes)
            for outcome in outcomes:
                if outcome.status is Status.WRITTEN:
                    pending.directly_written.add(entry.id)
                    _log.info("repair: %s: %s", outcome.path, outcome.content)
            if all(outcome.status in _NOT_TRIED for outcome in outcomes):
                self._not_tried.add(entry.id)  # the next comparison of all tries again
            else:
                pending.to_verify.append(entry.id)

        # The comparison has just found other values, so the cache does not count.
        if writer.submit(files, cgroup, allowed=allowed, done=done, fresh=True):
            return True
        ended()
        return False

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
