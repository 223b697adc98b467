"""Calls to the container runtime over its CRI socket: what there is, run a command.

Only what we need of CRI, with messages of our own (api/cri.proto), so no generated
stubs: gRPC takes a method's name and two functions. grpcio is an extra and heavy
(30 MB in a process of its own), so it is imported by the first client that is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.errors import ConfigError, RPCError
from nriplugin.sockets import target_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from google.protobuf.message import Message

    from nriplugin.api import cri_pb2

SERVICE = "runtime.v1.RuntimeService"
TIMEOUT_S = 5

# The runtime stops a command after its own time; only if it does not, we stop waiting.
_GRACE_S = 1

# Of every connection, there and back.
OPTIONS = (
    # The address of a unix socket is no valid host name to servers written in Go.
    ("grpc.default_authority", "localhost"),
    # Both ends have limits of their own, and say so in words that their users know.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # An error's words travel as metadata, and a runtime's can be long: with gRPC's own
    # limit of 8 KiB, another error would take their place.
    ("grpc.max_metadata_size", 16 * 1024 * 1024),
    ("grpc.absolute_max_metadata_size", 16 * 1024 * 1024),
    # A runtime that restarts is back within a second.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class RunningContainer(NamedTuple):
    """A container of a pod; the name is that in the manifest."""

    id: str
    name: str


class ExecResult(NamedTuple):
    """What came of a command; as `cgroup.guest` wants it."""

    code: int
    stdout: bytes
    stderr: bytes


class RuntimeClient:
    """A connection to a runtime, made when it is first needed and kept.

    Every call raises TimeoutError or RPCError.
    """

    def __init__(self, socket_path: str, timeout_s: int = TIMEOUT_S) -> None:
        """Do not connect yet.

        Raises:
            ConfigError: grpcio is not installed, or the path is not absolute.
        """
        if socket_path[:1] != "/":
            raise ConfigError(f"CRI socket: {socket_path!r}, expected an absolute path")
        try:
            import grpc
        except ImportError as exc:
            raise ConfigError(
                "CRI socket: grpcio is not installed, expected nriplugin[cri]"
            ) from exc
        self._timeout_s = timeout_s
        self._channel = grpc.insecure_channel(target_of(socket_path), options=OPTIONS)

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def running_containers(self, sandbox_id: str) -> list[RunningContainer]:
        """Return the containers of a pod that a command can be run in."""
        from nriplugin.api import cri_pb2

        request = cri_pb2.ListContainersRequest(
            filter=cri_pb2.ContainerFilter(
                pod_sandbox_id=sandbox_id,
                state=cri_pb2.ContainerStateValue(state=cri_pb2.CONTAINER_RUNNING),
            )
        )
        response = self._call(
            "ListContainers", request, cri_pb2.ListContainersResponse, self._timeout_s
        )
        return [
            RunningContainer(one.id, one.metadata.name) for one in response.containers
        ]

    def version(self) -> cri_pb2.VersionResponse:
        """Return the runtime's name and version."""
        from nriplugin.api import cri_pb2

        request = cri_pb2.VersionRequest(version="v1")
        answer = cri_pb2.VersionResponse
        version: cri_pb2.VersionResponse = self._call(
            "Version", request, answer, self._timeout_s
        )
        return version

    def ready_pods(self) -> list[str]:
        """Return the IDs of the sandboxes that are not stopped."""
        from nriplugin.api import cri_pb2

        response = self._call(
            "ListPodSandbox",
            cri_pb2.ListPodSandboxRequest(),
            cri_pb2.ListPodSandboxResponse,
            self._timeout_s,
        )
        ready = cri_pb2.SANDBOX_READY
        return [pod.id for pod in response.items if pod.state == ready]

    def live_containers(self) -> list[cri_pb2.Container]:
        """Return all containers that have not ended."""
        from nriplugin.api import cri_pb2

        response = self._call(
            "ListContainers",
            cri_pb2.ListContainersRequest(),
            cri_pb2.ListContainersResponse,
            self._timeout_s,
        )
        live = cri_pb2.CONTAINER_CREATED, cri_pb2.CONTAINER_RUNNING
        return [one for one in response.containers if one.state in live]

    def pod_status(self, sandbox_id: str) -> cri_pb2.PodSandboxStatusResponse:
        """Return everything that the runtime tells about a pod."""
        from nriplugin.api import cri_pb2

        request = cri_pb2.PodSandboxRequest(pod_sandbox_id=sandbox_id, verbose=True)
        answer = cri_pb2.PodSandboxStatusResponse
        status: cri_pb2.PodSandboxStatusResponse = self._call(
            "PodSandboxStatus", request, answer, self._timeout_s
        )
        return status

    def container_status(self, container_id: str) -> cri_pb2.ContainerStatusResponse:
        """Return everything that the runtime tells about a container."""
        from nriplugin.api import cri_pb2

        request = cri_pb2.ContainerStatusRequest(
            container_id=container_id, verbose=True
        )
        answer = cri_pb2.ContainerStatusResponse
        status: cri_pb2.ContainerStatusResponse = self._call(
            "ContainerStatus", request, answer, self._timeout_s
        )
        return status

    def exec_sync(self, container_id: str, argv: Sequence[str]) -> ExecResult:
        """Run a command in a container and wait for its end.

        With the container bound (functools.partial), this is what
        `cgroup.guest.GuestFiles` takes.
        """
        from nriplugin.api import cri_pb2

        request = cri_pb2.ExecSyncRequest(
            container_id=container_id, cmd=argv, timeout=self._timeout_s
        )
        response = self._call(
            "ExecSync",
            request,
            cri_pb2.ExecSyncResponse,
            self._timeout_s + _GRACE_S,
        )
        return ExecResult(response.exit_code, response.stdout, response.stderr)

    def _call(
        self, method: str, request: Message, answer: type[Message], timeout_s: int
    ) -> Any:  # noqa: ANN401 # an `answer`
        from grpc import RpcError, StatusCode

        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        try:
            return call(request, timeout=timeout_s)
        except RpcError as exc:
            # Whoever raises it makes it a Call, too, which has the status.
            code, details = exc.code(), " ".join(str(exc.details()).split())
            if code is StatusCode.DEADLINE_EXCEEDED:
                raise TimeoutError(f"{method}: {details}") from exc
            raise RPCError(code.value[0], f"{method}: {details}") from exc
