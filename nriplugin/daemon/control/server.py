"""The gRPC server of the control API; the listener forwards connections to it.

A stream occupies one of the server's threads as long as it is open, so there are more
threads than streams may be open. Calls beyond the number of threads are refused at
once, instead of waiting for a thread that may never be free.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc

from nriplugin.api import control_pb2 as control
from nriplugin.daemon.control.event_stream import event_stream
from nriplugin.daemon.control.handlers import StreamLimit, denied, unary
from nriplugin.daemon.control.peers import Access
from nriplugin.daemon.control.plugin_service import PluginService
from nriplugin.daemon.control.service import ControlService
from nriplugin.daemon.control.standard_services import (
    MAX_HEALTH_STREAMS,
    MAX_REFLECTION_STREAMS,
    add_health,
    add_reflection,
)
from nriplugin.errors import ConfigError
from nriplugin.nri.methods import PLUGIN_SERVICE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nriplugin.daemon.process import DaemonProcess

    Context = grpc.ServicerContext
    Handler = grpc.RpcMethodHandler[Any, Any]

CONTROL_SERVICE = control.DESCRIPTOR.services_by_name["Control"].full_name

MAX_WATCHERS = 32
# Threads for calls with one answer, beside those for streams.
_UNARY = 16
WORKERS = MAX_WATCHERS + MAX_HEALTH_STREAMS + MAX_REFLECTION_STREAMS + _UNARY
GRACE_S = 1.0

_OPTIONS = (
    # The largest message that a runtime would send on its own socket.
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.max_concurrent_streams", WORKERS),
    # A client that is stopped does not answer a ping, and loses its streams.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # A client may send pings of its own.
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.so_reuseport", 0),
)

_DENIED = "only root, or the user of the daemon, may call this"


class ControlServer:
    """Serves all methods, or those that change nothing."""

    def __init__(self, process: DaemonProcess, access: Access) -> None:
        """Build the server; `open` begins to serve."""
        self._events = process.lifecycle.events
        self._stopping = threading.Event()
        self._server = grpc.server(
            ThreadPoolExecutor(WORKERS, thread_name_prefix=f"control-{access.value}"),
            options=_OPTIONS,
            maximum_concurrent_rpcs=WORKERS,
        )
        services = {CONTROL_SERVICE: self._control(process, access)}
        if access is Access.ALL and process.door == "nri":
            plugin = PluginService(process.lifecycle)
            services[PLUGIN_SERVICE] = dict(plugin.handlers())
        for name, handlers in services.items():
            generic = grpc.method_handlers_generic_handler(name, handlers)
            self._server.add_generic_rpc_handlers((generic,))
        add_health(self._server, process, services, self._stopping)
        add_reflection(self._server, services)

    def open(self, path: str) -> None:
        """Serve a socket, whose path has no characters that a URL would encode.

        Raises:
            ConfigError: no socket can be made there.
        """
        try:
            self._server.add_insecure_port(f"unix:{path}")
        except RuntimeError as exc:
            raise ConfigError(
                f"{path}: {exc}, expected a place where a socket can be made"
            ) from exc
        self._server.start()

    def stop(self) -> Callable[[], object]:
        """Begin to stop; the result waits for calls that are under way."""
        self._stopping.set()
        return self._server.stop(GRACE_S).wait

    def _control(self, process: DaemonProcess, access: Access) -> dict[str, Handler]:
        service = ControlService(process)
        reading = {
            "Status": unary(control.StatusRequest, service.status),
            "Why": unary(control.WhyRequest, service.why),
            "Explain": unary(control.ExplainRequest, service.explain),
            "Watch": self._watching(),
        }
        if access is Access.ALL:
            return reading | {
                "Reload": unary(control.ReloadRequest, service.reload),
                "Restore": unary(control.RestoreRequest, service.restore),
                "Withdraw": unary(control.WithdrawRequest, service.withdraw),
            }
        return reading | {
            "Reload": denied(control.ReloadRequest, _DENIED),
            "Restore": denied(control.RestoreRequest, _DENIED),
            "Withdraw": denied(control.WithdrawRequest, _DENIED),
        }

    def _watching(self) -> Handler:
        def watch(
            request: control.WatchRequest, context: Context
        ) -> Iterator[control.Event]:
            stream = event_stream(
                self._events, request, context.is_active, self._stopping
            )
            # The client learns that the stream has begun before the first event.
            context.send_initial_metadata(())
            yield from stream

        limit = StreamLimit("watchers", MAX_WATCHERS)
        return grpc.unary_stream_rpc_method_handler(
            limit.limit(watch),
            request_deserializer=control.WatchRequest.FromString,
            response_serializer=control.Event.SerializeToString,
        )
