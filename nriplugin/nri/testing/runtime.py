"""The runtime's side of NRI, to run and to test plugins without a runtime.

    with EmbeddedRuntime("/tmp/nri.sock") as runtime:
        ...  # start the plugin, pointed at that socket
        runtime.wait_for_plugin()
        result = runtime.create_container(pod, container)
        assert result.adjust.linux.resources.unified["cpu.weight"] == "39"

It listens or launches plugins with descriptor 3, registers, configures and
synchronizes them, and drives lifecycle events as a given NRI release does, with that
release's ways of punishing a plugin: one that is late or breaks the protocol is
dropped and the request goes on without it, one that answers with an error fails the
request, and so do two plugins that set the same field. Each plugin is shown what the
earlier ones changed. It reads as Go reads, so that frames a Go runtime would choke on
are caught.

Not modelled: how older releases merge answers (the newest one's way serves all), and
what a runtime does with an adjustment.
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

# A plugin launched by a runtime finds its socket here.
LAUNCH_FD = 3


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


class EmbeddedRuntime(RegisteredPlugins):
    """An NRI runtime without containers. Its methods are called one at a time."""

    def __init__(
        self, socket_path: str | None = None, behaviour: Behaviour | None = None
    ) -> None:
        super().__init__(behaviour or Behaviour())
        self._socket_path = socket_path
        self._listener: socket.socket | None = None
        self._threads: list[threading.Thread] = []

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
        self.drop_all("the runtime stopped")

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
        self._spawn(self.admit, ours)
        return pid

    def wait_for_plugin(
        self, count: int = 1, timeout_s: float = 10.0
    ) -> PluginConnection:
        """Wait until so many registrations were synchronized; return the last one's.

        Raises:
            TimeoutError: it did not happen; says what did.
        """
        if not self.wait_for_registrations(count, timeout_s):
            raise TimeoutError(
                f"{len(self.registrations)} of {count} registrations within "
                f"{timeout_s:g} s; dropped: {self.dropped}"
            )
        return self.plugins[-1]

    # Lifecycle, as kubelet would cause it

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
                    nri.PluginInstance(name=link.name, index=link.idx)
                    for link in self.plugins
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
            self.admit(sock)  # one after the other, as the real one

    def _spawn(
        self, target: Callable[[socket.socket], None], sock: socket.socket
    ) -> None:
        thread = threading.Thread(
            target=target, args=(sock,), name="nri-runtime", daemon=True
        )
        self._threads.append(thread)
        thread.start()
