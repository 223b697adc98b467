"""Follows the containers of a cgroup v1 node, for policies that act while they run.

Nothing is decided on such a node: the numbers that kubelet sends are right as they are.
But a policy needs to know which containers there are, and what their numbers are. The
request thread only takes notes, and answers every request with nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.readers import core_from_nri
from nriplugin.doors.nri.messages import (
    decode_pod,
    existing_entry,
    pod_entry,
    read_pod,
)
from nriplugin.engine.decide import together
from nriplugin.engine.stale import numbers_of, resources_of_numbers
from nriplugin.errors import ConversionError
from nriplugin.state.inventory import PodEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.api import view_pb2 as view
    from nriplugin.convert import Resources
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle


class FollowedContainers:
    """Keeps the inventory of a cgroup v1 node, on the request thread."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        # By container ID: the entry once the update that is under way is done.
        self._updating: dict[str, ContainerEntry] = {}

    def add_existing(
        self, pods: Iterable[view.PodSandbox], containers: Iterable[view.Container]
    ) -> None:
        """Replace the inventory by what Synchronize lists."""
        self._updating.clear()
        of_pods = {
            pod.id: pod_entry(
                pod.id, read_pod(pod, {}), pod.SerializeToString(), keep=True
            )
            for pod in pods
        }
        entries = {}
        for one in containers:
            pod = of_pods.get(one.pod_sandbox_id) or PodEntry(id=one.pod_sandbox_id)
            entries[one.id] = _entry(one, pod)
        self._lifecycle.inventory.replace(of_pods, entries)

    def add_new(self, request: view.CreateContainerRequest) -> None:
        """Add a container that is being created."""
        message, inventory = request.container, self._lifecycle.inventory
        pod = inventory.pod(message.pod_sandbox_id)
        if pod is None:
            read = read_pod(decode_pod(request.pod), {})
            pod = pod_entry(message.pod_sandbox_id, read, request.pod, keep=True)
            inventory.put_pod(pod)
        inventory.put(_entry(message, pod)._replace(started=False))

    def begin_update(self, request: view.UpdateContainerRequest) -> None:
        """Take note of the numbers that a container is to get.

        On cgroup v1 no quota of a pod may be below that of a container in it. So what
        policies have raised in the pod goes back, before kubelet lowers the pod.
        """
        lifecycle = self._lifecycle
        entry = lifecycle.inventory.get(request.container.id)
        if entry is None:
            return
        lifecycle.policies.give_back(lifecycle.scheduler, entry.pod_cgroup)
        try:
            asked = core_from_nri(request.linux_resources)
        except ConversionError:
            return  # the runtime refuses it
        old = resources_of_numbers(entry.numbers) if entry.numbers else None
        numbers = numbers_of(asked if old is None else together(old, asked))
        self._updating[entry.id] = entry._replace(numbers=numbers)

    def end_update(self, container_id: str) -> None:
        """Put the numbers into the inventory, because the runtime has set them."""
        entry = self._updating.pop(container_id, None)
        if entry is not None and self._lifecycle.inventory.get(container_id):
            self._lifecycle.inventory.put(entry)

    def drop(self, container_id: str) -> None:
        """Forget an update of a container that has ended."""
        self._updating.pop(container_id, None)


def _entry(message: view.Container, pod: PodEntry) -> ContainerEntry:
    return existing_entry(message, pod)._replace(numbers=_numbers(message))


def _numbers(message: view.Container) -> str:
    try:
        given: Resources = core_from_nri(message.linux.resources)
    except ConversionError:
        return ""
    return numbers_of(given)
