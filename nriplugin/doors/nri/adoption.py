"""Existing containers: what Synchronize tells of them, and how they are corrected.

At Synchronize the runtime lists every container. From that list the plugin learns the
runtime's curve, fills the inventory, and finds two kinds of wrong values:

* *stale* values follow from numbers that kubelet has changed while the plugin was away.
  The runtime keeps them and writes them over kubelet's numbers, so they are always put
  right, and by the runtime itself, because it would write its old ones again otherwise.
* *missing* values are those that the container would get if it were created now. They
  are added if the configuration says `adopt`.

The first corrections go out with the answer to Synchronize, while the runtime makes all
others wait; the rest follows at a limited pace.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.paths import cgroup_of
from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.convert.readers import core_from_nri
from nriplugin.doors.nri.messages import (
    existing_entry,
    managed_of,
    read_existing,
    read_pod,
)
from nriplugin.doors.nri.responses import files_update
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import HandlerFailed, When
from nriplugin.engine.model import Pod
from nriplugin.engine.provenance import UNKNOWN
from nriplugin.engine.stale import changed_numbers, numbers_of
from nriplugin.errors import ConversionError
from nriplugin.node.observe import held, memory_use
from nriplugin.node.outcomes import log_failures
from nriplugin.state.corrections import Correction
from nriplugin.state.decision_summary import summarise
from nriplugin.state.inventory import NO_POD, summarise_pod
from nriplugin.state.learning import Weighted
from nriplugin.state.lifecycle import with_ownership
from nriplugin.state.ownership import Ownership

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.api import view_pb2 as view
    from nriplugin.config.file import AdoptSection
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Use
    from nriplugin.kube.managed import Managed
    from nriplugin.nri.releases import Release
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle

    Job = Callable[[], None]

_log = logging.getLogger(__name__)

# The first release that shows the cgroup v2 values which a container has.
SHOWS_UNIFIED: Release = (0, 10, 0)
# Before this release, a runtime can deadlock on an update that it did not ask for.
TAKES_UPDATES: Release = (0, 12, 1)

# How many containers the runtime updates with the answer to Synchronize, and how many
# follow each second, where the configuration does not say.
AT_ONCE = 50
PER_SECOND = 10

# A runtime that gets an update with the answer to Synchronize has done it by then.
SETTLED_S = 2.0


class Outgoing(NamedTuple):
    """The corrections of one Synchronize."""

    updates: list[nri.ContainerUpdate]  # in the answer
    later: list[Job]  # afterwards, on the background thread


class Findings(NamedTuple):
    """The result of looking at every container."""

    entries: dict[str, ContainerEntry]
    missing: list[Correction]
    stale: list[Correction]


class Adoption:
    """Looks at existing containers, and corrects them."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        enqueue_update: Callable[[nri.ContainerUpdate], bool],
    ) -> None:
        """Correct through the runtime with `enqueue_update`, and by direct writes."""
        self._lifecycle = lifecycle
        self._enqueue_update = enqueue_update
        self.adopt: AdoptSection | None = None
        self.repairs = False  # whether `repair` is on, which needs complete entries
        self.release: Release = (0, 0, 0)

    def synchronize(
        self, pods: Sequence[view.PodSandbox], containers: Sequence[view.Container]
    ) -> list[nri.ContainerUpdate]:
        """Take over everything that exists; return updates for the runtime to do."""
        lifecycle = self._lifecycle
        existing_ids = {container.id for container in containers}
        before = lifecycle.inventory.snapshot()
        lifecycle.pending.keep_only(existing_ids)
        if not lifecycle.plan.inactive:
            shown = self.release >= SHOWS_UNIFIED
            lifecycle.learning.learn_curve(_weighted(containers), shows_unified=shown)
        self._load_records(before.values(), existing_ids)
        plan = lifecycle.plan
        by_id = {pod.id: read_pod(pod, plan.curves) for pod in pods}
        entries = {i: summarise_pod(i, pod) for i, pod in by_id.items()}
        found = Findings({}, [], [])
        complete = not plan.numbers_only or self.adopt is not None or self.repairs
        for message in containers:
            pod = by_id.get(message.pod_sandbox_id, _NO_POD)
            of_pod = entries.get(message.pod_sandbox_id, NO_POD)
            entry = existing_entry(message, of_pod)
            record = lifecycle.ownership.records.get(message.id)
            record = record or managed_of(message, pod)
            found.entries[message.id] = _entry_from(record, entry, before)
            if complete or _may_be_stale(message, record):
                try:
                    _Look(lifecycle, message, pod, entry).add(found, complete=complete)
                except (ConversionError, HandlerFailed):
                    continue  # the container runs, so its values stay as they are
        lifecycle.inventory.replace(entries, found.entries)
        return self._correct_all(found)

    def _load_records(
        self, before: Iterable[ContainerEntry], existing_ids: set[str]
    ) -> None:
        """Find out what nriplugin set: by the state directory and this process.

        `before` are the entries of the connection before, which may not be stored yet.
        """
        lifecycle = self._lifecycle
        records = {} if lifecycle.records is None else lifecycle.records.load()
        records |= {entry.id: entry.managed for entry in before if entry.owned}
        gone = records.keys() - existing_ids
        if lifecycle.records is not None and gone:
            lifecycle.scheduler.soon(partial(lifecycle.records.drop, *gone))
        lifecycle.ownership = Ownership(self.release >= SHOWS_UNIFIED, records)

    # Corrections

    def _correct_all(self, found: Findings) -> list[nri.ContainerUpdate]:
        log, adopt = self._lifecycle.log, self.adopt
        out = Outgoing([], [])
        if found.stale:
            _log.warning(
                "%d containers were resized while the plugin was away and kept its old "
                "values: they get the new ones",
                len(found.stale),
            )
            for one in found.stale:
                values = ", ".join(f"{file}={v}" for file, v in one.files.items())
                resized = f"resized while the plugin was away: {values}"
                log.note_warnings(one.was.path, [resized])
            self._send(found.stale, AT_ONCE, out)
        if adopt is not None and found.missing:
            for one in found.missing:
                log.note_warnings(one.was.path, one.warnings)
            self._add_missing(found.missing, adopt.at_once, out)
        per_second = PER_SECOND if adopt is None else adopt.per_second
        self._lifecycle.scheduler.paced(out.later, per_second)
        return out.updates

    def _add_missing(
        self, missing: Sequence[Correction], at_once: int, out: Outgoing
    ) -> None:
        """Add missing values: by direct writes if they are on, else by the runtime."""
        if self._lifecycle.pending.writer is None:
            self._send(missing, at_once, out)
            return
        now, rest = missing[:at_once], missing[at_once:]
        _log.info("adopt: %d containers now, %d later", len(now), len(rest))
        for one in now:
            self._lifecycle.scheduler.soon(partial(self._write, one))
        out.later.extend(partial(self._write, one) for one in rest)

    def _send(
        self, corrections: Sequence[Correction], at_once: int, out: Outgoing
    ) -> None:
        """Have the runtime write: the first ones with its answer, the rest later."""
        if self._lifecycle.pending.writer is not None:
            self._send_and_write(corrections, at_once, out)
            return
        corrections = [one for one in corrections if one.for_runtime()]
        now, rest = corrections[:at_once], corrections[at_once:]
        if rest and self.release < TAKES_UPDATES:
            _log.warning(
                "%d containers keep their values: this runtime may hang on updates "
                "that it did not ask for",
                len(rest),
            )
            rest = []
        _log.info("%d containers are updated now, %d later", len(now), len(rest))
        self._answer_with(now, out)
        out.later.extend(partial(self._send_later, one) for one in rest)

    def _send_and_write(
        self, corrections: Sequence[Correction], at_once: int, out: Outgoing
    ) -> None:
        """Have the runtime write what it can, and do the direct writes around that."""
        lifecycle = self._lifecycle
        writer, soon = lifecycle.pending.writer, lifecycle.scheduler.soon
        assert writer is not None
        sent = []
        for one in corrections[:at_once]:
            if not one.for_runtime():
                soon(partial(self._write, one))
                continue
            pod, cgroup = one.was.pod_cgroup, one.was.cgroup
            log_failures(writer.carry_out(one.writes, When.BEFORE, pod, cgroup))
            # By the time that this runs, the entry is `become`.
            finish = partial(self._write, one._replace(was=one.become))
            lifecycle.scheduler.after(SETTLED_S, finish)
            sent.append(one)
        _log.info("%d containers are updated now", len(sent))
        self._answer_with(sent, out)
        out.later.extend(partial(self._write, one) for one in corrections[at_once:])

    def _answer_with(self, corrections: Iterable[Correction], out: Outgoing) -> None:
        for one in corrections:
            if self._lifecycle.change(one.was, one.become):
                out.updates.append(files_update(one.was.id, one.for_runtime()))

    def correct(self, one: Correction) -> None:
        """Correct one container, on the background thread."""
        if self._lifecycle.pending.writer is not None:
            self._write(one)
        elif one.for_runtime() and self.release >= TAKES_UPDATES:
            self._send_later(one)

    def _write(self, one: Correction) -> None:
        if self._lifecycle.corrections.write(one):
            self._lifecycle.store_record(one.was, one.become)

    def _send_later(self, one: Correction) -> None:
        if self._lifecycle.pending.is_updating(one.was.id):
            return  # the update under way has a decision of its own
        if self._lifecycle.change(one.was, one.become):
            self._enqueue_update(files_update(one.was.id, one.for_runtime()))


_NO_POD = Pod()


def _weighted(containers: Iterable[view.Container]) -> Iterable[Weighted]:
    """Return the containers whose weights may show the runtime's curve."""
    for container in containers:
        linux = container.linux
        cgroup = cgroup_of(linux.cgroups_path)
        if cgroup is not None:
            resources = linux.resources
            yield Weighted(cgroup, resources.cpu.shares.value, resources.unified)


def _entry_from(
    record: Managed | None, entry: ContainerEntry, before: Mapping[str, ContainerEntry]
) -> ContainerEntry:
    """Return an entry for a container that is not looked at any closer.

    It is the one that this process had before, or has the recorded values to show. Who
    set which value is then found out at the first update.
    """
    known = before.get(entry.id)
    if known is not None and known.owned:
        return known._replace(pod=entry.pod, started=entry.started)
    if record is None:
        return entry
    files, others, numbers = record
    return entry._replace(files=files, others=others, numbers=numbers)


def _may_be_stale(message: view.Container, record: Managed | None) -> bool:
    """Whether a container can have a value of nriplugin's that is out of date.

    It cannot if its numbers are those in its record; that is so for nearly all, and
    quickly seen.
    """
    resources = message.linux.resources
    if record is None or not record.numbers:
        return record is not None or bool(resources.unified)
    return record.numbers != numbers_of(core_from_nri(resources))


class _Look:
    """One existing container, as Synchronize looks at it."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        message: view.Container,
        pod: Pod,
        entry: ContainerEntry,
    ) -> None:
        self._lifecycle, self._plan, self._pod = lifecycle, lifecycle.plan, pod
        container = read_existing(message)
        annotated = managed_of(message, pod)
        self._entry = lifecycle.own(entry, pod, container, annotated, self._plan)
        self._container = with_ownership(container, self._entry)
        self._shown = lifecycle.ownership.shows(container)
        self._cgroup = entry.cgroup
        self._stored = self._stored_values()

    def add(self, found: Findings, *, complete: bool) -> None:
        """Add the container's entry, and corrections of stale values.

        If `complete`, the entry has the decision that would be made now, and missing
        values are added, too.
        """
        if not complete:
            stale = self._stale(self._entry)
            if stale is not None:
                found.stale.append(stale)
            found.entries[self._entry.id] = self._entry
            return
        plan, use = self._plan, self._use()
        decision = decide(self._pod, self._container, plan.facts, plan.config, use)
        wanted = decision.expected()
        was = self._entry_with(wanted, decision)
        stale = self._stale(was)
        found.entries[was.id] = was
        if stale is not None:
            found.stale.append(stale)
            was = stale.become  # the entry by the time that missing values are added
        absent = {
            file: value
            for file, value in decision.files.items()
            if was.files.get(file) != value and not self._holds(file, value)
        }
        if absent or decision.writes:
            outdated = {f: v for f, v in was.ours.items() if f not in wanted}
            become = was._replace(
                files=wanted,
                outdated=outdated,
                numbers=numbers_of(self._container.resources),
                decision=summarise(decision),
                adopted=True,
            )
            found.missing.append(_correction(was, become, absent, decision))

    def _entry_with(
        self, wanted: Mapping[str, str], decision: Decision
    ) -> ContainerEntry:
        """Return the entry, in which stored values that are wanted now are current."""
        files = {f: v for f, v in wanted.items() if self._stored.get(f) == v}
        outdated = {f: v for f, v in self._entry.ours.items() if f not in files}
        return self._entry._replace(
            files=files, outdated=outdated, decision=summarise(decision)
        )

    def _use(self) -> Use | None:
        tree = self._lifecycle.tree
        if tree is None or self._cgroup is None:
            return None
        return memory_use(tree, self._cgroup)

    def _stale(self, was: ContainerEntry) -> Correction | None:
        """Return the correction of values that a resize has left out of date."""
        given = self._container.resources
        asked = changed_numbers(given, self._stored, self._entry.numbers)
        if asked is None:
            return None
        plan = self._plan
        decision = decide_update(
            *(self._pod, self._container._replace(decided={}), asked),
            *(plan.facts, plan.config, self._use()),
            unasked=True,
        )
        files = {f: v for f, v in decision.files.items() if self._stored.get(f) != v}
        if not (files or decision.writes):
            return None
        become = was.after(decision, (), numbers_of(given))
        return _correction(was, become, files, decision)

    def _stored_values(self) -> dict[str, str]:
        """Return the values of nriplugin's that the runtime keeps, as far as they show.

        Where the runtime does not show them, they are the recorded ones that the kernel
        still holds.
        """
        unified, ours = self._container.resources.unified, self._entry.ours
        if self._shown:
            return {file: unified[file] for file in ours if file in unified}
        return {
            file: value
            for file, value in ours.items()
            if value != UNKNOWN and self._holds(file, value)
        }

    def _holds(self, file: str, value: str) -> bool:
        """Whether a file has a value; a file that cannot be read counts as not."""
        tree = self._lifecycle.tree
        if tree is None or self._cgroup is None:
            return False
        there = held(tree, self._cgroup, file)
        return there is not None and same(file, value, there)


def _correction(
    was: ContainerEntry,
    become: ContainerEntry,
    files: Mapping[str, str],
    decision: Decision,
) -> Correction:
    # All warnings are about memory.high: a container that has it already is not
    # warned of again.
    warnings = decision.warnings if "memory.high" in files else ()
    idle = bool(decision.cleared)
    return Correction(was, become, files, decision.writes, idle, warnings)
