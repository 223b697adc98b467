"""Looks at one existing container: whose its values are, and which of them are wrong.

`may_be_stale` is the quick look that nearly every container passes. A closer look
(`ExistingContainer`) finds out which values nriplugin set, whether they still follow
from the container's numbers, and which values the container would get if it were
created now. It reads cgroups and changes nothing: adoption.py makes the corrections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.readers import core_from_nri
from nriplugin.doors.nri.messages import managed_of, read_container, read_existing
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.provenance import UNKNOWN
from nriplugin.engine.shadow import to_enforce_at_update
from nriplugin.engine.stale import changed_numbers, numbers_of
from nriplugin.node.observe import files_not_holding, memory_use
from nriplugin.state.adopting import adoption_of
from nriplugin.state.corrections import correction_of
from nriplugin.state.decision_summary import summarise
from nriplugin.state.inventory import NO_FILES
from nriplugin.state.lifecycle import NO_POD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.api import view_pb2 as view
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Pod, Use
    from nriplugin.kube.managed import Managed
    from nriplugin.state.corrections import Correction
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle
    from nriplugin.state.plan import Plan


class Findings(NamedTuple):
    """The inventory's entries and the corrections that follow from one Synchronize."""

    entries: dict[str, ContainerEntry]
    missing: list[Correction]  # of values that are missing
    stale: list[Correction]  # of values that are stale
    # IDs of containers that have no values of nriplugin's, and would get some if they
    # were created now.
    lacking: set[str]

    def add_lacking(self, container_id: str, values: Managed) -> None:
        """Take note that a container without values would get these, if any."""
        if values.files:
            self.lacking.add(container_id)
            entry = self.entries[container_id]
            become = entry._replace(numbers=values.numbers, lacks=values.files)
            self.entries[container_id] = become


def entry_from(
    record: Managed | None, entry: ContainerEntry, before: Mapping[str, ContainerEntry]
) -> ContainerEntry:
    """Return the entry of a container about which no decision is made at Synchronize.

    It is the entry of the previous connection, if there is one. Else it has the values
    of the record, and stays not `owned`: the container's first update determines which
    values nriplugin set.
    """
    earlier = before.get(entry.id)
    if earlier is not None and earlier.owned:
        return earlier._replace(pod=entry.pod, started=entry.started)
    if record is None:
        return entry
    files, others, numbers = record
    return entry._replace(files=files, others=others, numbers=numbers)


def may_be_stale(message: view.Container, record: Managed | None) -> bool:
    """Whether a container can have a stale value of nriplugin's.

    It cannot if its numbers equal those in its record. That is so for nearly all
    containers, and much faster to check than making a decision.
    """
    resources = message.linux.resources
    if record is None or not record.numbers:
        return record is not None or bool(resources.unified)
    return record.numbers != numbers_of(core_from_nri(resources))


def values_if_new(lifecycle: Lifecycle, plan: Plan, message: view.Container) -> Managed:
    """Return the values that a container would get if it were created now.

    For plans by which a decision depends on the container's numbers alone, so that the
    decision is nearly always in the cache.

    Raises:
        ConversionError: a number of the container has no meaning.
        HandlerFailed: a handler could not do its work, and is configured to fail.
    """
    container = read_container(message, whole=False)
    return lifecycle.decide_new(plan, NO_POD, container).managed


class ExistingContainer:
    """One existing container, its decision and its corrections at Synchronize."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        message: view.Container,
        pod: Pod,
        entry: ContainerEntry,
    ) -> None:
        self._lifecycle, self._plan, self._pod = lifecycle, lifecycle.plan, pod
        container = read_existing(message)
        # The entry does not get the request: whether the container's values follow from
        # it is found out later (state/allocated_requests.py).
        container = lifecycle.requests.with_request(pod, container, self._plan)
        annotated = managed_of(message, pod)
        self._entry = lifecycle.own(entry, pod, container, annotated, self._plan)
        self._container = lifecycle.with_ownership(container, self._entry, self._plan)
        self._shown = lifecycle.ownership.shows(container)
        self._cgroup = entry.cgroup
        self._stored = self._stored_values()

    def add(self, found: Findings, *, complete: bool, adopts: bool) -> None:
        """Add the container's entry and the correction of its stale values.

        If `complete`, the entry has the decision that would be made now, and the
        correction of missing values is added, too. `adopts` is whether that correction
        will be made.
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
            # Stale values are corrected first, so the correction of missing values is
            # made from the entry that results.
            was = stale.become
        if decision.settings.shadow:
            return  # the entry shows the values, and nothing is added
        absent = self._not_held(
            {f: v for f, v in decision.files.items() if was.files.get(f) != v}
        )
        if wanted and not was.ours:
            found.lacking.add(was.id)
            was = found.entries[was.id] = was._replace(lacks=wanted)
            if adopts and not (absent or decision.writes):
                # Its files hold every value already, so there is nothing to add.
                found.entries[was.id] = was._replace(adopted=True)
        if absent or decision.writes:
            resources = self._container.resources
            found.missing.append(adoption_of(was, decision, absent, resources))

    def _entry_with(
        self, wanted: Mapping[str, str], decision: Decision
    ) -> ContainerEntry:
        """Return the entry, with its values divided by whether they are wanted now.

        `files` gets the stored values that the decision wants, `outdated` all others.
        """
        files = {f: v for f, v in wanted.items() if self._stored.get(f) == v}
        outdated = {f: v for f, v in self._entry.ours.items() if f not in files}
        numbers = self._entry.numbers
        if not self._entry.ours:
            # Without values none can be stale, so nothing compares these numbers.
            numbers = numbers_of(self._container.resources)
        return self._entry._replace(
            files=files,
            outdated=outdated,
            numbers=numbers,
            decision=summarise(decision),
            shadow=wanted if decision.settings.shadow else NO_FILES,
        )

    def _use(self) -> Use | None:
        tree = self._lifecycle.tree
        if tree is None or self._cgroup is None:
            return None
        return memory_use(tree, self._cgroup)

    def _stale(self, was: ContainerEntry) -> Correction | None:
        """Return the correction of values that are stale after a resize, if any."""
        given = self._container.resources
        asked = changed_numbers(given, self._stored, self._entry.numbers)
        if asked is None:
            return None
        plan, container = self._plan, self._container._replace(decided={})
        facts, config, use = plan.facts, plan.config, self._use()
        decision = decide_update(
            self._pod, container, asked, facts, config, use, unasked=True
        )
        if decision.settings.shadow:
            decision = to_enforce_at_update(
                *(decision, self._pod, container, asked, facts, config, use),
                unasked=True,
            )
        files = {f: v for f, v in decision.files.items() if self._stored.get(f) != v}
        if not (files or decision.writes):
            return None
        become = was.after(decision, (), numbers_of(given))
        return correction_of(was, become, files, decision)

    def _stored_values(self) -> dict[str, str]:
        """Return the values of nriplugin's that the runtime keeps for the container.

        If the runtime does not show the values that it keeps, these are the recorded
        values that the cgroup's files still hold.
        """
        unified, ours = self._container.resources.unified, self._entry.ours
        if self._shown:
            return {file: unified[file] for file in ours if file in unified}
        known = {file: value for file, value in ours.items() if value != UNKNOWN}
        not_held = self._not_held(known)
        return {file: value for file, value in known.items() if file not in not_held}

    def _not_held(self, files: Mapping[str, str]) -> Mapping[str, str]:
        """Return the files that do not hold their value, or cannot be read."""
        tree = self._lifecycle.tree
        if tree is None or self._cgroup is None:
            return files
        return files_not_holding(tree, self._cgroup, files)
