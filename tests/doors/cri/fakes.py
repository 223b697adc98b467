"""A fake runtime that serves CRI on a real socket, and a proxy in front of it."""

from __future__ import annotations

import itertools
import json
import threading
from concurrent import futures
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import grpc
from google.protobuf.message import Message
from support.harness import PATIENCE_S

from nriplugin.api import cri_pb2 as cri
from nriplugin.config import parse_config
from nriplugin.daemon.background import BackgroundThread
from nriplugin.doors.cri.door import CRIDoor
from nriplugin.doors.cri.methods import RUNTIME_SERVICE
from nriplugin.engine.model import NodeFacts
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.decision import Decision
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.node.ownership_records import OwnershipRecords

Answer = TypeVar("Answer", bound=Message)
UNLIMITED = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", 16 << 20),
    ("grpc.absolute_max_metadata_size", 16 << 20),
    ("grpc.default_authority", "localhost"),
]


class Seen(NamedTuple):
    """A call as the fake runtime received it."""

    method: str
    request: bytes
    metadata: dict[str, str | bytes]
    time_remaining_s: float


class FakeRuntime:
    """Has pods and containers, remembers every call, and answers anything.

    What it says to a method can be replaced: `answers` for one message each way,
    `streams` for any number; both get the context.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.seen: list[Seen] = []
        self.answers: dict[str, Callable[[bytes, Any], bytes]] = {}
        self.streams: dict[str, Callable[[Iterator[bytes], Any], Iterator[bytes]]] = {}
        self.pods: dict[str, cri.RunPodSandboxRequest] = {}
        self.containers: dict[str, cri.CreateContainerRequest] = {}
        self.running: set[str] = set()
        # Whether ContainerStatus repeats the resources, as newer runtimes do.
        self.repeats_resources = True
        self._serial = itertools.count(1)
        self._server: grpc.Server | None = None
        for method in (
            *("Version", "RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"),
            *("ListPodSandbox", "PodSandboxStatus", "CreateContainer"),
            *("StartContainer", "StopContainer", "RemoveContainer", "ListContainers"),
            *("ContainerStatus", "UpdateContainerResources"),
        ):
            self.answers[rpc(method)] = getattr(self, f"_{method}")

    def start(self) -> None:
        self._server = grpc.server(
            futures.ThreadPoolExecutor(256), handlers=[_All(self)], options=UNLIMITED
        )
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(None).wait()
            self._server = None

    def requests(self, method: str, kind: type[Answer]) -> list[Answer]:
        """Return the requests of one method that the runtime received."""
        return [
            kind.FromString(one.request) for one in self.seen if one.method == method
        ]

    def handle(self, method: str, requests: Iterator[bytes], context: Any) -> Any:
        if method in self.streams:
            yield from self.streams[method](requests, context)
            return
        for request in requests:
            metadata = dict(context.invocation_metadata())
            remaining = context.time_remaining()
            self.seen.append(Seen(method, request, metadata, remaining))
            answer = self.answers.get(method)
            yield b"echo:" + request if answer is None else answer(request, context)

    def _Version(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        return cri.VersionResponse(
            runtime_name="fake", runtime_version="1.2.3"
        ).SerializeToString()

    def _RunPodSandbox(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        sandbox_id = f"pod{next(self._serial)}"
        self.pods[sandbox_id] = cri.RunPodSandboxRequest.FromString(request)
        return cri.RunPodSandboxResponse(pod_sandbox_id=sandbox_id).SerializeToString()

    def _StopPodSandbox(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        return b""

    def _RemovePodSandbox(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        sandbox_id = cri.PodSandboxRequest.FromString(request).pod_sandbox_id
        self.pods.pop(sandbox_id, None)
        return b""

    def _ListPodSandbox(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        items = [cri.PodSandbox(id=one) for one in self.pods]
        return cri.ListPodSandboxResponse(items=items).SerializeToString()

    def _PodSandboxStatus(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        sandbox_id = cri.PodSandboxRequest.FromString(request).pod_sandbox_id
        made = self.pods[sandbox_id]
        parent = made.config.linux.cgroup_parent
        response = cri.PodSandboxStatusResponse(
            info=_info({"linux": {"cgroupsPath": f"{parent}/{sandbox_id}"}})
        )
        response.status.id = sandbox_id
        response.status.metadata.CopyFrom(made.config.metadata)
        response.status.labels.update(made.config.labels)
        response.status.annotations.update(made.config.annotations)
        response.status.runtime_handler = made.runtime_handler
        return response.SerializeToString()

    def _CreateContainer(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        container_id = f"ctr{next(self._serial)}"
        self.containers[container_id] = cri.CreateContainerRequest.FromString(request)
        return cri.CreateContainerResponse(
            container_id=container_id
        ).SerializeToString()

    def _StartContainer(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        self.running.add(cri.ContainerRequest.FromString(request).container_id)
        return b""

    def _StopContainer(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        self.running.discard(cri.ContainerRequest.FromString(request).container_id)
        return b""

    def _RemoveContainer(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        self.containers.pop(cri.ContainerRequest.FromString(request).container_id, None)
        return b""

    def _ListContainers(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        containers = [
            cri.Container(
                id=one,
                pod_sandbox_id=made.pod_sandbox_id,
                metadata=made.config.metadata,
                state=cri.CONTAINER_RUNNING
                if one in self.running
                else cri.CONTAINER_CREATED,
            )
            for one, made in self.containers.items()
        ]
        return cri.ListContainersResponse(containers=containers).SerializeToString()

    def _ContainerStatus(self, request: bytes, context: Any) -> bytes:  # noqa: N802
        container_id = cri.ContainerStatusRequest.FromString(request).container_id
        if container_id not in self.containers:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such container")
        made = self.containers[container_id]
        given = made.config.linux.resources
        parent = self.pods[made.pod_sandbox_id].config.linux.cgroup_parent
        spec = {
            "process": {"oomScoreAdj": given.oom_score_adj},
            "linux": {
                "cgroupsPath": f"{parent}/{container_id}",
                "resources": {
                    "cpu": {"shares": given.cpu_shares, "quota": given.cpu_quota},
                    "memory": {"limit": given.memory_limit_in_bytes},
                    "unified": dict(given.unified),
                },
            },
        }
        response = cri.ContainerStatusResponse(info=_info(spec))
        response.status.id = container_id
        response.status.metadata.CopyFrom(made.config.metadata)
        response.status.annotations.update(made.config.annotations)
        if self.repeats_resources:
            response.status.resources.linux.CopyFrom(given)
        return response.SerializeToString()

    def _UpdateContainerResources(  # noqa: N802
        self, request: bytes, context: Any
    ) -> bytes:
        asked = cri.UpdateContainerResourcesRequest.FromString(request)
        made = self.containers[asked.container_id]
        made.config.linux.resources.MergeFrom(asked.linux)
        return b""


class _All(grpc.GenericRpcHandler):
    """Handles every method name as a stream."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method
        return grpc.stream_stream_rpc_method_handler(
            lambda requests, context: self._runtime.handle(method, requests, context)
        )


class Client:
    """A client that takes kubelet's place; it sends messages or bytes, by method."""

    def __init__(self, path: str) -> None:
        self.channel = grpc.insecure_channel(f"unix:{path}", options=UNLIMITED)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def raw(self, method: str, request: bytes, **options: Any) -> bytes:
        """Call with bytes."""
        call: Any = self.channel.unary_unary(method)
        answer: bytes = call(request, **options)
        return answer

    def call(
        self, method: str, request: Message, kind: type[Answer], **options: Any
    ) -> Answer:
        """Call a method of the runtime service."""
        sent = request.SerializeToString()
        return kind.FromString(self.raw(rpc(method), sent, **options))

    def run_pod(self, **fields: Any) -> str:
        """Run a pod; return its ID."""
        handler = fields.pop("runtime_handler", "")
        request = cri.RunPodSandboxRequest(
            config=pod_config(**fields), runtime_handler=handler
        )
        kind = cri.RunPodSandboxResponse
        return self.call("RunPodSandbox", request, kind).pod_sandbox_id

    def create(self, sandbox_id: str, name: str = "app", **resources: Any) -> str:
        """Create a container; return its ID."""
        request = create_request(sandbox_id, name, **resources)
        kind = cri.CreateContainerResponse
        return self.call("CreateContainer", request, kind).container_id

    def update(self, container_id: str, **resources: Any) -> None:
        """Update a container's resources."""
        request = cri.UpdateContainerResourcesRequest(
            container_id=container_id, linux=cri.LinuxContainerResources(**resources)
        )
        self.call("UpdateContainerResources", request, cri.VersionResponse)

    def of_container(self, method: str, container_id: str) -> None:
        """Start, stop or remove a container."""
        request = cri.ContainerRequest(container_id=container_id)
        self.call(method, request, cri.VersionResponse)

    def of_pod(self, method: str, sandbox_id: str) -> None:
        """Stop or remove a pod."""
        request = cri.PodSandboxRequest(pod_sandbox_id=sandbox_id)
        self.call(method, request, cri.VersionResponse)


class Notes:
    """Keeps which containers were decided about, and the refusals."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, Decision]] = []

    def note(self, who: str, decision: Decision) -> None:
        self.noted.append((who, decision))


def rpc(method: str) -> str:
    """Return the whole name of a method of the runtime service."""
    return f"/{RUNTIME_SERVICE}/{method}"


def pod_config(
    uid: str = "u1",
    cgroup_parent: str = "/kubepods/burstable/podu1",
    annotations: dict[str, str] | None = None,
) -> cri.PodSandboxConfig:
    """Return a pod as kubelet describes it."""
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="web", uid=uid, namespace="default"),
        labels={"app": "web"},
        annotations=annotations or {},
        linux=cri.LinuxPodSandboxConfig(cgroup_parent=cgroup_parent),
    )


def create_request(
    sandbox_id: str, name: str = "app", **resources: Any
) -> cri.CreateContainerRequest:
    """Return a creation request that does not repeat the pod's configuration."""
    request = cri.CreateContainerRequest(pod_sandbox_id=sandbox_id)
    request.config.metadata.name = name
    request.config.linux.resources.CopyFrom(cri.LinuxContainerResources(**resources))
    return request


def _info(spec: Any) -> dict[str, str]:
    return {"info": json.dumps({"runtimeSpec": spec})}


def lifecycle_on(
    facts: NodeFacts | None = None,
    tree: Tree | None = None,
    writer: DirectWriter | None = None,
    records: OwnershipRecords | None = None,
    shadow: bool | None = None,
) -> Lifecycle:
    """Return a life-cycle; with a writer, direct writes are on from the start."""
    lifecycle = Lifecycle(
        BackgroundThread(),
        (facts or NodeFacts())._replace(writable=False),
        tree,
        open_writer=None if writer is None else lambda: writer,
        records=records,
        shadow=bool(shadow),
    )
    lifecycle.writer_opening.open()
    return lifecycle


def counts(door: CRIDoor) -> tuple[int, int]:
    """Return how many pods and containers the door's inventory has."""
    pods, containers = door.lifecycle.inventory.ids()
    return len(pods), len(containers)


@contextmanager
def serving(
    runtime: FakeRuntime, path: str, facts: NodeFacts | None = None, **options: Any
) -> Iterator[CRIDoor]:
    """Serve a proxy in front of a runtime within the `with` block.

    The option `config` is a configuration file's text, which is applied first. No
    decision is late, unless the option `budget_s` says so.
    """
    options.setdefault("budget_s", PATIENCE_S)
    config = options.pop("config", "")
    names = ("tree", "writer", "records", "shadow")
    parts = {name: options.pop(name, None) for name in names}
    lifecycle = lifecycle_on(facts, **parts)
    door = CRIDoor(runtime.path, lifecycle, retry_s=0.05, **options)
    try:
        if config:
            door.apply(parse_config(config, "test"))
        door.open(path)
        yield door
    finally:
        door.close(grace_s=5)


def in_threads(count: int, work: Callable[[int], object]) -> list[object]:
    """Call a function many times at once; return the results and exceptions."""
    barrier = threading.Barrier(count)

    def one(number: int) -> object:
        barrier.wait()
        try:
            return work(number)
        except Exception as exc:  # noqa: BLE001 - handed to the test
            return exc

    with futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))
