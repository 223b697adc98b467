"""NRI's Plugin service over gRPC: decisions as a dry run, without a runtime.

A client sends the messages that a runtime would send, and gets the answers that the
plugin would give under the present configuration. No state changes and nothing is
written (doors/nri/dry_run.py). The server also offers gRPC's health and reflection
services. This is the only part of `run` that imports grpcio, and only with `--grpc`.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import OVERALL_HEALTH, HealthServicer
from grpc_health.v1.health import SERVICE_NAME as HEALTH_SERVICE
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha import reflection

from nriplugin.api import nri_pb2 as nri
from nriplugin.doors.nri.dry_run import DryRunPlugin
from nriplugin.errors import NRIPluginError, RequestFails
from nriplugin.nri.methods import METHODS, PLUGIN_SERVICE, Kind
from nriplugin.nri.plugin import handles, subscription
from nriplugin.sockets import bind, claimed

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from nriplugin.doors.nri.plugin import NodePlugin
    from nriplugin.nri.methods import Method

    Context = grpc.ServicerContext
    Handler = grpc.RpcMethodHandler[Any, Any]

# Root alone may connect, because decisions show the configuration.
MODE = 0o600
GRACE_S = 1.0
WORKERS = 16

# The largest message that a runtime would send on its own socket.
_MAX_BYTES = 16 * 1024 * 1024


class PluginService:
    """Serves one plugin's answers on one socket."""

    def __init__(self, plugin: NodePlugin) -> None:
        """Build the server; `open` begins to serve."""
        self._plugin = DryRunPlugin(plugin)
        self._claim = ExitStack()
        # A runtime sends one request at a time, so the plugin is not thread-safe.
        self._one_at_a_time = threading.Lock()
        # Several workers, because a client of the reflection service occupies one for
        # as long as its stream is open.
        self._server = grpc.server(
            ThreadPoolExecutor(WORKERS, thread_name_prefix="grpc"),
            options=[("grpc.max_receive_message_length", _MAX_BYTES)],
        )
        handlers = {method.rpc: self._handler_of(method) for method in METHODS}
        handlers["Configure"] = _handler(nri.ConfigureRequest, self._configure)
        handlers["Synchronize"] = _handler(nri.SynchronizeRequest, _synchronize)
        handlers["StateChange"] = _handler(nri.StateChangeEvent, _nothing)
        handlers["Shutdown"] = _handler(nri.Empty, _nothing)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(PLUGIN_SERVICE, handlers),)
        )
        self._health = HealthServicer()
        for service in (OVERALL_HEALTH, PLUGIN_SERVICE):
            self._health.set(service, health_pb2.HealthCheckResponse.SERVING)
        add_HealthServicer_to_server(self._health, self._server)
        names = (PLUGIN_SERVICE, HEALTH_SERVICE, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    def open(self, path: str) -> None:
        """Serve a socket.

        Raises:
            ConfigError: the socket cannot be created there.
        """
        self._claim.enter_context(claimed("--grpc", path))
        bind(self._server, "--grpc", path, MODE)
        self._server.start()

    def close(self) -> None:
        """Wait for calls that are under way, then stop and remove the socket."""
        self._health.enter_graceful_shutdown()
        self._server.stop(GRACE_S).wait()
        self._claim.close()

    def _handler_of(self, method: Method) -> Handler:
        """Return a handler that asks the plugin; events are accepted and ignored."""
        if method.kind is not Kind.QUESTION or not handles(self._plugin, method):
            return _handler(method.request, _nothing)
        request = self._plugin.views.get(method.handler, method.request)
        answer = getattr(self._plugin, method.handler)

        def ask(message: Any) -> Any:  # noqa: ANN401 - a `request`
            with self._one_at_a_time:
                return answer(message)

        return _handler(request, ask)

    def _configure(self, request: nri.ConfigureRequest) -> nri.ConfigureResponse:
        return nri.ConfigureResponse(events=subscription(self._plugin))


def _synchronize(request: nri.SynchronizeRequest) -> nri.SynchronizeResponse:
    return nri.SynchronizeResponse(more=request.more)


def _nothing(request: object) -> None:
    """Answer with an empty message."""


def _handler(request: type[Message], answer: Callable[[Any], Any]) -> Handler:
    """Return gRPC's handler of a method; exceptions become status codes."""

    def serve(message: Any, context: Context) -> Any:  # noqa: ANN401
        try:
            return answer(message)
        except RequestFails as exc:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(exc))
        except NRIPluginError as exc:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(exc))

    return grpc.unary_unary_rpc_method_handler(
        serve,
        request_deserializer=request.FromString,
        response_serializer=lambda m: b"" if m is None else m.SerializeToString(),
    )
