"""The plugins of an embedded runtime: who is connected, and how they are called.

Admits plugins (registration, Configure, Synchronize) and calls them in the order of
their index, with the release's ways of punishing them.
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

# Go does not cut a Synchronize into pieces of fewer objects than this.
SMALLEST_PIECE = 4


class RegisteredPlugins:
    """The connected plugins. Called from one thread at a time."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        # What Synchronize tells.
        self.pods: dict[str, nri.PodSandbox] = {}
        self.containers: dict[str, nri.Container] = {}
        self.plugins: list[PluginConnection] = []
        # Everybody who was admitted, and everybody who was not or no longer is.
        self.registrations: list[str] = []
        self.dropped: list[str] = []
        # Unsolicited updates as they came in, and the error to answer them with.
        self.updates: list[list[nri.ContainerUpdate]] = []
        self.update_error = ""
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._configured = threading.Event()

    def wait_for_registrations(self, count: int, timeout_s: float) -> bool:
        """Wait until so many plugins were admitted since the beginning."""
        with self._changed:
            return self._changed.wait_for(
                lambda: len(self.registrations) >= count, timeout_s
            )

    def drop_all(self, reason: str) -> None:
        """Close all connections."""
        for link in self.plugins:
            link.close(reason)
            link.join()
        self.plugins.clear()

    # Calling plugins

    def ask(
        self,
        method: Method,
        request: Message,
        take: Callable[[Any, str], None] | None = None,
    ) -> None:
        """Call all subscribed plugins in order; drop those that do not answer.

        `take` gets each answer with the plugin's index and name, before the next plugin
        is asked, and may change the request for it.
        """
        with self._lock:
            for link in self._subscribed(method):
                try:
                    answer = self._call(link, method.rpc, request)
                except ConnectionClosed as exc:
                    self._drop(link, str(exc))
                    continue
                except RPCError as exc:
                    raise RequestRejected(f"plugin {link.name}: {exc}") from exc
                if take is not None:
                    take(answer, link.full_name)

    def tell(
        self,
        method: Method,
        pod: nri.PodSandbox,
        container: nri.Container | None = None,
    ) -> None:
        """Deliver an event as the release does: a method of its own, or StateChange."""
        if method.kind is Kind.CONTAINER_EVENT:
            request = method.request(pod=pod, container=container)
        else:
            request = method.request(pod=pod)
        change = nri.StateChangeEvent(pod=pod, container=container)
        change.event = nri.Event.ValueType(method.event)
        with self._lock:
            for link in self._subscribed(method):
                try:
                    self._deliver(link, method, request, change)
                except ConnectionClosed as exc:
                    self._drop(link, str(exc))
                except RPCError as exc:
                    raise RequestRejected(f"plugin {link.name}: {exc}") from exc

    def _deliver(
        self,
        link: PluginConnection,
        method: Method,
        request: Message,
        change: nri.StateChangeEvent,
    ) -> None:
        if self.behaviour.release >= (0, 12) and not link.uses_state_change:
            try:
                self._call(link, method.rpc, request)
            except RPCError as exc:
                if exc.code != Code.UNIMPLEMENTED:
                    raise
                link.uses_state_change = True  # for all events, from now on
            else:
                return
        link.call("StateChange", change, nri.Empty, self.behaviour.request_timeout_s)

    def validate(self, request: nri.ValidateContainerAdjustmentRequest) -> None:
        """Ask the validators; unlike elsewhere, their silence fails the request too."""
        method = BY_RPC["ValidateContainerAdjustment"]
        if self.behaviour.release < method.since:
            return
        with self._lock:
            for link in self._subscribed(method):
                try:
                    response = self._call(link, method.rpc, request)
                except (ConnectionClosed, RPCError) as exc:
                    if isinstance(exc, ConnectionClosed):
                        self._drop(link, str(exc))
                    raise RequestRejected(f"validator {link.name}: {exc}") from exc
                assert isinstance(response, nri.ValidateContainerAdjustmentResponse)
                if response.reject:
                    raise RequestRejected(f"validator {link.name}: {response.reason}")

    def _call(self, link: PluginConnection, rpc: str, request: Message) -> Message:
        timeout_s = self.behaviour.request_timeout_s
        return link.call(rpc, request, BY_RPC[rpc].response, timeout_s)

    def _subscribed(self, method: Method) -> list[PluginConnection]:
        for link in [link for link in self.plugins if not link.connected]:
            self._drop(link, link.closed_because)
        return [link for link in self.plugins if link.events & method.mask]

    def _drop(self, link: PluginConnection, reason: str) -> None:
        link.close(reason)
        link.join()
        self.plugins.remove(link)
        self.dropped.append(f"{link.full_name}: {reason}")

    # Admitting plugins

    def admit(self, sock: socket.socket) -> None:
        """Register, configure and synchronize a plugin, or drop it."""
        self._configured.clear()
        link = PluginConnection(
            sock, {"RegisterPlugin": self._register, "UpdateContainers": self._update}
        )
        try:
            if not link.wait_until(
                lambda: bool(link.name), self.behaviour.registration_timeout_s
            ):
                raise ConnectionClosed("did not register in time")
            if not link.connected:
                raise ConnectionClosed(link.closed_because)
            with self._lock:
                self._configure(link)
                self._configured.set()
                self._synchronize(link)
                self.plugins.append(link)
                self.plugins.sort(key=lambda link: link.idx)
        except (ConnectionClosed, LocalProtocolError, RPCError) as exc:
            self._configured.set()
            link.close(str(exc))
            link.join()
            self.dropped.append(f"{link.full_name}: {exc}")
            return
        with self._changed:
            self.registrations.append(link.full_name)
            self._changed.notify_all()

    def _register(self, link: PluginConnection, payload: bytes) -> bytes:
        request = nri.RegisterPluginRequest.FromString(payload)
        if not request.plugin_name:
            raise RPCError(Code.UNKNOWN, "invalid plugin name: empty")
        if len(request.plugin_idx) != 2 or not request.plugin_idx.isdecimal():
            raise RPCError(Code.UNKNOWN, f"invalid plugin index {request.plugin_idx!r}")
        link.idx, link.name = request.plugin_idx, request.plugin_name
        if self.behaviour.configure_first:
            link.notify()
            self._configured.wait(self.behaviour.registration_timeout_s)
        return b""

    def _configure(self, link: PluginConnection) -> None:
        mine = self.behaviour
        request = nri.ConfigureRequest(
            config=mine.config, runtime_name=mine.name, runtime_version=mine.version
        )
        if mine.release >= (0, 7):
            request.registration_timeout = int(mine.registration_timeout_s * 1000)
            request.request_timeout = int(mine.request_timeout_s * 1000)
        if mine.release >= (0, 12):
            request.NRI_version = mine.nri_version
        response = link.call(
            "Configure", request, nri.ConfigureResponse, mine.request_timeout_s
        )
        valid = valid_mask(mine.release)
        if response.events & ~valid:
            raise ConnectionClosed(
                f"invalid plugin events: {response.events & ~valid:#x}"
            )
        link.events = response.events or valid

    def _synchronize(self, link: PluginConnection) -> None:
        pods, containers = list(self.pods.values()), list(self.containers.values())
        piece = self.behaviour.sync_piece or max(len(pods), len(containers), 1)
        deadline = monotonic() + self.behaviour.request_timeout_s  # for all pieces
        while True:
            more = len(pods) > piece or len(containers) > piece
            request = nri.SynchronizeRequest(
                pods=pods[:piece], containers=containers[:piece], more=more
            )
            try:
                response = link.call(
                    "Synchronize",
                    request,
                    nri.SynchronizeResponse,
                    max(0.0, deadline - monotonic()),
                )
            except LocalProtocolError:
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

    def _update(self, link: PluginConnection, payload: bytes) -> bytes:
        request = nri.UpdateContainersRequest.FromString(payload)
        with self._lock:  # held during requests: whoever calls inside one waits
            if self.update_error:
                raise RPCError(Code.UNKNOWN, self.update_error)
            self._apply(request.update)
        return b""

    def _apply(self, updates: Sequence[nri.ContainerUpdate]) -> None:
        if updates:
            self.updates.append(list(updates))
