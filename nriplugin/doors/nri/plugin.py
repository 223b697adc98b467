"""The NRI plugin: v1-style resources in, cgroup v2 files out, by the engine's decision.

It answers from what the request and the plan say, and touches no file: what has to be
written beside the runtime is for `WritingPlugin`.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.api import view_pb2 as view
from nriplugin.convert.readers import core_from_nri
from nriplugin.doors.nri.adoption import Correction
from nriplugin.doors.nri.messages import (
    cgroups_of,
    managed_of,
    name_of,
    parse_pod,
    read_container,
    read_existing,
)
from nriplugin.doors.nri.responses import adjustment, update_response
from nriplugin.doors.nri.synchronized import SynchronizedPlugin
from nriplugin.engine.decide import decide, decide_update, together
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.provenance import others_files
from nriplugin.engine.stale import numbers_of
from nriplugin.errors import ConversionError, RequestFails
from nriplugin.kube.managed import Managed
from nriplugin.node.facts import facts_of_pod
from nriplugin.node.observe import memory_use
from nriplugin.node.outcomes import GapWarnings
from nriplugin.node.protection import FILES as PROTECTION
from nriplugin.node.protection import without_effect
from nriplugin.state.decision_cache import CachedAnswer
from nriplugin.state.inventory import Known

if TYPE_CHECKING:
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import NodeFacts, Use
    from nriplugin.node.ownership_records import OwnershipRecords
    from nriplugin.state.plan import Plan
_NO_POD = Pod()

# A thread that wakes up with each container would be in the way of the next one's.
CHECK_S = 1.0
MAX_CHECKED = 20

# By then the runtime has done with an update that was answered without the handlers.
DECIDE_AGAIN_S = 5.0


class NodePlugin(SynchronizedPlugin):
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
        super().__init__(facts, tree, blind_because, records)
        self._gap_warnings = GapWarnings()
        self._unchecked: list[tuple[view.CreateContainerRequest, CachedAnswer]] = []
        self._files_known = tree is None

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
        facts = plan.facts._replace(writable=False)
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

    # Parts of the above

    def _decide(self, request: view.CreateContainerRequest, plan: Plan) -> CachedAnswer:
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
        return CachedAnswer(decision, response, files, protects, *managed[1:])

    def _write_new(
        self, request: view.CreateContainerRequest, answer: CachedAnswer
    ) -> None:
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

    def _protected(
        self, request: view.CreateContainerRequest, answer: CachedAnswer
    ) -> None:
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
                raised = answer.decision.settings.of(MemoryQoSSettings).raise_ancestors
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


def new_container(message: view.Container, answer: CachedAnswer) -> Known:
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
