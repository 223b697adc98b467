"""A client of the container runtime's CRI socket.

It offers the few CRI calls that nriplugin makes itself: the runtime's version, the pods
and containers that exist, their status, and running a command in a container. There are
no generated stubs: gRPC needs only a method's name, a serialiser and a parser, and the
messages are nriplugin's own (proto/nriplugin/api/cri.proto).

grpcio is an optional dependency and needs 30 MB of memory, so it is imported when the
first client is created, not with this module.
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

# The runtime ends a command after the timeout in the request. The client waits longer
# by this much, so that it gives up only if the runtime did not end the command.
_GRACE_S = 1

# Options of every gRPC connection: from kubelet to the proxy, and to the runtime.
OPTIONS = (
    # gRPC's default authority is the socket's path, which servers written in Go refuse
    # because it is not a valid host name.
    ("grpc.default_authority", "localhost"),
    # No limit on the size of messages here: kubelet and the runtime have their own, and
    # report them with errors that their users know.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # The text of an error travels as metadata, and a runtime's text can be long. Above
    # gRPC's default limit of 8 KiB an error about the limit would replace it.
    ("grpc.max_metadata_size", 16 * 1024 * 1024),
    ("grpc.absolute_max_metadata_size", 16 * 1024 * 1024),
    # Try to connect again each second: a restart of a runtime takes about that long,
    # and gRPC's default would wait up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class ExecResult(NamedTuple):
    """The exit code and output of a command, in the shape that `cgroup.guest` takes."""

    code: int
    stdout: bytes
    stderr: bytes


class RuntimeClient:
    """A connection to a runtime, opened by the first call and kept until `close`.

    Every method that calls the runtime raises TimeoutError or RPCError if that fails.
    """

    def __init__(self, socket_path: str, timeout_s: int = TIMEOUT_S) -> None:
        """Prepare the connection; the first call opens it.

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
        """Close the connection, which ends calls that are under way."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        """Return the IDs of the pod sandboxes that are ready, so not stopped."""
        return [pod.id for pod in self.ready_sandboxes()]

    def ready_sandboxes(self) -> list[cri_pb2.PodSandbox]:
        """Return the pod sandboxes that are ready, so not stopped."""
        from nriplugin.api import cri_pb2

        response = self._call(
            "ListPodSandbox",
            cri_pb2.ListPodSandboxRequest(),
            cri_pb2.ListPodSandboxResponse,
            self._timeout_s,
        )
        ready = cri_pb2.SANDBOX_READY
        return [pod for pod in response.items if pod.state == ready]

    def live_containers(self) -> list[cri_pb2.Container]:
        """Return all containers that are created or running."""
        from nriplugin.api import cri_pb2

        live = cri_pb2.CONTAINER_CREATED, cri_pb2.CONTAINER_RUNNING
        return [one for one in self.containers() if one.state in live]

    def containers(self) -> list[cri_pb2.Container]:
        """Return all containers that the runtime has, those that have ended, too."""
        from nriplugin.api import cri_pb2

        response = self._call(
            "ListContainers",
            cri_pb2.ListContainersRequest(),
            cri_pb2.ListContainersResponse,
            self._timeout_s,
        )
        return list(response.containers)

    def pod_status(self, sandbox_id: str) -> cri_pb2.PodSandboxStatusResponse:
        """Return a pod's status with its verbose part, which has the OCI spec."""
        from nriplugin.api import cri_pb2

        request = cri_pb2.PodSandboxRequest(pod_sandbox_id=sandbox_id, verbose=True)
        answer = cri_pb2.PodSandboxStatusResponse
        status: cri_pb2.PodSandboxStatusResponse = self._call(
            "PodSandboxStatus", request, answer, self._timeout_s
        )
        return status

    def container_status(self, container_id: str) -> cri_pb2.ContainerStatusResponse:
        """Return a container's status with its verbose part, which has the OCI spec."""
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

        `cgroup.guest.GuestFiles` takes this method with `container_id` bound by
        functools.partial.
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
            # grpcio raises an object that is both an RpcError and a Call, and `code`
            # and `details` are methods of Call.
            code, details = exc.code(), " ".join(str(exc.details()).split())
            if code is StatusCode.DEADLINE_EXCEEDED:
                raise TimeoutError(f"{method}: {details}") from exc
            raise RPCError(code.value[0], f"{method}: {details}") from exc
