"""The plugins that are registered with an embedded runtime.

Admits plugins (RegisterPlugin, Configure, Synchronize) and calls them in the order of
their index, with the consequences that the imitated NRI release has: a plugin that is
late or breaks the protocol is dropped and the request goes on without it; an answer
with an error fails the request.

One lock is held over each request and over each admission, as in the Go library. A
plugin that calls UpdateContainers while it serves a request therefore waits for the
end of that request.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, Any

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import (
    ConnectionClosed,
    LocalProtocolError,
    RPCError,
)
from nriplugin.nri.methods import BY_RPC, Kind, Method
from nriplugin.nri.releases import valid_mask
from nriplugin.nri.testing.errors import RequestRejected
from nriplugin.nri.testing.plugin_connection import PluginConnection
from nriplugin.wire.ttrpc import Code

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from google.protobuf.message import Message

    from nriplugin.nri.testing.behaviour import Behaviour

# The Go library does not cut a Synchronize into pieces of fewer pods and containers.
SMALLEST_PIECE = 4


class RegisteredPlugins:
    """Admits and calls plugins. Only one thread at a time may make requests.

    The public attributes are for tests to set up and to look at.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        # The pods and containers that Synchronize sends, by id.
        self.pods: dict[str, nri.PodSandbox] = {}
        self.containers: dict[str, nri.Container] = {}
        self.plugins: list[PluginConnection] = []
        # The index and name of each plugin that was ever admitted; and of each that was
        # dropped, at its admission or later, with the reason.
        self.registrations: list[str] = []
        self.dropped: list[str] = []
        # The updates that plugins sent, unsolicited or in answers to Synchronize, one
        # list per message; and the error that answers unsolicited ones, if not empty.
        self.updates: list[list[nri.ContainerUpdate]] = []
        self.update_error = ""
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._configured = threading.Event()

    def wait_for_registrations(self, count: int, timeout_s: float) -> bool:
        """Wait until `count` plugins were admitted since the beginning."""
        with self._changed:
            return self._changed.wait_for(
                lambda: len(self.registrations) >= count, timeout_s
            )

    def drop_all(self, reason: str) -> None:
        """Close the connections of all plugins."""
        for plugin in self.plugins:
            plugin.close(reason)
            plugin.join()
        self.plugins.clear()

    # Calling plugins

    def ask(
        self,
        method: Method,
        request: Message,
        take: Callable[[Any, str], None] | None = None,
    ) -> None:
        """Ask all subscribed plugins in order.

        `take` gets each answer with the plugin's index and name before the next plugin
        is asked. It may change the request, which the next plugin then gets.

        Raises:
            RequestRejected: a plugin answered with an error.
        """

        def ask_one(plugin: PluginConnection) -> None:
            answer = self._call(plugin, method.rpc, request)
            if take is not None:
                take(answer, plugin.full_name)

        self._for_each_subscribed(method, ask_one)

    def tell(
        self,
        method: Method,
        pod: nri.PodSandbox,
        container: nri.Container | None = None,
    ) -> None:
        """Deliver an event to all subscribed plugins in order.

        Raises:
            RequestRejected: a plugin answered with an error.
        """
        if method.kind is Kind.CONTAINER_EVENT:
            request = method.request(pod=pod, container=container)
        else:
            request = method.request(pod=pod)
        change = nri.StateChangeEvent(pod=pod, container=container)
        change.event = nri.Event.ValueType(method.event)
        self._for_each_subscribed(
            method, lambda plugin: self._deliver(plugin, method, request, change)
        )

    def _deliver(
        self,
        plugin: PluginConnection,
        method: Method,
        request: Message,
        change: nri.StateChangeEvent,
    ) -> None:
        # Since 0.12 each event is an RPC of its own. After one "unimplemented" the Go
        # library sends all events to that plugin as StateChange, as older ones do.
        if self.behaviour.release >= (0, 12) and not plugin.uses_state_change:
            try:
                self._call(plugin, method.rpc, request)
            except RPCError as exc:
                if exc.code != Code.UNIMPLEMENTED:
                    raise
                plugin.uses_state_change = True
            else:
                return
        plugin.call("StateChange", change, nri.Empty, self.behaviour.request_timeout_s)

    def validate(self, request: nri.ValidateContainerAdjustmentRequest) -> None:
        """Ask the plugins that validate the merged answers of all plugins.

        Unlike in other requests, a validator that does not answer is not skipped.

        Raises:
            RequestRejected: a validator rejected the result, failed, or did not answer.
        """
        method = BY_RPC["ValidateContainerAdjustment"]
        if self.behaviour.release < method.since:
            return
        with self._lock:
            for plugin in self._subscribed(method):
                try:
                    response = self._call(plugin, method.rpc, request)
                except (ConnectionClosed, RPCError) as exc:
                    if isinstance(exc, ConnectionClosed):
                        self._drop(plugin, str(exc))
                    raise RequestRejected(f"validator {plugin.name}: {exc}") from exc
                assert isinstance(response, nri.ValidateContainerAdjustmentResponse)
                if response.reject:
                    raise RequestRejected(f"validator {plugin.name}: {response.reason}")

    def _for_each_subscribed(
        self, method: Method, call: Callable[[PluginConnection], None]
    ) -> None:
        with self._lock:
            for plugin in self._subscribed(method):
                try:
                    call(plugin)
                except ConnectionClosed as exc:
                    self._drop(plugin, str(exc))
                except RPCError as exc:
                    raise RequestRejected(f"plugin {plugin.name}: {exc}") from exc

    def _call(self, plugin: PluginConnection, rpc: str, request: Message) -> Message:
        timeout_s = self.behaviour.request_timeout_s
        return plugin.call(rpc, request, BY_RPC[rpc].response, timeout_s)

    def _subscribed(self, method: Method) -> list[PluginConnection]:
        for plugin in [plugin for plugin in self.plugins if not plugin.connected]:
            self._drop(plugin, plugin.closed_because)
        return [plugin for plugin in self.plugins if plugin.events & method.mask]

    def _drop(self, plugin: PluginConnection, reason: str) -> None:
        plugin.close(reason)
        plugin.join()
        self.plugins.remove(plugin)
        self.dropped.append(f"{plugin.full_name}: {reason}")

    # Admitting plugins

    def admit(self, sock: socket.socket) -> None:
        """Register, configure and synchronize the plugin at a socket, or drop it."""
        self._configured.clear()
        plugin = PluginConnection(
            sock, {"RegisterPlugin": self._register, "UpdateContainers": self._update}
        )
        try:
            if not plugin.wait_until(
                lambda: bool(plugin.name), self.behaviour.registration_timeout_s
            ):
                raise ConnectionClosed("did not register in time")
            if not plugin.connected:
                raise ConnectionClosed(plugin.closed_because)
            with self._lock:
                self._configure(plugin)
                self._configured.set()
                self._synchronize(plugin)
                self.plugins.append(plugin)
                self.plugins.sort(key=lambda plugin: plugin.idx)
        except (ConnectionClosed, LocalProtocolError, RPCError) as exc:
            self._configured.set()
            plugin.close(str(exc))
            plugin.join()
            self.dropped.append(f"{plugin.full_name}: {exc}")
            return
        with self._changed:
            self.registrations.append(plugin.full_name)
            self._changed.notify_all()

    def _register(self, plugin: PluginConnection, payload: bytes) -> bytes:
        request = nri.RegisterPluginRequest.FromString(payload)
        if not request.plugin_name:
            raise RPCError(Code.UNKNOWN, "invalid plugin name: empty")
        if len(request.plugin_idx) != 2 or not request.plugin_idx.isdecimal():
            raise RPCError(Code.UNKNOWN, f"invalid plugin index {request.plugin_idx!r}")
        plugin.idx, plugin.name = request.plugin_idx, request.plugin_name
        if self.behaviour.configure_first:
            # Let `admit` go on with Configure, and answer only after that.
            plugin.notify()
            self._configured.wait(self.behaviour.registration_timeout_s)
        return b""

    def _configure(self, plugin: PluginConnection) -> None:
        runtime = self.behaviour
        request = nri.ConfigureRequest(
            config=runtime.config,
            runtime_name=runtime.name,
            runtime_version=runtime.version,
        )
        if runtime.release >= (0, 7):
            request.registration_timeout = int(runtime.registration_timeout_s * 1000)
            request.request_timeout = int(runtime.request_timeout_s * 1000)
        if runtime.release >= (0, 12):
            request.NRI_version = runtime.nri_version
        response = plugin.call(
            "Configure", request, nri.ConfigureResponse, runtime.request_timeout_s
        )
        valid = valid_mask(runtime.release)
        if response.events & ~valid:
            raise ConnectionClosed(
                f"invalid plugin events: {response.events & ~valid:#x}"
            )
        plugin.events = response.events or valid  # zero subscribes to everything

    def _synchronize(self, plugin: PluginConnection) -> None:
        pods, containers = list(self.pods.values()), list(self.containers.values())
        piece = self.behaviour.sync_piece or max(len(pods), len(containers), 1)
        # One timeout for all pieces together.
        deadline = monotonic() + self.behaviour.request_timeout_s
        while True:
            more = len(pods) > piece or len(containers) > piece
            request = nri.SynchronizeRequest(
                pods=pods[:piece], containers=containers[:piece], more=more
            )
            try:
                response = plugin.call(
                    "Synchronize",
                    request,
                    nri.SynchronizeResponse,
                    max(0.0, deadline - monotonic()),
                )
            except LocalProtocolError:
                # The piece is longer than a message may be: try a smaller one. Releases
                # before 0.7 cannot cut.
                if self.behaviour.release < (0, 7) or piece <= SMALLEST_PIECE:
                    raise
                piece = max(SMALLEST_PIECE, piece * 9 // 10)
                continue
            if not more:
                self._apply(response.update)
                return
            if not response.more or response.update:
                raise ConnectionClosed("plugin does not handle split sync requests")
            pods, containers = pods[piece:], containers[piece:]

    def _update(self, plugin: PluginConnection, payload: bytes) -> bytes:
        request = nri.UpdateContainersRequest.FromString(payload)
        with self._lock:  # waits for the end of a request that is under way
            if self.update_error:
                raise RPCError(Code.UNKNOWN, self.update_error)
            self._apply(request.update)
        return b""

    def _apply(self, updates: Sequence[nri.ContainerUpdate]) -> None:
        if updates:
            self.updates.append(list(updates))
