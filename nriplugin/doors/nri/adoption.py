"""Looks at every container that the runtime lists at Synchronize.

It finds the curve that the runtime follows, which values of a container the plugin has
set, which ones no longer follow from the container's numbers because kubelet resized it
while the plugin was away, and which ones a container would get if it were made now.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.api.nri_pb2 import CONTAINER_CREATED
from nriplugin.cgroup.locate.paths import cgroup_of
from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.convert.readers import core_from_nri
from nriplugin.doors.nri.messages import (
    cgroups_of,
    managed_of,
    read_existing,
    read_pod,
    recorded_numbers,
)
from nriplugin.engine.allowed_files import OWNABLE
from nriplugin.engine.curve import curves_of_pods, recognise_or_continue
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import HandlerFailed
from nriplugin.engine.model import Pod
from nriplugin.engine.provenance import UNKNOWN, conclude_ours, owned_by_record
from nriplugin.engine.stale import changed_numbers, numbers_of
from nriplugin.errors import ConversionError
from nriplugin.kube.managed import Managed
from nriplugin.node.observe import held, memory_use, observe
from nriplugin.state.inventory import Known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nriplugin.api import view_pb2 as view
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.convert import Curve
    from nriplugin.engine.curve import Observation, Recognised
    from nriplugin.engine.decision import Decision, Write
    from nriplugin.engine.model import Container, Use
    from nriplugin.state.plan import Plan

# Each costs a few system calls, while the runtime waits for an answer.
MAX_OBSERVED = 500


class Correction(NamedTuple):
    """What a container is to be given, although nobody has asked about it."""

    container_id: str
    was: Known  # if that is no longer so, the rest is no longer true either
    known: Known  # what it will be
    pod: str | None
    files: Mapping[str, str]
    writes: Sequence[Write]
    idle: bool  # which takes cleared shares, so no runtime can do it afterwards
    who: str  # for people
    warnings: Sequence[str]


class Survey(NamedTuple):
    """What is known of containers, and what is to be done about them."""

    known: dict[str, Known]
    missing: list[Correction]  # what they would get if they were made now
    stale: list[Correction]  # what they had from us, made of other numbers


class Ownership(NamedTuple):
    """Where it says which values are ours."""

    # Whether the runtime's release shows the cgroup v2 values that it keeps.
    shown: bool
    # Newer than what travels with a container: of the state directory, and of the
    # connection before this one.
    records: Mapping[str, Managed] = MappingProxyType({})

    def of(
        self, message: view.Container, pod: Pod, container: Container, plan: Plan
    ) -> Managed:
        """Return which files of a container came from us, and which from others."""
        record = self.records.get(message.id)
        if record is not None:
            return record
        managed, unified = managed_of(message, pod), container.resources.unified
        if managed is None:
            return Managed(conclude_ours(pod, container, plan.facts, plan.config))
        ours = owned_by_record(managed, unified, shown=self.shows(container))
        later = (unified.keys() & OWNABLE) - ours.keys() - managed.others.keys()
        if later:  # perhaps ours, from an update of which there is no record
            concluded = conclude_ours(pod, container, plan.facts, plan.config)
            ours |= {f: v for f, v in concluded.items() if f in later}
        return managed._replace(files=ours)

    def concerns(self, message: view.Container) -> bool:
        """Whether a container can have a value of ours that is out of date.

        Not if its numbers are the ones that our values were made of, as the record in
        its annotation says; that is so for nearly all, and quickly seen.
        """
        if message.id in self.records:
            return True
        recorded = recorded_numbers(message)
        if recorded is None:
            return bool(message.linux.resources.unified)
        return recorded != numbers_of(core_from_nri(message.linux.resources))

    def shows(self, container: Container) -> bool:
        """Whether the runtime shows what it keeps for a container."""
        return self.shown or bool(container.resources.unified)


def recognise(
    containers: Iterable[view.Container], tree: Tree, *, shows_unified: bool
) -> tuple[Recognised, dict[str, Curve]]:
    """Return the node's curve, and those of pods whose own containers differ."""
    seen: list[Observation] = []
    for container in containers:
        linux = container.linux
        cgroup = cgroup_of(linux.cgroups_path)
        resources = linux.resources
        if cgroup is None:
            continue
        shares, unified = resources.cpu.shares.value, resources.unified
        one = observe(tree, cgroup, shares, unified, shows_unified=shows_unified)
        if one is not None:
            seen.append(one)
            if len(seen) == MAX_OBSERVED:
                break
    node = recognise_or_continue(seen)
    return node, curves_of_pods(seen, node.curve)


def survey(
    pods: Iterable[view.PodSandbox],
    containers: Iterable[view.Container],
    plan: Plan,
    tree: Tree | None,
    ownership: Ownership,
    *,
    complete: bool,
) -> Survey:
    """Look at everything that exists.

    If not `complete`, then only for values of ours that no longer fit, and nothing is
    known of containers but what the state directory says.
    """
    found = Survey({}, [], [])
    if not complete:
        containers = [c for c in containers if ownership.concerns(c)]
        if not containers:
            return found
    by_id = {pod.id: read_pod(pod, plan.curves) for pod in pods}
    for message in containers:
        pod = by_id.get(message.pod_sandbox_id, _NO_POD)
        try:
            look = _Look(message, pod, plan, tree, ownership)
            if complete:
                look.completely(found)
            else:
                look.for_stale_values(found, recorded=message.id in ownership.records)
        except (ConversionError, HandlerFailed):
            continue  # it runs, whatever we think of it
    return found


_NO_POD = Pod()


class _Look:
    """One container, as it is looked at."""

    def __init__(
        self,
        message: view.Container,
        pod: Pod,
        plan: Plan,
        tree: Tree | None,
        ownership: Ownership,
    ) -> None:
        self.message, self.pod, self.plan, self.tree = message, pod, plan, tree
        self.parent, self.cgroup = cgroups_of(pod, message)
        container = read_existing(message)
        self.managed = ownership.of(message, pod, container, plan)
        self.ours = self.managed.files
        others = self.managed.others
        self.container = container._replace(ours=self.ours, others=others)
        self.shown = ownership.shows(container)
        self.stored = self._stored()

    def for_stale_values(self, found: Survey, *, recorded: bool) -> None:
        """Add what a resize in our absence left behind."""
        was = self._known({})
        stale = self._stale(was)
        if stale is not None:
            found.stale.append(stale)
        if recorded or stale is not None:
            found.known[self.message.id] = was

    def completely(self, found: Survey) -> None:
        """Add all that there is to say."""
        message, plan = self.message, self.plan
        use = self._use()
        decision = decide(self.pod, self.container, plan.facts, plan.config, use)
        wanted = decision.expected()
        was = self._known(wanted)
        stale = self._stale(was)
        found.known[message.id] = was
        if stale is not None:
            found.stale.append(stale)
            was = stale.known  # by the time that anything is done about the rest
        absent = {
            file: value
            for file, value in decision.files.items()
            if was.files.get(file) != value and not self._holds(file, value)
        }
        if absent or decision.writes:
            outdated = {f: v for f, v in was.ours.items() if f not in wanted}
            numbers = numbers_of(self.container.resources)
            become = was._replace(files=wanted, outdated=outdated, numbers=numbers)
            found.missing.append(self._correction(was, become, absent, decision))

    def _known(self, wanted: Mapping[str, str]) -> Known:
        message = self.message
        files = {f: v for f, v in wanted.items() if self.stored.get(f) == v}
        outdated = {f: v for f, v in self.ours.items() if f not in files}
        started = message.state != CONTAINER_CREATED
        path, (_, others, numbers) = message.linux.cgroups_path, self.managed
        return Known(path, files, outdated, started, others, numbers)

    def _use(self) -> Use | None:
        if self.tree is None or self.cgroup is None:
            return None
        return memory_use(self.tree, self.cgroup)

    def _stale(self, was: Known) -> Correction | None:
        """Return what a resize in our absence left behind, put right."""
        given = self.container.resources
        asked = changed_numbers(given, self.stored, self.managed.numbers)
        if asked is None:
            return None
        plan = self.plan
        decision = decide_update(
            *(self.pod, self.container, asked, plan.facts, plan.config, self._use()),
            unasked=True,
        )
        files = {f: v for f, v in decision.files.items() if self.stored.get(f) != v}
        if not (files or decision.writes):
            return None
        become = was.after(decision, (), numbers_of(given))
        return self._correction(was, become, files, decision)

    def _stored(self) -> dict[str, str]:
        """Return the values of ours that the runtime keeps, as far as they show.

        Where the runtime does not tell, they are the ones that we know of and that the
        kernel still holds.
        """
        unified, ours = self.container.resources.unified, self.ours
        if self.shown:
            return {file: unified[file] for file in ours if file in unified}
        return {
            file: value
            for file, value in ours.items()
            if value != UNKNOWN and self._holds(file, value)
        }

    def _holds(self, file: str, value: str) -> bool:
        """Whether a file has a value; what cannot be seen may not."""
        if self.tree is None or self.cgroup is None:
            return False
        there = held(self.tree, self.cgroup, file)
        return there is not None and same(file, value, there)

    def _correction(
        self, was: Known, become: Known, files: Mapping[str, str], decision: Decision
    ) -> Correction:
        pod, message = self.pod, self.message
        name = self.container.name or message.id[:13]
        return Correction(
            container_id=message.id,
            was=was,
            known=become,
            pod=self.parent,
            files=files,
            writes=decision.writes,
            idle=bool(decision.cleared),
            who=f"{pod.namespace}/{pod.name}/{name}",
            # All of them are about memory.high; what has it already is not warned of.
            warnings=decision.warnings if "memory.high" in files else (),
        )
