"""The class that a plugin author subclasses.

Define the handlers that you need (methods named after RPCs) and pass an instance to
`nriplugin.nri.run`. The plugin is subscribed to the events whose handlers it defines;
a plugin that defines `other_event` is subscribed to all events.

Rules for handlers:
- All handlers run on one thread, one at a time. Every container start on the node
  waits while a handler runs, so it computes, returns its answer, and does not block.
- Slow work belongs on a thread of your own. Such a thread may call `enqueue_update`.
- A handler never waits for the runtime: the runtime is waiting for the handler.
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
    """An NRI plugin. Override its handlers.

    Not to be overridden: `stop`, `enqueue_update`, and the methods that begin with
    `attach`.
    """

    failure_policy: FailurePolicy = FailurePolicy.IGNORE

    # By the name of a handler: the message class to parse its request with, in place of
    # NRI's own. It has the same field numbers and declares fewer fields; the parser
    # skips fields that are not declared, which saves most of the time of parsing.
    views: Mapping[str, type[Message]] = MappingProxyType({})

    # With two underscores, because "_stop" would be a likely name in a subclass.
    __send_updates: UpdateSender | None = None
    __stop_runner: Callable[[], None] | None = None
    __stop_requested = False

    # Once per connection

    def configure(self, request: nri.ConfigureRequest) -> None:
        """Learn which runtime this is.

        An exception ends the connection; a ConfigError also ends the plugin.
        """

    def synchronize(
        self, pods: Sequence[nri.PodSandbox], containers: Sequence[nri.Container]
    ) -> Iterable[nri.ContainerUpdate] | None:
        """Learn all pods and containers; return updates of existing containers."""

    def disconnected(self, reason: str) -> None:
        """Learn that the connection ended. The next one begins with `synchronize`."""

    # Questions: return the answer, or None for an empty answer

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        """Adjust a container before the runtime creates it."""

    def update_container(
        self, request: nri.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Change the resources that kubelet asks for.

        The runtime lays the answer over the request. Put only values of your own into
        the answer: every field in it counts as set by this plugin, and if another
        plugin sets the same field, the update fails.
        """

    def stop_container(
        self, request: nri.StopContainerRequest
    ) -> nri.StopContainerResponse | None:
        """Update other containers after this one has stopped."""

    def update_pod_sandbox(
        self, request: nri.UpdatePodSandboxRequest
    ) -> nri.UpdatePodSandboxResponse | None:
        """See a pod's new resources before they are applied (NRI 0.10)."""

    def validate_container_adjustment(
        self, request: nri.ValidateContainerAdjustmentRequest
    ) -> nri.ValidateContainerAdjustmentResponse | None:
        """Accept or reject the merged answers of all plugins (NRI 0.10)."""

    # In place of `update_container`

    def fallback_update(
        self,
        request: Any,  # noqa: ANN401 - a view of yours, or the full message
    ) -> nri.UpdateContainerResponse | None:
        """Answer an update whose handler failed or is late; None for an empty answer.

        An empty answer does harm to a container with `unified` values that this plugin
        set: the runtime writes those old values after kubelet's new numbers. This
        method must be quick. It may run on another thread while the late
        `update_container` still runs.

        Raises:
            RequestFails: the update shall fail; kubelet tries again.
        """

    # Events

    def run_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Learn that the pod's sandbox runs."""

    def post_update_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Learn that the pod's resources were updated (NRI 0.10)."""

    def stop_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Learn that the pod's sandbox was stopped."""

    def remove_pod_sandbox(self, pod: nri.PodSandbox) -> None:
        """Learn that the pod was removed."""

    def post_create_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        """Learn that the container was created."""

    def start_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Learn that the container is about to start; its cgroup exists."""

    def post_start_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        """Learn that the container started."""

    def post_update_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        """Learn that the container was updated."""

    def remove_container(self, pod: nri.PodSandbox, container: nri.Container) -> None:
        """Learn that the container was removed."""

    def other_event(
        self, event: str, pod: nri.PodSandbox, container: nri.Container | None
    ) -> None:
        """Learn of an event that the plugin has no handler for.

        `event` is the name of that handler, such as "start_container" or
        "create_container"; `container` is None if the event is about a pod. A plugin
        that defines this method is subscribed to all events except
        `validate_container_adjustment`: a runtime fails the creation of a container if
        a plugin that is subscribed to that event does not answer.
        """

    # For any thread of the plugin

    def stop(self) -> None:
        """End `run` after the request under way, which is still answered.

        Any thread, any handler and any signal handler may call it. If it is called
        before `run`, then `run` returns at once.
        """
        self.__stop_requested = True
        stop_runner = self.__stop_runner
        if stop_runner is not None:
            stop_runner()

    def enqueue_update(
        self, *updates: nri.ContainerUpdate, done: UpdateDone | None = None
    ) -> bool:
        """Queue one call that updates containers, without waiting for its outcome.

        The call is sent when no request is being answered: the runtime holds a lock
        over its request and would answer the call only after the request. `done` gets
        the outcome, None or the error, on the request thread. Returns False and does
        nothing while there is no synchronized connection; the next one begins with
        `synchronize`, which may return updates.

        A runtime with NRI older than 0.12.1 can deadlock when such a call and a request
        cross on their way. Where possible, return updates from a handler instead.

        Raises:
            ValueError: an update has no `linux.resources`; runtimes crash on it.
            LocalProtocolError: the updates do not fit one message of 4 MiB.
        """
        for update in updates:
            if not has_resources(update):
                raise ValueError(
                    f"update of container {update.container_id!r}: linux.resources is "
                    "not set, expected at least one value"
                )
        send = self.__send_updates
        if send is None:
            return False
        send(updates, done)
        return True

    def attach(self, send_updates: UpdateSender | None) -> None:
        """Connect `enqueue_update` to a session, or with None to no session.

        Only the session calls it.
        """
        self.__send_updates = send_updates

    def attach_runner(self, stop_runner: Callable[[], None] | None) -> None:
        """Connect `stop` to a runner, or with None to no runner.

        Only the runner calls it.
        """
        self.__stop_runner = stop_runner
        if stop_runner is None:
            self.__stop_requested = False
        elif self.__stop_requested:
            stop_runner()


def has_resources(update: nri.ContainerUpdate) -> bool:
    """Whether an update has `linux.resources`, without which it does harm."""
    return update.HasField("linux") and update.linux.HasField("resources")


def handles(plugin: Plugin, method: Method) -> bool:
    """Whether the plugin's class overrides the handler of a method."""
    return getattr(type(plugin), method.handler) is not getattr(Plugin, method.handler)


def observes(plugin: Plugin, method: Method) -> bool:
    """Whether the plugin's `other_event` is called for a method."""
    defined = type(plugin).other_event is not Plugin.other_event
    return defined and method.observable and not handles(plugin, method)


def subscription(plugin: Plugin) -> int:
    """Return the mask of the events that the plugin has handlers for."""
    return sum(
        method.mask
        for method in METHODS
        if handles(plugin, method) or observes(plugin, method)
    )
