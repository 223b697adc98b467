"""The NRI plugin: v1-style resources in, cgroup v2 files out, by the engine's decision.

It answers from what the request and the plan say, and touches no file: what has to be
written beside the runtime is for `WritingPlugin`.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nriplugin.agent.answered import Answer
from nriplugin.agent.answers import adjustment, files_update, whole_update
from nriplugin.agent.inventory import Inventory, Known
from nriplugin.agent.keeper import Keeper
from nriplugin.agent.plan import Plan
from nriplugin.agent.reading import (
    cgroups_of,
    name_of,
    parse_pod,
    read_container,
    read_existing,
)
from nriplugin.agent.refusals import Refusals
from nriplugin.agent.survey import recognise, survey
from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.convert.sources import core_from_nri
from nriplugin.engine.deciding import decide
from nriplugin.engine.model import Container, NodeFacts, Pod
from nriplugin.engine.ours import conclude_ours
from nriplugin.engine.updating import decide_update
from nriplugin.hands.eyes import memory_use
from nriplugin.hands.facts import facts_of_pod
from nriplugin.hands.protection import FILES as PROTECTION
from nriplugin.hands.protection import without_effect
from nriplugin.hands.telling import GapWarnings
from nriplugin.nri import Plugin
from nriplugin.nri.releases import release_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.agent.survey import Missing
    from nriplugin.cgroup.tree import Tree
    from nriplugin.config import Config
    from nriplugin.config.file import AdoptSection
    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Use
    from nriplugin.nri.releases import Release

_log = logging.getLogger(__name__)

_NO_POD = Pod()

# The first release that tells of cgroup v2 values which a container has.
_SHOWS_UNIFIED: Release = (0, 10)
# Before it, a runtime can deadlock on an update that it did not ask for.
_TAKES_UPDATES: Release = (0, 12)


# A thread that wakes up with each container would be in the way of the next one's.
CHECK_S = 1.0
MAX_CHECKED = 20


class NodePlugin(Plugin):
    """Decides about every container of a node."""

    views = MappingProxyType(
        {
            "create_container": view.CreateContainerRequest,
            "update_container": view.UpdateContainerRequest,
            "remove_container": view.ContainerEvent,
            "synchronize": view.SynchronizeRequest,
        }
    )

    def __init__(
        self,
        facts: NodeFacts | None = None,
        tree: Tree | None = None,
        blind_because: str = "",
    ) -> None:
        """Decide from facts; with a tree, look at containers that exist."""
        self._blind_because = blind_because
        self.refusals = Refusals()
        self._gap_warnings = GapWarnings()
        self._unchecked: list[tuple[view.CreateContainerRequest, Answer]] = []
        self.inventory = Inventory()
        self.keeper = Keeper()
        self._tree = tree
        self._plan = Plan(facts=facts or NodeFacts())
        self._replacing = threading.Lock()  # the plan: by requests and by reloads
        self._applying = threading.Lock()
        self._files_known = tree is None
        self._curve_certain = False
        self._adopt: AdoptSection | None = None
        self._release: Release = (0, 0)

    def close(self) -> None:
        """End what goes on beside the requests."""
        self.keeper.stop()

    # What decisions follow

    @property
    def plan(self) -> Plan:
        """Return what decisions follow now."""
        return self._plan

    def apply(self, config: Config) -> None:
        """Take a configuration, also while serving."""
        with self._applying:
            self._prepare(config)
            with self._replacing:
                self._plan = replace(self._plan, config=config.engine)
                self.failure_policy = config.failure_policy
                self._adopt = config.adopt if config.adopt.enabled else None

    def _prepare(self, config: Config) -> None:
        """Get ready for what a configuration needs beside decisions.

        Before it is in force: if this fails, nothing has changed.
        """
        if config.repair.enabled:
            _log.warning("repair: on, but the cgroups cannot be written: left alone")

    def configure(self, request: nri.ConfigureRequest) -> None:
        """Learn who the runtime is; take the configuration that it may hand over."""
        if request.config:
            from nriplugin.config import parse_config

            self.apply(parse_config(request.config, "configuration from the runtime"))
        name, version = request.runtime_name, request.runtime_version
        self._release = release_of(request)
        self._learn(runtime=name, runtime_version=version)
        _log.info("registered with %s %s", name, version)
        facts = self._plan.facts
        if facts.cgroup_version != 2:
            number, evidence = facts.cgroup_version, facts.cgroup_evidence
            _log.warning("inactive: cgroup v%d (%s)", number, evidence)
        elif self._blind_because:
            _log.warning("cgroups are not read: %s", self._blind_because)

    def _learn(self, **facts: Any) -> None:  # noqa: ANN401 - fields of NodeFacts
        with self._replacing:
            plan = self._plan
            self._plan = replace(plan, facts=replace(plan.facts, **facts))

    # What exists

    def synchronize(  # type: ignore[override] # the view declared above
        self, pods: Sequence[view.PodSandbox], containers: Sequence[view.Container]
    ) -> list[nri.ContainerUpdate] | None:
        """Learn from existing containers, and give them what they miss, if asked to."""
        _log.info("synchronized: %d pods, %d containers", len(pods), len(containers))
        self.inventory.replace({})
        if self._plan.idle:
            return None
        if self._tree is not None:
            self._recognise_curve(containers, self._tree)
        if not self._remembers:
            return None
        known, missing = survey(pods, containers, self._plan, self._tree)
        self.inventory.replace(known)
        if self._adopt is None or not missing:
            return None
        for one in missing:
            self.refusals.warn(one.who, one.warnings)
        return self._adopt_missing(missing, self._adopt)

    def _recognise_curve(
        self, containers: Sequence[view.Container], tree: Tree
    ) -> None:
        shows = self._release >= _SHOWS_UNIFIED
        found, curves = recognise(containers, tree, shows_unified=shows)
        with self._replacing:
            facts = self._plan.facts
            # Later, what is there may all be ours, and teach nothing.
            if found.certain or not self._curve_certain:
                self._curve_certain = found.certain
                evidence = found.evidence
                facts = replace(facts, curve=found.curve, curve_evidence=evidence)
            self._plan = replace(self._plan, facts=facts, curves=curves)
        if self._plan.config.curve is None:  # else it is for a time without that
            _log.info("curve: %s (%s)", facts.curve, facts.curve_evidence)

    def _adopt_missing(
        self, missing: Sequence[Missing], adopt: AdoptSection
    ) -> list[nri.ContainerUpdate]:
        """Have the runtime write: the first ones in its answer, the rest by and by."""
        carried = [one for one in missing if _carried(one)]
        now, later = carried[: adopt.at_once], carried[adopt.at_once :]
        if later and self._release < _TAKES_UPDATES:
            _log.warning(
                "adopt: %d containers are left as they are: this runtime may hang on "
                "updates that it did not ask for",
                len(later),
            )
            later = []
        _log.info("adopt: %d containers now, %d later", len(now), len(later))
        self.keeper.paced(
            [partial(self._adopt_later, one) for one in later],
            adopt.per_second,
        )
        for one in now:
            self.inventory.change(one.container_id, one.was, one.known)
        return [files_update(one.container_id, _carried(one)) for one in now]

    def _adopt_later(self, one: Missing) -> None:
        if self.inventory.change(one.container_id, one.was, one.known):
            self.enqueue_update(files_update(one.container_id, _carried(one)))

    def disconnected(self, reason: str) -> None:
        """Say so; the runner dials again, and all state comes anew."""
        self.keeper.paced((), 1)
        _log.info("disconnected: %s", reason)

    # Requests

    def create_container(  # type: ignore[override] # the view declared above
        self, request: view.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        """Answer with the v2 files of the new container."""
        plan = self._plan
        if plan.idle:
            return None
        if not (plan.plain or self._files_known):
            plan = self._look_at_files(request)
        key = plan.answered.key_of(request)
        answer = plan.answered.get(key)
        if answer is None:
            answer = self._decide(request, plan)
            plan.answered.put(key, answer)
        decision = answer.decision
        if decision.refused or decision.warnings:
            self._note(request.pod, request.container, decision)
        if self._remembers:
            message = request.container
            known = Known(message.linux.cgroups_path, answer.files)
            self.inventory.put(message.id, known)
        if decision.writes:
            self._write_new(request, answer)
        if answer.protects and self._tree is not None:
            self._protected(request, answer)
        return answer.response

    def update_container(  # type: ignore[override] # the view declared above
        self, request: view.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Answer with kubelet's whole request, which ours replaces, and the files."""
        plan = self._plan
        message, wanted = request.container, request.linux_resources
        known = self.inventory.get(message.id)
        if plan.idle and known is None:
            return None
        pod = parse_pod(request.pod, plan.curves)
        container = read_existing(message)
        ours = (
            known.ours
            if known
            else conclude_ours(pod, container, plan.facts, plan.config)
        )
        container = container._replace(ours=ours)
        asked = core_from_nri(wanted)
        use = self._use_of(message, asked)
        decision = decide_update(pod, container, asked, plan.facts, plan.config, use)
        if decision.refused or decision.warnings:
            self._note(request.pod, message, decision)
        if known is not None or decision.writes or self._remembers:
            self._updating(pod, request, decision)
        return whole_update(message.id, wanted, decision)

    def remove_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Forget the container."""
        self.inventory.drop(container.id)

    # Parts of the above

    @property
    def _remembers(self) -> bool:
        """Whether containers have to be known by more than their requests."""
        return not self._plan.plain or self._adopt is not None

    def _decide(self, request: view.CreateContainerRequest, plan: Plan) -> Answer:
        """Decide about a container that is about to be made."""
        message = request.container
        if plan.plain:
            pod, container = _NO_POD, _bare(core_from_nri(message.linux.resources))
        else:
            pod = parse_pod(request.pod, plan.curves)
            container = read_container(message)
        decision = decide(pod, container, plan.facts, plan.config)
        files = decision.expected()
        protects = not PROTECTION.isdisjoint(files)
        return Answer(decision, adjustment(decision), files, protects)

    def _write_new(self, request: view.CreateContainerRequest, answer: Answer) -> None:
        """Do what a decision about a new container has the executor do."""
        raise NotImplementedError  # facts that say so have no executor

    def _updating(
        self, pod: Pod, request: view.UpdateContainerRequest, decision: Decision
    ) -> None:
        """Take note of a container that is about to be changed."""
        self.inventory.put(request.container.id, self._becoming(request, decision))

    def _becoming(
        self, request: view.UpdateContainerRequest, decision: Decision
    ) -> Known:
        message, explicit = request.container, request.linux_resources.unified
        expected = decision.expected()
        path = message.linux.cgroups_path
        known = self.inventory.get(message.id)
        if known is None:
            return Known(path, expected)
        # What somebody sets explicitly now is no longer ours.
        kept = {f: v for f, v in known.files.items() if f not in explicit}
        outdated = {
            f: v
            for f, v in known.outdated.items()
            if f not in explicit and f not in expected
        }
        return Known(path, {**kept, **expected}, outdated)

    def _look_at_files(self, request: view.CreateContainerRequest) -> Plan:
        """Find out which files containers have here: in a pod's cgroup they show."""
        parent, _ = cgroups_of(parse_pod(request.pod, {}), request.container)
        assert self._tree is not None
        facts = {} if parent is None else facts_of_pod(self._tree, parent)
        if facts:
            self._learn(**facts)
            self._files_known = True
        return self._plan

    def _use_of(self, message: view.Container, asked: Resources) -> Use | None:
        if self._tree is None or asked.memory_limit_bytes is None:
            return None
        cgroup = cgroups_of(_NO_POD, message)[1]
        return None if cgroup is None else memory_use(self._tree, cgroup)

    def _protected(self, request: view.CreateContainerRequest, answer: Answer) -> None:
        """Have somebody look at a container's protection, later and not at too many."""
        # The keeper takes the list away: then this one is only missed.
        unchecked = self._unchecked
        if not unchecked:
            self.keeper.after(CHECK_S, self._check_protection)
        if len(unchecked) < MAX_CHECKED:
            unchecked.append((request, answer))

    def _check_protection(self) -> None:
        """Say which protection has no effect, for want of the same above it."""
        assert self._tree is not None
        unchecked, self._unchecked = self._unchecked, []
        for request, answer in unchecked:
            parent, own = cgroups_of(parse_pod(request.pod, {}), request.container)
            if parent is not None:
                raised = answer.decision.settings.memory_qos.raise_ancestors
                self._gap_warnings.tell(
                    without_effect(self._tree, parent, own, answer.files, raised=raised)
                )

    def _note(
        self, payload: bytes, message: view.Container, decision: Decision
    ) -> None:
        pod = view.PodSandbox.FromString(payload)
        self.refusals.note(_named(pod, message), decision)


def _named(pod: view.PodSandbox | Pod, message: view.Container) -> str:
    name = name_of(message) or message.id[:13]
    return f"{pod.namespace}/{pod.name}/{name}"


def _bare(resources: Resources) -> Container:
    return Container("", "", resources)


def _carried(one: Missing) -> dict[str, str]:
    """Return what a runtime can still give a container."""
    return {f: v for f, v in one.files.items() if not (one.idle and f == "cpu.idle")}
