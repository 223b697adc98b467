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
from nriplugin.agent.answers import adjustment, files_update, update_response
from nriplugin.agent.inventory import Inventory, Known
from nriplugin.agent.keeper import Keeper
from nriplugin.agent.plan import Plan
from nriplugin.agent.reading import (
    cgroups_of,
    managed_of,
    name_of,
    parse_pod,
    read_container,
    read_existing,
)
from nriplugin.agent.refusals import Refusals
from nriplugin.agent.survey import Correction, Ownership, recognise, survey
from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.convert.sources import core_from_nri
from nriplugin.engine.deciding import decide
from nriplugin.engine.model import Container, NodeFacts, Pod
from nriplugin.engine.ours import others_files
from nriplugin.engine.stale import numbers_of
from nriplugin.engine.updating import decide_update, together
from nriplugin.errors import ConversionError, RequestFails
from nriplugin.hands.eyes import memory_use
from nriplugin.hands.facts import facts_of_pod
from nriplugin.hands.protection import FILES as PROTECTION
from nriplugin.hands.protection import without_effect
from nriplugin.hands.telling import GapWarnings
from nriplugin.kube.managed import Managed
from nriplugin.nri import Plugin
from nriplugin.nri.releases import release_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nriplugin.cgroup.tree import Tree
    from nriplugin.config import Config
    from nriplugin.config.file import AdoptSection
    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Use
    from nriplugin.hands.records import OwnershipRecords
    from nriplugin.nri.releases import Release

    Job = Callable[[], None]

_log = logging.getLogger(__name__)

_NO_POD = Pod()

# The first release that tells of cgroup v2 values which a container has.
_SHOWS_UNIFIED: Release = (0, 10, 0)
# Before it, a runtime can deadlock on an update that it did not ask for.
_TAKES_UPDATES: Release = (0, 12, 1)


# A thread that wakes up with each container would be in the way of the next one's.
CHECK_S = 1.0
MAX_CHECKED = 20

# Containers that the runtime updates with the answer to Synchronize, while others wait,
# and how many each second after that, where the configuration does not say.
AT_ONCE = 50
PER_SECOND = 10

# By then the runtime has done with an update that was answered without the handlers.
DECIDE_AGAIN_S = 5.0


class NodePlugin(Plugin):
    """Decides about every container of a node."""

    views = MappingProxyType(
        {
            "create_container": view.CreateContainerRequest,
            "update_container": view.UpdateContainerRequest,
            "post_update_container": view.ContainerEvent,
            "remove_container": view.ContainerEvent,
            "synchronize": view.SynchronizeRequest,
        }
    )

    def __init__(
        self,
        facts: NodeFacts | None = None,
        tree: Tree | None = None,
        blind_because: str = "",
        records: OwnershipRecords | None = None,
    ) -> None:
        """Decide from facts.

        Args:
            facts: about the node.
            tree: its cgroups, to look at containers that exist.
            blind_because: why there is no tree.
            records: of what updates set, where there is a state directory.
        """
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
        self._release: Release = (0, 0, 0)
        self._ownership = Ownership(shown=False)
        self._records = records
        # What containers were and will be that the runtime is about to update.
        self._becoming: dict[str, tuple[Known, Known]] = {}

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
        if self._plan.facts.cgroup_version != 2:
            return None
        if self._tree is not None and not self._plan.idle:
            self._recognise_curve(containers, self._tree)
        recorded = {} if self._records is None else self._records.load()
        # Known from the connection before, and perhaps not stored yet.
        recorded |= {i: known.managed for i, known in self.inventory.snapshot().items()}
        self._ownership = Ownership(self._release >= _SHOWS_UNIFIED, recorded)
        gone = recorded.keys() - {container.id for container in containers}
        if self._records is not None and gone:
            self.keeper.soon(partial(self._records.drop, *gone))
        found = survey(
            *(pods, containers, self._plan, self._tree, self._ownership),
            complete=self._remembers,
        )
        self.inventory.replace(found.known)
        updates: list[nri.ContainerUpdate] = []
        later: list[Job] = []
        if found.stale:
            self._put_right(found.stale, updates, later)
        adopt = self._adopt
        if adopt is not None and found.missing:
            for one in found.missing:
                self.refusals.warn(one.who, one.warnings)
            self._adopt_missing(found.missing, adopt.at_once, updates, later)
        self.keeper.paced(later, PER_SECOND if adopt is None else adopt.per_second)
        return updates

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
                facts = replace(
                    facts,
                    curve=found.curve,
                    curve_evidence=found.evidence,
                    curve_native=found.native,
                )
            self._plan = replace(self._plan, facts=facts, curves=curves)
        if self._plan.config.curve is None:  # else it is for a time without that
            _log.info("curve: %s (%s)", facts.curve, facts.curve_evidence)

    def _becomes(self, container_id: str, was: Known, known: Known) -> bool:
        """Take note of what a container has become, unless that is not so any more."""
        changed = self.inventory.change(container_id, was, known)
        if changed:
            self._keep(container_id, was.managed, known.managed)
        return changed

    def _keep(self, container_id: str, was: Managed, managed: Managed) -> None:
        """Have what is ours stored where a restart finds it, if it has changed."""
        if managed != was and self._records is not None:
            self.keeper.soon(partial(self._records.put, container_id, managed))

    def _put_right(
        self,
        stale: Sequence[Correction],
        updates: list[nri.ContainerUpdate],
        later: list[Job],
    ) -> None:
        """Undo what our old values did to resizes in our absence.

        By the runtime, so that it does not write the old values again.
        """
        _log.warning(
            "%d containers were resized while the plugin was away and kept its old "
            "values: they get the new ones",
            len(stale),
        )
        for one in stale:
            self.refusals.warn(one.who, [f"resized in our absence: {_listed(one)}"])
        self._send(stale, AT_ONCE, updates, later)

    def _adopt_missing(
        self,
        missing: Sequence[Correction],
        at_once: int,
        updates: list[nri.ContainerUpdate],
        later: list[Job],
    ) -> None:
        """Give containers what they would get if they were made now."""
        self._send(missing, at_once, updates, later)

    def _send(
        self,
        corrections: Sequence[Correction],
        at_once: int,
        updates: list[nri.ContainerUpdate],
        later: list[Job],
    ) -> None:
        """Have the runtime write: the first ones in its answer, the rest by and by."""
        corrections = [one for one in corrections if carried(one)]
        now, rest = corrections[:at_once], corrections[at_once:]
        if rest and self._release < _TAKES_UPDATES:
            _log.warning(
                "%d containers are left as they are: this runtime may hang on updates "
                "that it did not ask for",
                len(rest),
            )
            rest = []
        _log.info("%d containers are updated now, %d later", len(now), len(rest))
        later += [partial(self._send_later, one) for one in rest]
        updates += [
            files_update(one.container_id, carried(one))
            for one in now
            if self._becomes(one.container_id, one.was, one.known)
        ]

    def _send_later(self, one: Correction) -> None:
        if one.container_id in self._becoming:
            return  # an update is under way, which has asked us
        if self._becomes(one.container_id, one.was, one.known):
            self.enqueue_update(files_update(one.container_id, carried(one)))

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
            known = new_container(message, answer)
            self.inventory.put(message.id, known)
        if decision.writes:
            self._write_new(request, answer)
        if answer.protects and self._tree is not None:
            self._protected(request, answer)
        return answer.response

    def update_container(  # type: ignore[override] # the view declared above
        self, request: view.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Answer with the v2 files that are to be laid over kubelet's request."""
        plan = self._plan
        if plan.facts.cgroup_version != 2:
            return None
        message = request.container
        pod = parse_pod(request.pod, plan.curves)
        noted = self.inventory.get(message.id)
        known, container = self._existing(pod, message, plan)
        if plan.idle and not container.ours:
            return None
        asked = core_from_nri(request.linux_resources)
        use = self._use_of(message, asked)
        decision = decide_update(pod, container, asked, plan.facts, plan.config, use)
        if decision.refused or decision.warnings:
            self._note(request.pod, message, decision)
        if self.inventory.get(message.id) is not noted:
            return None  # this is late: `fallback_update` has answered meanwhile
        if decision.files or decision.writes or known.ours:
            become = _after(known, container, request, decision)
            self._updating(pod, request, known, become, decision)
        return update_response(message.id, decision)

    def fallback_update(
        self, request: view.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Answer with the conversion alone, where an empty answer undoes the update.

        Raises:
            RequestFails: there is no conversion, and kubelet has to try again.
        """
        plan = self._plan
        if plan.facts.cgroup_version != 2:
            return None
        message, config = request.container, plan.config.without_handlers()
        pod = parse_pod(request.pod, plan.curves)
        try:
            known, container = self._existing(pod, message, plan)
            asked = core_from_nri(request.linux_resources)
        except ConversionError as exc:
            managed = managed_of(message, pod)
            if managed and managed.files and config.base.resources.fail_lost_update:
                raise RequestFails(f"{exc}; the runtime keeps earlier values") from exc
            return None
        if not container.ours:
            return None
        facts = replace(plan.facts, writable=False)
        decision = decide_update(pod, container, asked, facts, config)
        become = _after(known, container, request, decision)
        self.inventory.put(message.id, become)
        self._keep(message.id, known.managed, become.managed)
        self.keeper.after(DECIDE_AGAIN_S, partial(self._decide_again, request, become))
        return update_response(message.id, decision)

    def _decide_again(self, request: view.UpdateContainerRequest, known: Known) -> None:
        """Give a container what its handlers did not get to say at an update.

        On the keeper's thread, unless another update has come since.
        """
        plan, message = self._plan, request.container
        if self.inventory.get(message.id) is not known:
            return
        pod = parse_pod(request.pod, plan.curves)
        container = read_existing(message)._replace(
            ours=known.ours, others=known.others
        )
        asked = core_from_nri(request.linux_resources)
        use = self._use_of(message, asked)
        decision = decide_update(pod, container, asked, plan.facts, plan.config, use)
        one = Correction(
            container_id=message.id,
            was=known,
            known=_after(known, container, request, decision),
            pod=cgroups_of(pod, message)[0],
            files=decision.files,
            writes=decision.writes,
            idle=bool(decision.cleared),
            who=_named(pod, message),
            warnings=(),
        )
        self._correct(one)

    def _correct(self, one: Correction) -> None:
        """Give one container what it is to have, although nobody asks now."""
        if carried(one) and self._release >= _TAKES_UPDATES:
            self._send_later(one)

    def post_update_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Take note that the runtime has done what it was asked to."""
        known, become = self._becoming.pop(container.id, (None, None))
        if known is not None and become is not None:
            self.inventory.put(container.id, become)
            self._keep(container.id, known.managed, become.managed)

    def remove_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Forget the container."""
        self._becoming.pop(container.id, None)
        self._forget(container.id)

    def _forget(self, container_id: str) -> Known | None:
        known = self.inventory.drop(container_id)
        if known is not None and self._records is not None:
            self.keeper.soon(partial(self._records.drop, container_id))
        return known

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
        resources = container.resources
        others = others_files(resources.unified, decision.files)
        managed = Managed(files, others, numbers_of(resources))
        response = adjustment(decision, managed)
        return Answer(decision, response, files, protects, *managed[1:])

    def _existing(
        self, pod: Pod, message: view.Container, plan: Plan
    ) -> tuple[Known, Container]:
        """Return a container that exists, and what of it is ours."""
        container = read_existing(message)
        known = self.inventory.get(message.id)
        if known is None:
            managed = self._ownership.of(message, pod, container, plan)
            ours, others, numbers = managed
            started = message.state != nri.CONTAINER_CREATED
            path = message.linux.cgroups_path
            known = Known(path, {}, ours, started, others, numbers)
        container = container._replace(
            ours=known.ours, decided=known.files, others=known.others
        )
        return known, container

    def _write_new(self, request: view.CreateContainerRequest, answer: Answer) -> None:
        """Do what a decision about a new container has the executor do."""
        raise NotImplementedError  # facts that say so have no executor

    def _updating(
        self,
        pod: Pod,
        request: view.UpdateContainerRequest,
        known: Known,
        become: Known,
        decision: Decision,
    ) -> None:
        """Take note of a container that is about to be changed."""
        self._becoming[request.container.id] = known, become

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


def new_container(message: view.Container, answer: Answer) -> Known:
    """Return what a container is that is about to be made."""
    path, others, numbers = message.linux.cgroups_path, answer.others, answer.numbers
    return Known(path, answer.files, others=others, numbers=numbers)


def _after(
    known: Known,
    container: Container,
    request: view.UpdateContainerRequest,
    decision: Decision,
) -> Known:
    """Return what a container is once an update is done."""
    wanted = request.linux_resources
    numbers = numbers_of(together(container.resources, core_from_nri(wanted)))
    return known.after(decision, wanted.unified, numbers)


def _bare(resources: Resources) -> Container:
    return Container("", "", resources)


def _listed(one: Correction) -> str:
    return ", ".join(f"{file}={value}" for file, value in one.files.items())


def carried(one: Correction) -> dict[str, str]:
    """Return what a runtime can still give a container."""
    return {f: v for f, v in one.files.items() if not (one.idle and f == "cpu.idle")}
