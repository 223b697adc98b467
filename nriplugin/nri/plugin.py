"""What a plugin author subclasses.

Define the handlers you need and hand an instance to `nriplugin.nri.run`. The
subscription follows from what you define. All handlers run on one thread, one at a
time, and the whole node's container starts wait while one runs: compute, answer,
return. Everything slow belongs on a thread of yours, which may call `enqueue_update`.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from nriplugin.nri.methods import METHODS
from nriplugin.policy import FailurePolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from google.protobuf.message import Message

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.errors import NRIPluginError
    from nriplugin.nri.methods import Method

    UpdateDone = Callable[[NRIPluginError | None], None]
    UpdateSender = Callable[[Sequence[nri.ContainerUpdate], UpdateDone | None], None]


class Plugin:
    """An NRI plugin; every method below is yours to override."""

    failure_policy: FailurePolicy = FailurePolicy.IGNORE

    # Handler -> message to parse its request with, in place of the full one: same field
    # numbers, fewer fields. The parser skips what the message does not declare.
    views: Mapping[str, type[Message]] = MappingProxyType({})

    _send_updates: UpdateSender | None = None

    # Once per connection

    def configure(self, request: nri.ConfigureRequest) -> None:
        """Learn who the runtime is. An exception refuses to work with it."""

    def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Iterable[nri.ContainerUpdate] | None:
        """Learn everything that exists; return updates to existing containers."""

    def disconnected(self, reason: str) -> None:
        """Learn that the connection ended. State comes anew with the next one."""

    # Questions: return the answer, or None for an empty one

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        """Adjust a container before the runtime creates it."""

    def update_container(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Change what kubelet asks for. The runtime lays the answer over the request:
        put only your own values into it, because whatever it holds counts as set by
        you, and another plugin that sets the same fails the update.
        """

    def stop_container(
        self, request: nri.StopContainerRequest
    ) -> nri.StopContainerResponse | None:
        """Update others, now that this one has stopped."""

    def update_pod_sandbox(
        self, request: nri.UpdatePodSandboxRequest
    ) -> nri.UpdatePodSandboxResponse | None:
        """See a pod's new resources before they are applied (NRI 0.10)."""

    def validate_container_adjustment(
        self, request: nri.ValidateContainerAdjustmentRequest
    ) -> nri.ValidateContainerAdjustmentResponse | None:
        """Reject what all plugins together made of a container (NRI 0.10)."""

    # When there is no answer to an update

    def fallback_update(
        self,
        request: Any,  # noqa: ANN401 - a view of yours, or the full message
    ) -> nri.UpdateContainerResponse | None:
        """Answer an update whose handler failed or is late; None for an empty answer.

        An empty answer is not harmless for a container that carries `unified` values
        of yours: the runtime writes them again, over kubelet's new numbers. Must be
        quick. It may run beside the late handler, on another thread.

        Raises:
            RequestFails: the update is to fail; kubelet tries again.
        """

    # Events

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Handle: the pod's sandbox runs."""

    def post_update_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Handle: the pod's resources were updated (NRI 0.10)."""

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Handle: the pod's sandbox was stopped."""

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Handle: the pod is gone."""

    def post_create_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        """Handle: the container was created."""

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Handle: the container is about to start; its cgroup exists."""

    def post_start_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        """Handle: the container started."""

    def post_update_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        """Handle: the container was updated."""

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Handle: the container is gone."""

    # For any thread of yours

    def enqueue_update(
        self, *updates: nri.ContainerUpdate, done: UpdateDone | None = None
    ) -> bool:
        """Queue one unsolicited update call; never waits for its outcome.

        It leaves when no request is being answered, because the runtime would
        otherwise wait for us while we wait for it. `done` is told the outcome on the
        request thread: None, or the error. Returns False, and does nothing, while
        there is no synchronized connection: the next Synchronize brings all state.

        Runtimes with NRI older than 0.12.1 can deadlock when such a call meets a
        request of theirs; where you can, return updates from a handler instead.

        Raises:
            ValueError: an update has no `linux.resources`: runtimes crash on it.
            LocalProtocolError: the updates do not fit one message of 4 MiB.
        """
        for update in updates:
            if not has_resources(update):
                raise ValueError(
                    f"update of container {update.container_id!r}: linux.resources is "
                    "not set, expected at least one value"
                )
        send = self._send_updates
        if send is None:
            return False
        send(updates, done)
        return True

    def attach(self, send_updates: UpdateSender | None) -> None:
        """For the session: say where updates go while there is a connection."""
        self._send_updates = send_updates


def has_resources(update: nri.ContainerUpdate) -> bool:
    """Whether an update says anything; runtimes do not survive one that does not."""
    return update.HasField("linux") and update.linux.HasField("resources")


def handles(plugin: Plugin, method: Method) -> bool:
    """Whether the plugin's class defines the handler of a method."""
    return getattr(type(plugin), method.handler) is not getattr(Plugin, method.handler)


def subscription(plugin: Plugin) -> int:
    """Return the mask of the events that the plugin has handlers for."""
    return sum(method.mask for method in METHODS if handles(plugin, method))
