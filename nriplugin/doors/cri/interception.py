"""What happens to the calls that make, change or end pods and containers.

A call is read before the runtime gets it, and what it leads to is done once the runtime
has answered well. The engine decides; here its answer is put into the request, next to
everything else that is in it, known to us or not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.message import DecodeError

from nriplugin.api import cri_pb2 as cri
from nriplugin.cgroup.locate.paths import cgroup_of_parent
from nriplugin.doors.cri.inventory import Known
from nriplugin.doors.cri.messages import pod_of, resources_of
from nriplugin.doors.cri.methods import RUNTIME_SERVICE
from nriplugin.doors.cri.undecided import Undecidable, decide_at_once
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import When
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.provenance import conclude_ours, others_files
from nriplugin.engine.runtimes import oci_runtime_of
from nriplugin.engine.stale import numbers_of
from nriplugin.kube.managed import KEY as MANAGED_KEY
from nriplugin.kube.managed import render_managed
from nriplugin.node.facts import facts_of_pod

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.convert import Curve, Resources
    from nriplugin.doors.cri.discovery import Learner
    from nriplugin.doors.cri.inventory import Inventory
    from nriplugin.doors.cri.writing import Turn, Writing
    from nriplugin.engine.decision import Decision, Write
    from nriplugin.engine.model import NodeFacts
    from nriplugin.engine.settings import EngineConfig


# What follows from a good answer: at once what is known, and what is left to be done.
Rest = Callable[[], None]


class Prepared(NamedTuple):
    """A request to be sent, and what to do with a good answer, and without one."""

    request: bytes
    then: Callable[[bytes], Rest | None] | None = None
    otherwise: Rest | None = None


class Interceptor:
    """Reads and rewrites calls. Everything may be called on any thread."""

    def __init__(
        self,
        inventory: Inventory,
        facts: NodeFacts,
        config: EngineConfig,
        *,
        tree: Tree | None = None,
        writing: Writing,
        note: Callable[[str, Decision], None],
    ) -> None:
        """Decide by facts and configuration, both of which may be replaced later.

        Args:
            inventory: what is known.
            facts: about the node.
            config: what decisions follow.
            tree: the node's cgroups, which tell of its files once there are pods.
            writing: of what no request carries.
            note: told of every decision and the container that it is about.
        """
        self.facts = facts
        self.config = config
        self._tree = tree
        self._files_known = tree is None
        self._curves: Mapping[str, Curve] = {}
        self._learning = threading.Lock()
        # Whom to ask about what did not come past us; set once there is somebody.
        self.learner: Learner | None = None
        self._inventory = inventory
        self._writing = writing
        self._note = note
        self._noting = threading.Lock()
        prefix = f"/{RUNTIME_SERVICE}/"
        # Those that may change the request, so that it has to wait for them ...
        self.rewriting: Mapping[str, Callable[[bytes, Turn], Prepared]] = {
            f"{prefix}CreateContainer": self._create,
            f"{prefix}UpdateContainerResources": self._update,
        }
        # ... what is sent if that fails, where it is not the request as it came ...
        self.undecided: Mapping[str, Callable[[bytes], Prepared]] = {
            f"{prefix}UpdateContainerResources": self._update_at_once,
        }
        # ... and those that are only looked at, request and answer, when it is done.
        self.following: Mapping[str, Callable[[bytes, bytes], Rest | None]] = {
            f"{prefix}RunPodSandbox": self._pod_runs,
            f"{prefix}StartContainer": self._started,
            f"{prefix}StopContainer": self._container_ended,
            f"{prefix}RemoveContainer": self._container_ended,
            f"{prefix}StopPodSandbox": self._pod_ended,
            f"{prefix}RemovePodSandbox": self._pod_ended,
        }

    def learn(
        self, facts: Mapping[str, Any], curves: Mapping[str, Curve] | None = None
    ) -> None:
        """Take facts about the node, and curves of pods, also while serving."""
        with self._learning:
            self.facts = self.facts._replace(**facts)
            if curves is not None:
                self._curves = curves

    # Pods

    def _pod_runs(self, request: bytes, response: bytes) -> None:
        asked = cri.RunPodSandboxRequest.FromString(request)
        sandbox_id = cri.RunPodSandboxResponse.FromString(response).pod_sandbox_id
        pod = pod_of(asked.config, oci_runtime_of(asked.runtime_handler))
        self._inventory.put_pod(sandbox_id, pod)

    def _pod_ended(self, request: bytes, response: bytes) -> Rest | None:
        sandbox_id = cri.PodSandboxRequest.FromString(request).pod_sandbox_id
        pod = self._inventory.drop_pod(sandbox_id)
        return None if pod is None else partial(self._writing.pod_ended, pod)

    # Containers

    def _create(self, request: bytes, turn: Turn) -> Prepared:
        message = cri.CreateContainerRequest.FromString(request)
        if not message.config.HasField("linux"):
            return Prepared(request)
        described = self._described_pod(message)
        pod = self._with_curve(described or self._asked_pod(message.pod_sandbox_id))
        if not self._files_known:
            self._look_at_files(pod)
        resources = message.config.linux.resources
        container = Container(
            name=message.config.metadata.name,
            resources=resources_of(resources),
            oom_score_adj=resources.oom_score_adj,
        )
        decision = decide(pod, container, self.facts, self.config)
        key = self._writing.before_creation(decision.writes, pod, turn)
        self._writing.check_protection(pod, decision)
        self._tell(pod, container, decision)
        pending = tuple(w for w in decision.writes if w.when is When.AFTER)
        given, ours = _sent(container.resources, decision), decision.expected()
        others = others_files(given.unified, decision.files)
        container = container._replace(
            resources=given._replace(unified={**given.unified, **decision.files}),
            ours=ours,
            others=others,
        )
        known = Known(message.pod_sandbox_id, container, pending)
        then = partial(self._created, key, described, known)
        if ours:
            record = render_managed(ours, others, numbers_of(given))
            message.config.annotations[MANAGED_KEY] = record
        if _put(decision, resources) or ours:
            request = message.SerializeToString()
        parts = any(write.part for write in decision.writes)
        refused = partial(self._writing.not_created, key, pod) if parts else None
        return Prepared(request, then, refused)

    def _created(
        self, key: str, pod: Pod | None, known: Known, response: bytes
    ) -> None:
        container_id = cri.CreateContainerResponse.FromString(response).container_id
        self._writing.created(key, container_id)
        if pod is not None:
            self._inventory.put_pod(known.sandbox_id, pod)
        container = known.container._replace(id=container_id)
        self._inventory.put_container(container_id, known._replace(container=container))

    def _started(self, request: bytes, response: bytes) -> Rest | None:
        container_id = cri.ContainerRequest.FromString(request).container_id
        self._writing.started(container_id)
        known = self._inventory.container(container_id)
        if known is None or known.pending == ():
            return None
        return partial(self._write_at_start, known)

    def _write_at_start(self, known: Known) -> None:
        pod = self._known_pod(known.sandbox_id)
        container, pending = self._with_ours(pod, known.container), known.pending
        if pending is None:  # it was made when somebody else stood here
            pending = tuple(decide(pod, container, self.facts, self.config).writes)
        self._write_after(pending, pod, container.id)

    def _container_ended(self, request: bytes, response: bytes) -> Rest | None:
        container_id = cri.ContainerRequest.FromString(request).container_id
        known = self._inventory.drop_container(container_id)
        pod = known and self._inventory.pod(known.sandbox_id)
        if known is None or pod is None:
            return None
        return partial(self._writing.container_ended, pod, known)

    def _update(self, request: bytes, turn: Turn) -> Prepared:
        message = cri.UpdateContainerResourcesRequest.FromString(request)
        if not message.HasField("linux"):
            return Prepared(request)
        known = self._known(message.container_id)
        pod = self._known_pod(known.sandbox_id)
        container = self._with_ours(pod, known.container)
        asked = resources_of(message.linux)
        limit = asked.memory_limit_bytes
        use = self._writing.use(pod, container.id) if limit else None
        decision = decide_update(pod, container, asked, self.facts, self.config, use)
        self._tell(pod, container, decision)
        self._writing.before(decision.writes, pod, container.id, turn)
        known = known._replace(container=container)
        return self._prepared(request, message, pod, known, decision)

    def _update_at_once(self, request: bytes) -> Prepared:
        """Decide from what is known already, where that did not work or took too long.

        Raises:
            RequestFails: a handler is configured to fail the call.
            Exception: anything else says that the runtime must not get this update.
        """
        try:
            message = cri.UpdateContainerResourcesRequest.FromString(request)
        except DecodeError:
            return Prepared(request)  # which is the runtime's to refuse
        if not message.HasField("linux"):
            return Prepared(request)
        known = self._inventory.container(message.container_id)
        if known is None:
            raise Undecidable("the container is not known yet")
        if not known.container.ours and not known.container.resources.unified:
            return Prepared(request)  # nothing of ours can undo it
        pod = self._inventory.pod(known.sandbox_id)
        if pod is None:
            raise Undecidable("the container's pod is not known yet")
        pod = self._with_curve(pod)
        container = self._with_ours(pod, known.container)
        asked = resources_of(message.linux)
        decision = decide_at_once(pod, container, asked, self.facts, self.config)
        known = known._replace(container=container)
        return self._prepared(request, message, pod, known, decision)

    def _prepared(
        self,
        request: bytes,
        message: cri.UpdateContainerResourcesRequest,
        pod: Pod,
        known: Known,
        decision: Decision,
    ) -> Prepared:
        """Put a decision into an update, which `message` has as it came."""
        sent = _sent(resources_of(message.linux), decision)
        container = _after_update(known.container, sent, decision)
        then = partial(self._updated, known, container, decision.writes, pod)
        if _put(decision, message.linux):
            request = message.SerializeToString()
        return Prepared(request, then)

    def _updated(
        self,
        known: Known,
        container: Container,
        writes: Iterable[Write],
        pod: Pod,
        response: bytes,
    ) -> Rest | None:
        # One that the runtime does not list as living has no pod, and is not kept.
        if known.sandbox_id:
            become = known._replace(container=container)
            self._inventory.put_container(container.id, become)
        due = tuple(w for w in writes if w.when is When.AFTER)
        changed = container.ours != known.container.ours
        if not (due or changed):
            return None
        return partial(self._finish_update, container, due, pod)

    def _finish_update(
        self, container: Container, due: tuple[Write, ...], pod: Pod
    ) -> None:
        self._writing.record(container)
        if due:
            self._write_after(due, pod, container.id)

    def _write_after(self, due: Iterable[Write], pod: Pod, container_id: str) -> None:
        cgroup = self._writing.after(due, pod, container_id)
        self._inventory.note_cgroup(container_id, cgroup)

    def _tell(self, pod: Pod, container: Container, decision: Decision) -> None:
        """Have a decision noted, by one thread at a time."""
        name = f"{pod.namespace}/{pod.name}/{container.name or container.id}"
        with self._noting:
            self._note(name, decision)

    # What is known, or can be asked

    def _look_at_files(self, pod: Pod) -> None:
        """Find out which files containers have here: in a pod's cgroup they show."""
        parent = cgroup_of_parent(pod.cgroup_parent)
        assert self._tree is not None
        facts = {} if parent is None else facts_of_pod(self._tree, parent)
        if facts:
            self.learn(facts)
            self._files_known = True

    def _described_pod(self, message: cri.CreateContainerRequest) -> Pod | None:
        """Return the pod as the request has it, which is newer than what we know."""
        if not message.HasField("sandbox_config"):
            return None
        known = self._inventory.pod(message.pod_sandbox_id)
        oci_runtime = known.oci_runtime if known else None
        return pod_of(message.sandbox_config, oci_runtime)

    def _known_pod(self, sandbox_id: str) -> Pod:
        """Return a pod with its curve."""
        return self._with_curve(self._asked_pod(sandbox_id))

    def _asked_pod(self, sandbox_id: str) -> Pod:
        """Return a pod; one that did not come past us is asked for."""
        pod = self._inventory.pod(sandbox_id)
        if pod is None and sandbox_id and self.learner is not None:
            pod = self.learner.pod(sandbox_id)
            if pod is not None:
                self._inventory.put_pod(sandbox_id, pod)
        return pod or Pod()

    def _with_curve(self, pod: Pod) -> Pod:
        """Return a pod with the curve of its own containers, if that differs."""
        curve = self._curves.get(pod.uid)
        return pod if curve is None else pod._replace(curve=curve)

    def _with_ours(self, pod: Pod, container: Container) -> Container:
        """Return a container with what came from us, as far as that shows."""
        if container.ours is not None:
            return container
        ours = conclude_ours(pod, container, self.facts, self.config)
        return container._replace(ours=ours)

    def _known(self, container_id: str) -> Known:
        """Return a container; one that is not known was made behind our back."""
        known = self._inventory.container(container_id)
        if known is None and self.learner is not None:
            known = self.learner.container(container_id)
        return known or Known("", Container(id=container_id))


def _put(decision: Decision, resources: cri.LinuxContainerResources) -> bool:
    """Put a decision into a request; whether that changed anything."""
    resources.unified.update(decision.files)
    if "cpu.shares" in decision.cleared:
        resources.cpu_shares = 0
    return bool(decision.files or decision.cleared)


def _sent(asked: Resources, decision: Decision) -> Resources:
    """Return the numbers that the runtime gets, and keeps."""
    return asked._replace(shares=None) if decision.cleared else asked


def _after_update(
    container: Container, asked: Resources, decision: Decision
) -> Container:
    """Return the container as it is once an update is done."""
    given = {
        field: value
        for field, value in asked._asdict().items()
        if value not in (None, ()) and field != "unified"
    }
    old = container.resources
    unified = {**old.unified, **asked.unified, **decision.files}
    ours = container.ours or {}
    kept = {f: v for f, v in ours.items() if f not in asked.unified}
    ours = {**kept, **decision.expected()}
    return container._replace(
        resources=old._replace(**given, unified=unified), ours=ours
    )
