"""Reads the list of existing containers at Synchronize, and corrects their values.

From the list that the runtime sends, the plugin learns the runtime's curve, fills the
inventory, and finds two kinds of wrong values:

* *stale* values were computed from numbers that kubelet has changed while the plugin
  was away. The runtime keeps them and writes them over kubelet's numbers, so they are
  always corrected. The runtime has to do it, or it would write its old values again.
* *missing* values are those that the container would get if it were created now. They
  are added only if `adopt` is on. A container that has no values of nriplugin's at all,
  and would get some, was missed: it was created while nriplugin was not connected.

Some corrections are part of the answer to Synchronize. The runtime handles no other
request meanwhile, so the others follow later at a limited rate.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.api.nri_pb2 import CONTAINER_STOPPED
from nriplugin.cgroup.locate.paths import cgroup_of
from nriplugin.doors.nri.existing import (
    ExistingContainer,
    Findings,
    entry_from,
    may_be_stale,
    values_if_new,
)
from nriplugin.doors.nri.messages import existing_entry, managed_of, read_pod
from nriplugin.doors.nri.responses import files_update
from nriplugin.doors.nri.silent_listing import SilentListing
from nriplugin.engine.decision import HandlerFailed, When
from nriplugin.engine.model import Pod
from nriplugin.errors import ConversionError
from nriplugin.node.outcomes import log_failures
from nriplugin.state.adopting import LACKS_NOTHING, Adopting
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import PodEntry, summarise_pod
from nriplugin.state.learning import Weighted
from nriplugin.state.ownership import Ownership

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.api import view_pb2 as view
    from nriplugin.config.file import AdoptSection
    from nriplugin.errors import NRIPluginError
    from nriplugin.nri.releases import Release
    from nriplugin.state.corrections import Correction
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle

    Job = Callable[[], None]

_log = logging.getLogger(__name__)

# The first release of NRI whose messages have the cgroup v2 values of a container.
SHOWS_UNIFIED: Release = (0, 10, 0)
# Before this release, a runtime can deadlock on an update that it did not ask for.
TAKES_UPDATES: Release = (0, 12, 1)

# How many containers are corrected with the answer to Synchronize, and how many follow
# each second, unless `adopt` configures other numbers.
AT_ONCE = 50
PER_SECOND = 10

# How long after the answer to Synchronize the runtime has done the updates in it.
SETTLED_S = 2.0


class Outgoing(NamedTuple):
    """The corrections of one Synchronize."""

    updates: list[nri.ContainerUpdate]  # for the answer
    later: list[Job]  # for the background thread, afterwards


class Adoption:
    """Fills the inventory with existing containers, and corrects their values."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        enqueue_update: Callable[..., bool],
    ) -> None:
        """Correct values with a life-cycle.

        `enqueue_update` hands an update to the SDK, which sends it later, and calls
        its argument `done` with the outcome.
        """
        self._lifecycle = lifecycle
        self._enqueue_update = enqueue_update
        self._adopting = Adopting(lifecycle)
        self.silence = SilentListing(lifecycle)
        self.adopt: AdoptSection | None = None
        self.repairs = False  # whether `repair` is on, which needs complete entries
        self.release: Release = (0, 0, 0)

    @property
    def _shows_unified(self) -> bool:
        """Whether the runtime shows the values of nriplugin that it keeps, if any."""
        direct_only = self._lifecycle.plan.facts.direct_only
        return self.release >= SHOWS_UNIFIED and not direct_only

    def synchronize(
        self, pods: Sequence[view.PodSandbox], containers: Sequence[view.Container]
    ) -> list[nri.ContainerUpdate]:
        """Replace the inventory by these; return updates for the runtime to do."""
        lifecycle = self._lifecycle
        existing_ids = {container.id for container in containers}
        before = lifecycle.inventory.snapshot()
        if not lifecycle.plan.inactive:
            self._learn_curve(containers)
        self._load_records(before.values(), existing_ids)
        plan = lifecycle.plan
        by_id = {pod.id: read_pod(pod, plan.curves) for pod in pods}
        keep = lifecycle.requests.watched or lifecycle.policies.keeps_pods
        kept = {pod.id: pod.SerializeToString() for pod in pods} if keep else {}
        entries = {
            i: summarise_pod(i, pod, message=kept.get(i, b""))
            for i, pod in by_id.items()
        }
        found = Findings({}, [], [], set())
        adopts = self.adopt is not None
        complete = not plan.numbers_only or adopts or self.repairs
        complete = complete or plan.config.shadows
        for message in containers:
            pod = by_id.get(message.pod_sandbox_id, _NO_POD)
            of_pod = entries.get(message.pod_sandbox_id)
            entry = existing_entry(
                message, of_pod or PodEntry(id=message.pod_sandbox_id)
            )
            if message.id in before:
                entry = entry._replace(adopted=before[message.id].adopted)
            record = lifecycle.ownership.records.get(message.id)
            record = record or managed_of(message, pod)
            found.entries[message.id] = entry_from(record, entry, before)
            try:
                if complete or may_be_stale(message, record):
                    ExistingContainer(lifecycle, message, pod, entry).add(
                        found, complete=complete, adopts=adopts
                    )
                if complete or record is not None or found.entries[message.id].ours:
                    continue
                found.add_lacking(message.id, values_if_new(lifecycle, plan, message))
            except (ConversionError, HandlerFailed):
                continue  # the container runs, so its values stay as they are
        ended = {one.id for one in containers if one.state == CONTAINER_STOPPED}
        missed = self._mark_missed(found, before, ended)
        lifecycle.inventory.replace(entries, found.entries)
        lifecycle.requests.follow_later()
        lifecycle.connected(len(missed))
        if missed:
            _log.warning(
                "%d containers were created without nriplugin and lack its values",
                len(missed),
            )
        lifecycle.events.note_all(
            EventKind.MISSED, [(one, one.missed) for one in missed]
        )
        adopted = [(one, LACKS_NOTHING) for one in missed if one.adopted]
        lifecycle.events.note_all(EventKind.ADOPTED, adopted)
        return self._correct_all(found)

    def list_silently(
        self, pods: Sequence[view.PodSandbox], containers: Sequence[view.Container]
    ) -> None:
        """Replace the inventory by these, while another process decides."""
        self._learn_curve(containers)
        lifecycle = self._lifecycle
        # The records are read when the other process has written its last ones.
        lifecycle.ownership = Ownership(self._shows_unified)
        self.silence.add_existing(pods, containers)

    def correct_after_silence(self) -> None:
        """Put values right that became stale while nobody decided.

        Called on the background thread, when the runtime has done the updates that
        arrived before the end of the silence.
        """
        stale = self.silence.take_stale()
        if stale:
            self._note_stale(stale)
            jobs = [partial(self.correct, one) for one in stale]
            self._lifecycle.scheduler.paced(jobs, PER_SECOND)

    def _learn_curve(self, containers: Iterable[view.Container]) -> None:
        learn = self._lifecycle.learning.learn_curve
        learn(_weighted(containers), shows_unified=self._shows_unified)

    def _mark_missed(
        self,
        found: Findings,
        before: Mapping[str, ContainerEntry],
        ended: Container[str],
    ) -> list[ContainerEntry]:
        """Mark the containers that lack values; return those that are new.

        `before` are the entries of the previous connection, `ended` the IDs of
        containers that do not run any more.
        """
        reason, new = self._lifecycle.connection.missing_because(), []
        for container_id in found.lacking:
            if container_id in ended:
                continue
            known = before.get(container_id)
            text = reason if known is None else known.missed or _SEEN_BEFORE
            marked = found.entries[container_id]._replace(missed=text)
            found.entries[container_id] = marked
            if known is None:
                new.append(marked)
        for number, one in enumerate(found.missing):
            # A correction is valid only while its entry is the inventory's.
            if one.was.id in found.lacking:
                was = found.entries[one.was.id]
                become = one.become._replace(missed=was.missed)
                found.missing[number] = one._replace(was=was, become=become)
        return new

    def _load_records(
        self, before: Iterable[ContainerEntry], existing_ids: set[str]
    ) -> None:
        """Collect the records of nriplugin's values; drop those of ended containers.

        The records come from the state directory and from `before`, the entries of the
        previous connection, whose records may not be stored yet.
        """
        lifecycle = self._lifecycle
        records = {} if lifecycle.records is None else lifecycle.records.load()
        records |= {entry.id: entry.managed for entry in before if entry.owned}
        gone = records.keys() - existing_ids
        if lifecycle.records is not None and gone:
            lifecycle.scheduler.soon(partial(lifecycle.records.drop, *gone))
        lifecycle.ownership = Ownership(self._shows_unified, records)

    # Corrections

    def _correct_all(self, found: Findings) -> list[nri.ContainerUpdate]:
        log, adopt = self._lifecycle.log, self.adopt
        out = Outgoing([], [])
        if found.stale:
            self._note_stale(found.stale)
            self._send(found.stale, AT_ONCE, out)
        if adopt is not None and found.missing:
            for one in found.missing:
                log.note_warnings(one.was.path, one.warnings)
            self._add_missing(found.missing, adopt.at_once, out)
        per_second = PER_SECOND if adopt is None else adopt.per_second
        self._lifecycle.scheduler.paced(out.later, per_second)
        return out.updates

    def _note_stale(self, corrections: Sequence[Correction]) -> None:
        _log.warning(
            "%d containers were resized while the plugin was away and kept its old "
            "values: they are corrected",
            len(corrections),
        )
        noted = []
        for one in corrections:
            values = ", ".join(f"{file}={v}" for file, v in one.files.items())
            resized = f"resized while the plugin was away: {values}"
            self._lifecycle.log.note_warnings(one.was.path, [resized])
            noted.append((one.become, resized))
        self._lifecycle.events.note_all(EventKind.STALE, noted)

    def _add_missing(
        self, missing: Sequence[Correction], at_once: int, out: Outgoing
    ) -> None:
        """Add missing values: by direct writes if those are on, else by the runtime."""
        if self._lifecycle.pending.writer is None:
            self._send(missing, at_once, out)
            return
        out.later.extend(self._adopting.begin(missing, at_once))

    def _send(
        self, corrections: Sequence[Correction], at_once: int, out: Outgoing
    ) -> None:
        """Have the runtime write: the first ones with the answer, the others later."""
        if self._lifecycle.pending.writer is not None:
            self._send_and_write(corrections, at_once, out)
            return
        corrections = [one for one in corrections if one.for_runtime()]
        now, rest = corrections[:at_once], corrections[at_once:]
        if rest and self.release < TAKES_UPDATES:
            _log.warning(
                "%d containers are not corrected: this runtime may hang on updates "
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
        """Have the runtime write its part, with direct writes before and after it.

        Corrections beyond `at_once` are done later, by direct writes alone.
        """
        lifecycle = self._lifecycle
        writer, soon = lifecycle.pending.writer, lifecycle.scheduler.soon
        assert writer is not None
        sent = []
        for one in corrections[:at_once]:
            if not one.for_runtime():
                soon(partial(self._adopting.write, one))
                continue
            pod, cgroup = one.was.pod_cgroup, one.was.cgroup
            with writer.exclusive():
                if not lifecycle.pending.forbids(one.become.decision):
                    log_failures(writer.carry_out(one.writes, When.BEFORE, pod, cgroup))
            # `_answer_with` below puts `become` into the inventory, so that is the
            # entry which the later write has to find unchanged.
            finish = partial(self._adopting.write, one._replace(was=one.become))
            lifecycle.scheduler.after(SETTLED_S, finish)
            sent.append(one)
        _log.info("%d containers are updated now", len(sent))
        self._answer_with(sent, out)
        out.later.extend(
            partial(self._adopting.write, one) for one in corrections[at_once:]
        )

    def _answer_with(self, corrections: Iterable[Correction], out: Outgoing) -> None:
        for one in corrections:
            if self._lifecycle.change(one.was, one.become):
                self._adopting.note(one)
                out.updates.append(files_update(one.was.id, one.for_runtime()))

    def correct(self, one: Correction) -> None:
        """Correct one container, on the background thread.

        Without direct writes, a runtime that may hang on updates is not sent any.
        """
        if self._lifecycle.pending.writer is not None:
            self._adopting.write(one)
        elif one.for_runtime() and self.release >= TAKES_UPDATES:
            self._send_later(one)

    def _send_later(self, one: Correction) -> None:
        if one.was.id in self._lifecycle.pending.updates.under_way:
            return  # the update that is under way has a newer decision
        one = self._lifecycle.corrections.since_start(one)
        if self._lifecycle.change(one.was, one.become):
            self._adopting.note(one)
            self._enqueue_update(files_update(one.was.id, one.for_runtime()))

    # Repair

    def send_again(self, entry: ContainerEntry, files: Mapping[str, str]) -> bool:
        """Have the runtime write values again; return whether it was asked.

        Called on the background thread.
        """
        direct_only = self._lifecycle.plan.facts.direct_only
        if direct_only or self.release < TAKES_UPDATES:
            return False
        pending = self._lifecycle.pending
        # An update that begins before this one is done sees it, and has its values
        # written once more at its end (pending.py).
        end = pending.begin_writing(entry.id)
        if pending.is_changing(entry):
            end()
            return False

        def done(error: NRIPluginError | None) -> None:
            end()
            if error is not None:
                _log.warning("repair: %s: by the runtime: %s", entry.path, error)

        asked = self._enqueue_update(files_update(entry.id, files), done=done)
        if not asked:
            end()
        return asked


_NO_POD = Pod()

_SEEN_BEFORE = (
    "nriplugin had no values for it when it was created: the configuration was another "
    "one, or in shadow mode"
)


def _weighted(containers: Iterable[view.Container]) -> Iterable[Weighted]:
    """Return the containers whose weights may show the runtime's curve."""
    for container in containers:
        linux = container.linux
        cgroup = cgroup_of(linux.cgroups_path)
        if cgroup is not None:
            resources = linux.resources
            yield Weighted(cgroup, resources.cpu.shares.value, resources.unified)
