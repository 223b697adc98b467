"""The runtime's side of NRI, to run and to test plugins without a runtime.

    with Runtime("/tmp/nri.sock") as runtime:
        ...  # start the plugin, pointed at that socket
        runtime.wait_for_plugin()
        result = runtime.create_container(pod, container)
        assert result.adjust.linux.resources.unified["cpu.weight"] == "39"

It listens or launches plugins with descriptor 3, registers, configures and
synchronizes them, and drives lifecycle events as a given NRI release does, with that
release's ways of punishing a plugin: one that is late or breaks the protocol is
dropped and the request goes on without it, one that answers with an error fails the
request. It reads as Go reads, so that frames a Go runtime would choke on are caught.

Not modelled: conflicts between plugins, and what a runtime does with an adjustment.
Reference: pkg/adaptation of the Go library.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from nriplugin.api import nri_pb2 as nri
from nriplugin.errors import (
    ConnectionClosed,
    LocalProtocolError,
    NRIPluginError,
    RPCError,
)
from nriplugin.nri.launch import ENV_INDEX, ENV_NAME, ENV_SOCKET
from nriplugin.nri.link import Link
from nriplugin.nri.methods import BY_RPC, Kind, Method
from nriplugin.nri.releases import valid_mask
from nriplugin.wire.ttrpc import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.message import Message

# A plugin launched by a runtime finds its socket here.
LAUNCH_FD = 3

# Go does not cut a Synchronize into pieces of fewer objects than this.
SMALLEST_PIECE = 4


class RequestFailed(NRIPluginError):
    """The runtime would fail the request, and kubelet would see this error."""


@dataclass(slots=True)
class Created:
    """What the plugins made of a container that is being created."""

    adjust: nri.ContainerAdjustment = field(default_factory=nri.ContainerAdjustment)
    updates: list[nri.ContainerUpdate] = field(default_factory=list)


@dataclass(slots=True)
class Updated:
    """The resources that the runtime would apply, and updates of other containers."""

    resources: nri.LinuxResources
    updates: list[nri.ContainerUpdate] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Which runtime this is, and what its administrator set."""

    name: str = "containerd"
    version: str = "2.3.0"
    nri_version: str = "0.12.5"
    registration_timeout_s: float = 5.0
    request_timeout_s: float = 2.0
    config: str = ""
    # Send Configure before the answer to RegisterPlugin, as a real one may.
    configure_first: bool = False
    # At most so many pods and containers in a Synchronize; None: as many as fit.
    sync_piece: int | None = None

    @property
    def release(self) -> tuple[int, int]:
        """Return the NRI release as a pair of numbers."""
        major, minor = self.nri_version.split(".")[:2]
        return int(major), int(minor)


class Runtime:
    """An NRI runtime without containers. Its methods are called one at a time."""

    def __init__(
        self, socket_path: str | None = None, behaviour: Behaviour | None = None
    ) -> None:
        self.behaviour = behaviour or Behaviour()
        self.pods: dict[str, nri.PodSandbox] = {}
        self.containers: dict[str, nri.Container] = {}
        self.plugins: list[Link] = []
        # Every registration that was synchronized, and every plugin that was dropped.
        self.registrations: list[str] = []
        self.dropped: list[str] = []
        # Unsolicited updates as they came in, and the error to answer them with.
        self.updates: list[list[nri.ContainerUpdate]] = []
        self.update_error = ""
        self._socket_path = socket_path
        self._listener: socket.socket | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._configured = threading.Event()

    # Life

    def __enter__(self) -> Self:
        """Start listening."""
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Drop all plugins and stop."""
        self.stop()

    def start(self) -> None:
        """Listen on the socket, if there is one, in place of any earlier runtime."""
        if self._socket_path is None:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket_path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self._socket_path)
        self._listener.listen()
        self._spawn(self._accept, self._listener)

    def stop(self) -> None:
        """Close everything. The pods and containers stay, for another `start`."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        for link in self.plugins:
            link.close("the runtime stopped")
            link.join()
        self.plugins.clear()

    def launch(self, path: str, *args: str, name: str, idx: str) -> int:
        """Execute a plugin as a runtime does at its start; return its process id.

        It gets three environment variables, descriptor 3, and nothing else.
        """
        ours, theirs = socket.socketpair()
        # High up, so that descriptor 3 is free to become a copy.
        inherited = fcntl.fcntl(theirs, fcntl.F_DUPFD_CLOEXEC, LAUNCH_FD + 1)
        theirs.close()
        environ = {ENV_NAME: name, ENV_INDEX: idx, ENV_SOCKET: str(LAUNCH_FD)}
        try:
            pid = os.posix_spawn(
                path,
                [path, *args],
                environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_DUP2, inherited, LAUNCH_FD),
                ],
            )
        finally:
            os.close(inherited)
        self._spawn(self._admit, ours)
        return pid

    def wait_for_plugin(self, count: int = 1, timeout_s: float = 10.0) -> Link:
        """Wait until so many registrations were synchronized; return the last one's.

        Raises:
            TimeoutError: it did not happen; says what did.
        """
        with self._changed:
            if not self._changed.wait_for(
                lambda: len(self.registrations) >= count, timeout_s
            ):
                raise TimeoutError(
                    f"{len(self.registrations)} of {count} registrations within "
                    f"{timeout_s:g} s; dropped: {self.dropped}"
                )
        return self.plugins[-1]

    # Lifecycle, as kubelet would cause it

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Tell the plugins of a new pod."""
        self._tell(BY_RPC["RunPodSandbox"], pod)
        self.pods[pod.id] = pod

    def update_pod_sandbox(
        self,
        pod: nri.PodSandbox,
        resources: nri.LinuxResources,
        overhead: nri.LinuxResources | None = None,
    ) -> None:
        """Tell the plugins of a pod's new resources, before and after."""
        request = nri.UpdatePodSandboxRequest(
            pod=pod, linux_resources=resources, overhead_linux_resources=overhead
        )
        for _ in self._ask(BY_RPC["UpdatePodSandbox"], request):
            pass
        self._tell(BY_RPC["PostUpdatePodSandbox"], pod)

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Tell the plugins that a pod stopped."""
        self._tell(BY_RPC["StopPodSandbox"], pod)

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Tell the plugins that a pod is gone."""
        self._tell(BY_RPC["RemovePodSandbox"], pod)
        self.pods.pop(pod.id, None)

    def create_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> Created:
        """Ask the plugins to adjust a container, then tell them it was created."""
        result = Created()
        request = nri.CreateContainerRequest(pod=pod, container=container)
        for link, response in self._ask(BY_RPC["CreateContainer"], request):
            assert isinstance(response, nri.CreateContainerResponse)
            if any(update.container_id == container.id for update in response.update):
                raise RequestFailed(
                    f"plugin {link.name} asked to update {container.id} in creation"
                )
            result.adjust.MergeFrom(response.adjust)
            result.updates.extend(response.update)
        self._validate(pod, container, result)
        container.state = nri.CONTAINER_CREATED
        self.containers[container.id] = container
        self._tell(BY_RPC["PostCreateContainer"], pod, container)
        return result

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Tell the plugins before and after a container starts."""
        self._tell(BY_RPC["StartContainer"], pod, container)
        container.state = nri.CONTAINER_RUNNING
        self._tell(BY_RPC["PostStartContainer"], pod, container)

    def update_container(
        self,
        pod: nri.PodSandbox,
        container: nri.Container,
        resources: nri.LinuxResources,
    ) -> Updated:
        """Ask the plugins about new resources; return what would be applied."""
        result = Updated(resources)
        request = nri.UpdateContainerRequest(
            pod=pod, container=container, linux_resources=resources
        )
        for _, response in self._ask(BY_RPC["UpdateContainer"], request):
            assert isinstance(response, nri.UpdateContainerResponse)
            for update in response.update:
                if update.container_id != container.id:
                    result.updates.append(update)
                elif update.linux.HasField("resources"):
                    merged = nri.LinuxResources()
                    merged.CopyFrom(result.resources)
                    merged.MergeFrom(update.linux.resources)
                    result.resources = merged
                else:  # as the real one: the request is wiped
                    result.resources = nri.LinuxResources()
        self._tell(BY_RPC["PostUpdateContainer"], pod, container)
        return result

    def stop_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> list[nri.ContainerUpdate]:
        """Tell the plugins that a container stopped; return their updates of others."""
        container.state = nri.CONTAINER_STOPPED
        updates: list[nri.ContainerUpdate] = []
        request = nri.StopContainerRequest(pod=pod, container=container)
        for _, response in self._ask(BY_RPC["StopContainer"], request):
            assert isinstance(response, nri.StopContainerResponse)
            updates.extend(response.update)
        return updates

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Tell the plugins that a container is gone."""
        self._tell(BY_RPC["RemoveContainer"], pod, container)
        self.containers.pop(container.id, None)

    # Calling plugins

    def _ask(self, method: Method, request: Message) -> list[tuple[Link, Message]]:
        """Call all subscribed plugins in order; drop those that do not answer."""
        answers: list[tuple[Link, Message]] = []
        with self._lock:
            for link in self._subscribed(method):
                try:
                    answers.append((link, self._call(link, method.rpc, request)))
                except ConnectionClosed as exc:
                    self._drop(link, str(exc))
                except RPCError as exc:
                    raise RequestFailed(f"plugin {link.name}: {exc}") from exc
        return answers

    def _tell(
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
                    raise RequestFailed(f"plugin {link.name}: {exc}") from exc

    def _deliver(
        self,
        link: Link,
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

    def _validate(
        self, pod: nri.PodSandbox, container: nri.Container, result: Created
    ) -> None:
        """Ask the validators; unlike elsewhere, their silence fails the request too."""
        method = BY_RPC["ValidateContainerAdjustment"]
        if self.behaviour.release < method.since:
            return
        request = nri.ValidateContainerAdjustmentRequest(
            pod=pod, container=container, adjust=result.adjust, update=result.updates
        )
        with self._lock:
            for link in self._subscribed(method):
                try:
                    response = self._call(link, method.rpc, request)
                except (ConnectionClosed, RPCError) as exc:
                    if isinstance(exc, ConnectionClosed):
                        self._drop(link, str(exc))
                    raise RequestFailed(f"validator {link.name}: {exc}") from exc
                assert isinstance(response, nri.ValidateContainerAdjustmentResponse)
                if response.reject:
                    raise RequestFailed(f"validator {link.name}: {response.reason}")

    def _call(self, link: Link, rpc: str, request: Message) -> Message:
        timeout_s = self.behaviour.request_timeout_s
        return link.call(rpc, request, BY_RPC[rpc].response, timeout_s)

    def _subscribed(self, method: Method) -> list[Link]:
        for link in [link for link in self.plugins if not link.connected]:
            self._drop(link, link.closed_because)
        return [link for link in self.plugins if link.events & method.mask]

    def _drop(self, link: Link, reason: str) -> None:
        link.close(reason)
        link.join()
        self.plugins.remove(link)
        self.dropped.append(f"{link.idx}-{link.name}: {reason}")

    # Admitting plugins

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            self._admit(sock)  # one after the other, as the real one

    def _admit(self, sock: socket.socket) -> None:
        """Register, configure and synchronize a plugin, or drop it."""
        self._configured.clear()
        link = Link(
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
            self.dropped.append(f"{link.idx}-{link.name}: {exc}")
            return
        with self._changed:
            self.registrations.append(f"{link.idx}-{link.name}")
            self._changed.notify_all()

    def _register(self, link: Link, payload: bytes) -> bytes:
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

    def _configure(self, link: Link) -> None:
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

    def _synchronize(self, link: Link) -> None:
        pods, containers = list(self.pods.values()), list(self.containers.values())
        piece = self.behaviour.sync_piece or max(len(pods), len(containers), 1)
        while pods or containers or piece:
            more = len(pods) > piece or len(containers) > piece
            request = nri.SynchronizeRequest(
                pods=pods[:piece], containers=containers[:piece], more=more
            )
            try:
                response = link.call(
                    "Synchronize",
                    request,
                    nri.SynchronizeResponse,
                    self.behaviour.request_timeout_s,
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

    def _update(self, link: Link, payload: bytes) -> bytes:
        request = nri.UpdateContainersRequest.FromString(payload)
        with self._lock:  # held during requests: whoever calls inside one waits
            if self.update_error:
                raise RPCError(Code.UNKNOWN, self.update_error)
            self._apply(request.update)
        return b""

    def _apply(self, updates: Sequence[nri.ContainerUpdate]) -> None:
        if updates:
            self.updates.append(list(updates))

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(
            target=target,  # type: ignore[arg-type] # bound methods of different shapes
            args=args,
            name="nri-runtime",
            daemon=True,
        )
        self._threads.append(thread)
        thread.start()
