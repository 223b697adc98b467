"""gRPC's standard services: health, and reflection in both of its versions.

Health says what /healthz and /readyz say, at the moment of the question. Reflection
tells tools such as grpcurl what there is; newer tools ask for v1 and older ones for
v1alpha, which have the same messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import SERVICE_NAME as REFLECTION_V1ALPHA
from grpc_reflection.v1alpha.reflection import ReflectionServicer

from nriplugin.daemon.control.handlers import StreamLimit
from nriplugin.daemon.health import live, ready

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection, Iterable, Iterator

    from nriplugin.daemon.process import DaemonProcess

    Context = grpc.ServicerContext
    Handler = grpc.RpcMethodHandler[Any, Any]

HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"

# How many streams of each service may be open at once.
MAX_HEALTH_STREAMS = 16
MAX_REFLECTION_STREAMS = 16

# How often a stream of the health service looks for a change.
_POLL_S = 1.0

_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


class HealthService:
    """The health of the daemon, which is the same for all of its services."""

    def __init__(
        self,
        process: DaemonProcess,
        services: Collection[str],
        stopping: threading.Event,
    ) -> None:
        """Answer for the server as a whole and for some services.

        Args:
            process: the daemon.
            services: the names of the services; the empty one stands for all.
            stopping: set when the server stops.
        """
        self._process = process
        self._services = {"", *services}
        self._stopping = stopping

    def handlers(self) -> dict[str, Handler]:
        """Return gRPC's handlers by the names of the methods."""
        limit = StreamLimit("health streams", MAX_HEALTH_STREAMS)
        kinds: dict[str, Any] = {
            "request_deserializer": health_pb2.HealthCheckRequest.FromString,
            "response_serializer": health_pb2.HealthCheckResponse.SerializeToString,
        }
        return {
            "Check": grpc.unary_unary_rpc_method_handler(self._check, **kinds),
            "Watch": grpc.unary_stream_rpc_method_handler(
                limit.limit(self._watch), **kinds
            ),
        }

    def _check(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        if request.service not in self._services:
            text = f"{request.service!r:.80}: no such service"
            context.abort(grpc.StatusCode.NOT_FOUND, text)
        return health_pb2.HealthCheckResponse(status=self._status())

    def _watch(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> Iterator[health_pb2.HealthCheckResponse]:
        known, before = request.service in self._services, -1
        while context.is_active():
            status = self._status() if known else _UNKNOWN
            if status != before:
                before = status
                yield health_pb2.HealthCheckResponse(status=status)
            if self._stopping.wait(_POLL_S):
                return

    def _status(self) -> Any:  # noqa: ANN401 - the stubs have no name for its type
        if self._stopping.is_set() or live(self._process) or ready(self._process):
            return _NOT_SERVING
        return _SERVING


def add_health(
    server: grpc.Server,
    process: DaemonProcess,
    services: Collection[str],
    stopping: threading.Event,
) -> None:
    """Add the health service to a server."""
    handlers = HealthService(process, services, stopping).handlers()
    generic = grpc.method_handlers_generic_handler(HEALTH, handlers)
    server.add_generic_rpc_handlers((generic,))


def add_reflection(server: grpc.Server, services: Iterable[str]) -> None:
    """Add reflection to a server, for services that it has beside health."""
    _describe_v1()
    names = [*services, HEALTH, REFLECTION_V1, REFLECTION_V1ALPHA]
    limit = StreamLimit("reflection streams", MAX_REFLECTION_STREAMS)
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(
        limit.limit(ReflectionServicer(names).ServerReflectionInfo),
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    for name in (REFLECTION_V1, REFLECTION_V1ALPHA):
        methods = {"ServerReflectionInfo": handler}
        generic = grpc.method_handlers_generic_handler(name, methods)
        server.add_generic_rpc_handlers((generic,))


def _describe_v1() -> None:
    """Add the description of reflection v1, which is v1alpha's under another name.

    The package grpcio-reflection has v1alpha alone.
    """
    pool = descriptor_pool.Default()
    try:
        pool.FindFileContainingSymbol(REFLECTION_V1)
    except KeyError:
        pass
    else:
        return
    file = descriptor_pb2.FileDescriptorProto()
    reflection_pb2.DESCRIPTOR.CopyToProto(file)
    old, new = ".grpc.reflection.v1alpha.", ".grpc.reflection.v1."
    file.name = "grpc/reflection/v1/reflection.proto"
    file.package = new.strip(".")
    for message in file.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace(old, new)
    for service in file.service:
        for method in service.method:
            method.input_type = method.input_type.replace(old, new)
            method.output_type = method.output_type.replace(old, new)
    pool.AddSerializedFile(file.SerializeToString())
