"""The embedded runtime: the runtime's side of NRI, to test plugins without a runtime.

    with EmbeddedRuntime("/tmp/nri.sock") as runtime:
        ...  # start the plugin, pointed at that socket
        runtime.wait_for_plugin()
        result = runtime.create_container(pod, container)
        assert result.adjust.linux.resources.unified["cpu.weight"] == "39"

It listens on a socket or launches plugins with descriptor 3; registers, configures
and synchronizes them; and delivers requests and events as a given NRI release does. A
plugin that is late or breaks the protocol is dropped, and the request goes on without
it. An answer with an error fails the request, and so do two plugins that set the same
field. Each plugin is shown what the earlier ones changed. Frames that a Go runtime
cannot read end the connection here, too.

Not modelled: how releases before 0.12.5 merge answers, and what a runtime does with an
adjustment. Reference: pkg/adaptation of the Go library.
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
from nriplugin.nri.launch import ENV_INDEX, ENV_NAME, ENV_SOCKET
from nriplugin.nri.methods import BY_RPC
from nriplugin.nri.testing.behaviour import Behaviour
from nriplugin.nri.testing.errors import RequestRejected
from nriplugin.nri.testing.merging import MergedAdjustment, MergedUpdates
from nriplugin.nri.testing.registered_plugins import RegisteredPlugins

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.nri.testing.plugin_connection import PluginConnection

__all__ = ["Behaviour", "Created", "EmbeddedRuntime", "RequestRejected", "Updated"]

# The descriptor at which a plugin that the runtime launched finds its socket.
LAUNCH_FD = 3


@dataclass(slots=True)
class Created:
    """The merged answers of the plugins to the creation of a container."""

    adjust: nri.ContainerAdjustment = field(default_factory=nri.ContainerAdjustment)
    updates: list[nri.ContainerUpdate] = field(default_factory=list)


@dataclass(slots=True)
class Updated:
    """The resources that a runtime would apply, and updates of other containers."""

    resources: nri.LinuxResources
    updates: list[nri.ContainerUpdate] = field(default_factory=list)


class EmbeddedRuntime(RegisteredPlugins):
    """An NRI runtime that has plugins and no containers.

    Only one thread at a time may call its methods. Its own threads admit plugins and
    serve their calls.
    """

    def __init__(
        self, socket_path: str | None = None, behaviour: Behaviour | None = None
    ) -> None:
        super().__init__(behaviour or Behaviour())
        self._socket_path = socket_path
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []

    # Start and stop

    def __enter__(self) -> Self:
        """Start listening."""
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Drop all plugins and stop."""
        self.stop()

    def start(self) -> None:
        """Listen on the socket, if a path was given; replaces a socket at that path."""
        if self._socket_path is None:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._socket_path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self._socket_path)
        self._listener.listen()
        self._spawn(self._accept, self._listener)

    def stop(self) -> None:
        """Stop listening and drop all plugins. Pods and containers stay."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        self.drop_all("the runtime stopped")

    def launch(self, path: str, *args: str, name: str, idx: str) -> int:
        """Execute a plugin as a runtime does at its start; return its process id.

        The plugin gets three environment variables and descriptor 3, and nothing else.
        """
        ours, theirs = socket.socketpair()
        # A number above 3, so that the copy to descriptor 3 in the new process does not
        # overwrite the original.
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
        self._spawn(self.admit, ours)
        return pid

    def wait_for_plugin(
        self, count: int = 1, timeout_s: float = 10.0
    ) -> PluginConnection:
        """Wait until `count` plugins were admitted; return the one with the last index.

        Raises:
            TimeoutError: fewer were admitted; names the plugins that were dropped.
        """
        if not self.wait_for_registrations(count, timeout_s):
            raise TimeoutError(
                f"{len(self.registrations)} of {count} registrations within "
                f"{timeout_s:g} s; dropped: {self.dropped}"
            )
        return self.plugins[-1]

    # The life of pods and containers, as kubelet causes it

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Tell the plugins of a new pod."""
        self.tell(BY_RPC["RunPodSandbox"], pod)
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
        self.ask(BY_RPC["UpdatePodSandbox"], request)
        self.tell(BY_RPC["PostUpdatePodSandbox"], pod)

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Tell the plugins that a pod stopped."""
        self.tell(BY_RPC["StopPodSandbox"], pod)

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Tell the plugins that a pod is gone."""
        self.tell(BY_RPC["RemovePodSandbox"], pod)
        self.pods.pop(pod.id, None)

    def create_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> Created:
        """Ask the plugins to adjust a container, then tell them it was created.

        Raises:
            RequestRejected: a plugin answered with an error, two set the same field, or
                a validator rejected the result.
        """
        request = nri.CreateContainerRequest(pod=pod, container=container)
        merged = MergedAdjustment(request)
        self.ask(BY_RPC["CreateContainer"], request, merged.take)
        result = Created(merged.adjust, merged.updates.others())
        self.validate(
            nri.ValidateContainerAdjustmentRequest(
                pod=pod,
                container=container,
                adjust=result.adjust,
                update=result.updates,
                owners=merged.updates.owners,
                plugins=[
                    nri.PluginInstance(name=plugin.name, index=plugin.idx)
                    for plugin in self.plugins
                ],
            )
        )
        container.state = nri.CONTAINER_CREATED
        self.containers[container.id] = container
        self.tell(BY_RPC["PostCreateContainer"], pod, container)
        return result

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Tell the plugins before and after a container starts."""
        self.tell(BY_RPC["StartContainer"], pod, container)
        container.state = nri.CONTAINER_RUNNING
        self.tell(BY_RPC["PostStartContainer"], pod, container)

    def update_container(
        self,
        pod: nri.PodSandbox,
        container: nri.Container,
        resources: nri.LinuxResources,
    ) -> Updated:
        """Ask the plugins about new resources; return what would be applied.

        Raises:
            RequestRejected: a plugin answered with an error, or two set the same field.
        """
        request = nri.UpdateContainerRequest(
            pod=pod, container=container, linux_resources=resources
        )
        updates = MergedUpdates(request)
        self.ask(
            BY_RPC["UpdateContainer"],
            request,
            lambda answer, plugin: updates.take(answer.update, plugin),
        )
        replaced = updates.requested()
        result = Updated(resources if replaced is None else replaced, updates.others())
        self.tell(BY_RPC["PostUpdateContainer"], pod, container)
        return result

    def stop_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> list[nri.ContainerUpdate]:
        """Tell the plugins that a container stopped; return their updates of others."""
        container.state = nri.CONTAINER_STOPPED
        updates = MergedUpdates()
        self.ask(
            BY_RPC["StopContainer"],
            nri.StopContainerRequest(pod=pod, container=container),
            lambda answer, plugin: updates.take(answer.update, plugin),
        )
        return updates.others()

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Tell the plugins that a container is gone."""
        self.tell(BY_RPC["RemoveContainer"], pod, container)
        self.containers.pop(container.id, None)

    # Threads

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            self.admit(sock)  # one after the other, as the Go library does

    def _spawn(
        self, target: Callable[[socket.socket], None], sock: socket.socket
    ) -> None:
        thread = threading.Thread(
            target=target, args=(sock,), name="nri-runtime", daemon=True
        )
        self._threads.append(thread)
        thread.start()
