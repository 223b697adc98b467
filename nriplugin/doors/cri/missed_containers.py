"""Finds containers that were created without the proxy, and adopts them.

A discovered container that has no values of nriplugin's and would get some if it were
created now was missed. Where `adopt` is on, such a container gets these values by
direct writes, since CRI has no update that kubelet would not notice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.doors.cri.messages import described_pod
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import HandlerFailed
from nriplugin.node.observe import files_not_holding, memory_use
from nriplugin.state.adopting import LACKS_NOTHING, Adopting, adoption_of
from nriplugin.state.creation_decision import decide_creation
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import EntryState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.config.file import AdoptSection
    from nriplugin.state.corrections import Correction
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle


class MissedContainers:
    """Marks discovered containers as missed, and adopts them where that is allowed."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._adopting = Adopting(lifecycle)
        self.adopt: AdoptSection | None = None  # None if it is off

    def mark(self, discovered: Iterable[ContainerEntry]) -> int:
        """Mark the missed ones of a listing; return how many of them are new."""
        lifecycle = self._lifecycle
        new: list[tuple[ContainerEntry, str]] = []
        missed: list[ContainerEntry] = []
        for entry in discovered:
            marked = self._marked(entry)
            if marked is not None and lifecycle.inventory.change(entry, marked):
                if marked.missed:
                    new.append((marked, marked.missed))
                    missed.append(marked)
                continue
            # The inventory has another entry if the container was known before.
            known = lifecycle.inventory.get(entry.id)
            if known is not None and known.state is EntryState.MISSED:
                missed.append(known)
        lifecycle.events.note_all(EventKind.MISSED, new)
        self._adopt(missed)
        return len(new)

    def _marked(self, entry: ContainerEntry) -> ContainerEntry | None:
        """Return the entry of a container that lacks values; None if it lacks none."""
        lifecycle, plan = self._lifecycle, self._lifecycle.plan
        kept, pod = entry.kept, described_pod(entry.pod, plan)
        if entry.owned or kept is None:
            return None
        try:
            if lifecycle.own(entry, pod, kept, None, plan).ours:
                return None
            decided = decide_creation(plan, pod, kept)
        except HandlerFailed:
            return None
        if not (decided.shadow or decided.managed.files):
            return None
        text = "" if decided.shadow else lifecycle.connection.missing_because()
        return entry._replace(shadow=decided.shadow, missed=text)

    def _adopt(self, missed: Iterable[ContainerEntry]) -> None:
        lifecycle, adopt = self._lifecycle, self.adopt
        if adopt is None or lifecycle.pending.writer is None:
            return
        missing: list[Correction] = []
        whole: list[tuple[ContainerEntry, str]] = []
        for entry in missed:
            one = self._correction(entry)
            if one is None:
                continue
            lifecycle.log.note_warnings(one.was.path, one.warnings)
            if one.files or one.writes:
                missing.append(one)
            elif lifecycle.change(one.was, one.become):
                whole.append((one.become, LACKS_NOTHING))
        lifecycle.events.note_all(EventKind.ADOPTED, whole)
        if missing:
            later = self._adopting.begin(missing, adopt.at_once)
            lifecycle.scheduler.paced(later, adopt.per_second)

    def _correction(self, entry: ContainerEntry) -> Correction | None:
        """Return what a container lacks; None if that cannot be written now.

        A container that has not started gets its direct writes when it does.
        """
        lifecycle, plan = self._lifecycle, self._lifecycle.plan
        tree, cgroup = lifecycle.tree, lifecycle.locator.cgroup_of(entry)
        kept = entry.kept
        if tree is None or cgroup is None or kept is None or not entry.started:
            return None
        use, pod = memory_use(tree, cgroup), described_pod(entry.pod, plan)
        try:
            decision = decide(pod, kept, plan.facts, plan.config, use)
        except HandlerFailed:
            return None
        if decision.settings.shadow or not decision.expected():
            return None
        absent = files_not_holding(tree, cgroup, decision.files)
        one = adoption_of(entry, decision, absent, kept.resources)
        become = one.become._replace(cgroups_path=cgroup, owned=True)
        return one._replace(become=become)
