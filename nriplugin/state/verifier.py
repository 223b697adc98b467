"""Compares the files of containers with the decisions about them.

A container that has started or was changed is compared a moment later, and all
containers that have started are compared every so often. Everything happens on the
background thread, a limited number of containers at a time. The request thread only
appends IDs to `PendingWrites.to_verify`.

A file that holds another value has drifted: another program changed it, or the runtime
did not write it. Drift is counted and named once, and ends when the file holds its
value again. Where `repair` is on, repairs.py writes the value again.

Containers in shadow mode are compared with the values that they would get.
"""

from __future__ import annotations

import logging
from collections import deque
from time import monotonic, time
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.idle import FILE as IDLE
from nriplugin.engine.provenance import UNKNOWN
from nriplugin.loglimit import LimitedLog
from nriplugin.node.observe import differing
from nriplugin.state.events import EventKind
from nriplugin.state.repairs import Repairs
from nriplugin.state.shadow_comparison import ShadowComparison

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.config import Config
    from nriplugin.state.events import EventLog
    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.locating import CgroupLocator
    from nriplugin.state.pending import PendingWrites
    from nriplugin.state.scheduler import Scheduler
    from nriplugin.state.update_readback import UpdateReadback
    from nriplugin.state.verification import ShadowCounts, VerificationCounts

_log = logging.getLogger(__name__)

# How often the background thread looks for containers to compare. A container that has
# started or was changed is compared at the second look, so that it has settled by then.
TICK_S = 2.0
# The time between two comparisons of all containers, unless `verify` sets another.
EVERY_S = 60.0
# How many containers are compared at one look. Each takes a system call or three per
# file, and requests are served in between.
BATCH = 200
# One of so many is left to the comparison of all containers, however many containers
# have just been changed.
SHARE_OF_ALL = 4


class Drift(NamedTuple):
    """A file that holds another value than the decided one."""

    held: str  # empty if the file cannot be read
    wanted: str
    # Whether the file did not hold the value either when the runtime had just been
    # asked to write it.
    unwritten: bool

    def text(self, file: str) -> str:
        """Return a part of a sentence about this drift."""
        holds = f"holds {self.held!r}" if self.held else "cannot be read"
        said = f"{file} {holds}, decided was {self.wanted!r}"
        return f"{said} (the runtime did not write it)" if self.unwritten else said


class Verifier:
    """Finds drift, and what shadow mode would change."""

    def __init__(
        self,
        inventory: Inventory,
        pending: PendingWrites,
        events: EventLog,
        tree: Tree | None,
        *,
        locator: CgroupLocator,
        counts: VerificationCounts,
        shadow: ShadowCounts,
        readback: UpdateReadback,
    ) -> None:
        """Compare with the cgroups of this tree; without one, nothing is compared."""
        # Returns a container's files that hold a policy's value at the moment. These
        # have not drifted.
        self.held_by_policies: Callable[[str], Collection[str]] = _no_files
        self.clock: Callable[[], float] = monotonic
        self.repairs = Repairs(inventory, pending, events, counts, shadow)
        self._inventory = inventory
        self._pending = pending
        self._events = events
        self._tree = tree
        self._locator = locator
        self._counts = counts
        self._shadow = ShadowComparison(inventory, shadow)
        self._readback = readback
        self._limited = LimitedLog(_log)
        self._interval_s = 0.0
        self._ended = False
        self._next_round = 0.0
        # IDs that were taken off `to_verify` at the last look and at earlier ones, and
        # those that are left of the present round.
        self._settling: dict[str, None] = {}
        self._settled: deque[str] = deque()
        self._round: deque[str] = deque()
        # By container ID: what has drifted; the files that were compared last.
        self._drift: dict[str, dict[str, Drift]] = {}
        self._compared: dict[str, Mapping[str, str]] = {}

    def configure(self, scheduler: Scheduler, config: Config) -> None:
        """Begin or end the comparison by a configuration.

        `repair` needs the comparison, so that is on wherever `repair` is.
        """
        repair, verify = config.repair, config.verify
        interval_s = verify.every_seconds if verify.enabled else 0
        if repair.enabled:
            interval_s = repair.every_seconds
        self.schedule(scheduler, interval_s, repairs=repair.enabled)

    def schedule(
        self,
        scheduler: Scheduler,
        interval_s: float = EVERY_S,
        *,
        repairs: bool = False,
    ) -> None:
        """Compare all containers at this interval from now on; 0 ends that.

        `repairs` is whether drift is also put right.
        """
        on = interval_s > 0 and self._tree is not None and not self._ended
        self.repairs.enabled = repairs and not self._ended
        self._interval_s = self._counts.interval_s = interval_s if on else 0.0
        self._next_round = self.clock() + interval_s
        scheduler.every(TICK_S, self.look if on else None, "verify")
        if not on:
            scheduler.soon(self._forget_all)

    def end(self, scheduler: Scheduler) -> None:
        """Compare nothing any more, whatever configuration comes: values go back."""
        self._ended = True
        self.schedule(scheduler, 0)

    def compare_all_soon(self) -> None:
        """Have the next look begin with all containers; any thread may call it."""
        self._next_round = 0.0

    def drift_of(self, container_id: str) -> Mapping[str, Drift]:
        """Return which files of a container have drifted, and how."""
        return self._drift.get(container_id, {})

    def look(self) -> None:
        """Compare the containers that are due; called every `TICK_S`."""
        now = self.clock()
        self._settled.extend(self._settling)
        self._settling = self._take_queued()
        self._readback.collect()
        if now >= self._next_round and not self._round:
            self._next_round = now + self._interval_s
            known = self._inventory.snapshot()
            self._keep_only(known)
            self._round.extend(known)
            self._counts.last_at = time()
        if self._settled or self._round:
            self._compare_batch(now)
            self._counts.last_at = time()
        self._shadow.count()

    def _take_queued(self) -> dict[str, None]:
        queue = self._pending.to_verify
        taken: dict[str, None] = {}
        while queue:
            taken[queue.popleft()] = None
        return taken

    def _compare_batch(self, now: float) -> None:
        """Compare a limited number of containers; those that have ended cost nothing.

        The round of all containers goes on beside those that were changed, however many
        of these come, because it is the round that forgets the containers that ended.
        """
        left = BATCH
        reserved = BATCH // SHARE_OF_ALL if self._round else 0
        while self._settled and left > reserved:
            container_id = self._settled.popleft()
            left -= self._compare(container_id, now, changed=True)
        while self._round and left > 0:
            container_id = self._round.popleft()
            if container_id not in self._settling:
                left -= self._compare(container_id, now, changed=False)

    def _compare(self, container_id: str, now: float, *, changed: bool) -> bool:
        """Compare one container; return whether it has started and has not ended.

        `changed` says that it has just been changed.
        """
        entry = self._inventory.get(container_id)
        # Before the start, the runtime still has to write the files.
        if self._tree is None or entry is None or not entry.started:
            return False
        self._compare_started(entry, now, changed=changed)
        return True

    def _compare_started(
        self, entry: ContainerEntry, now: float, *, changed: bool
    ) -> None:
        tree, container_id = self._tree, entry.id
        assert tree is not None
        cgroup = self._locator.cgroup_of(entry)
        if cgroup is None:
            return
        self._counts.checked += 1
        self._shadow.compare(tree, entry, cgroup)
        wanted = values_to_compare(entry)
        held = self.held_by_policies(container_id)
        if held:
            wanted = {f: v for f, v in wanted.items() if f not in held}
        found = differing(tree, cgroup, wanted) if wanted else {}
        drifted = container_id in self._drift
        if found is None or ((found or drifted) and self._is_changing(entry)):
            return
        first = self._compared.get(container_id) is not entry.files
        self._compared[container_id] = entry.files
        if found or drifted:
            blamed = changed and first
            blamed = blamed and container_id not in self._pending.directly_written
            self._note(entry, wanted, found, unwritten=blamed)
        if changed:
            self._readback.judge(entry, found)
        drift = self._drift.get(container_id, {})
        self.repairs.attend(entry, cgroup, drift, now)

    def _is_changing(self, entry: ContainerEntry) -> bool:
        """Whether the container may get other values at this moment."""
        queued = entry.id in self._pending.to_verify
        return queued or self._pending.is_changing(entry)

    def _note(
        self,
        entry: ContainerEntry,
        wanted: Mapping[str, str],
        found: Mapping[str, str],
        *,
        unwritten: bool,
    ) -> None:
        """Keep what has drifted; count and name what is new of it."""
        known = self._drift.get(entry.id, {})
        drift, new = {}, []
        for file, held in found.items():
            was = known.get(file)
            if was is not None and was.wanted == wanted[file]:
                drift[file] = was._replace(held=held)
                continue
            drift[file] = Drift(held, wanted[file], unwritten)
            self._counts.drift[file] += 1
            new.append(drift[file].text(file))
        if drift:
            self._drift[entry.id] = drift
        else:
            self._drift.pop(entry.id, None)
        if drift.keys() != known.keys():
            self._inventory.note_drift(entry.id, tuple(drift))
        if new:
            text = "; ".join(new)
            self._events.note(EventKind.DRIFTED, entry, text)
            self._limited.log(logging.WARNING, "drift: %s: %s", entry.path, text)

    # What is not needed any more

    def _keep_only(self, known: Mapping[str, ContainerEntry]) -> None:
        for kept in (self._drift, self._compared):
            for one in [one for one in kept if one not in known]:
                del kept[one]
        self.repairs.keep_only(known)
        self._readback.forget_ended(known)

    def _forget_all(self) -> None:
        for container_id in self._drift:
            self._inventory.note_drift(container_id, ())
        for kept in (self._drift, self._compared):
            kept.clear()
        self._settling.clear()
        self._settled.clear()
        self._round.clear()
        self._shadow.forget_all()


def _no_files(_: str) -> Collection[str]:
    return ()


def values_to_compare(entry: ContainerEntry) -> Mapping[str, str]:
    """Return the values that a container's files are expected to hold.

    For a container about which this process has made no decision yet, these are the
    recorded values, as far as they are known.
    """
    wanted = entry.files
    if entry.decision is None:
        wanted = {file: value for file, value in entry.ours.items() if value != UNKNOWN}
    if wanted.get(IDLE) == "1" and "cpu.weight" in wanted:
        # The kernel shows another weight while a container is idle.
        wanted = {file: v for file, v in wanted.items() if file != "cpu.weight"}
    return wanted
