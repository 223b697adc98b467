"""Keeps the inventory while another process of nriplugin makes all decisions.

A process that the runtime has launched gets the list of all containers only once, when
it registers. If it is silent at that time (daemon/serving.py), it needs the list all
the same: when the silence ends, it answers for these containers. Nothing is decided or
corrected meanwhile, and the other process's records are left alone.

A resize between the end of the other process and the end of the silence is answered by
nobody, so the runtime writes nriplugin's old values over kubelet's new numbers. The
messages are therefore kept until the silence has ended. By then the other process's
records say which numbers it has seen: where they are others, the values are stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.doors.nri.existing import (
    ExistingContainer,
    Findings,
    entry_from,
    may_be_stale,
)
from nriplugin.doors.nri.messages import (
    decode_pod,
    existing_entry,
    managed_of,
    pod_entry,
    read_pod,
)
from nriplugin.engine.decision import HandlerFailed
from nriplugin.engine.model import Pod
from nriplugin.errors import ConversionError
from nriplugin.state.inventory import PodEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.api import view_pb2 as view
    from nriplugin.state.corrections import Correction
    from nriplugin.state.lifecycle import Lifecycle

# How many messages about ended containers may be kept before they are dropped.
_MAX_ENDED = 256


class SilentListing:
    """The containers that the runtime names while this process is silent.

    The request thread adds to it; the background thread takes all of it at the end.
    """

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        # By container ID: its pod, and the newest message about it.
        self._seen: dict[str, tuple[Pod, view.Container]] = {}

    def add_existing(
        self, pods: Iterable[view.PodSandbox], containers: Iterable[view.Container]
    ) -> None:
        """Replace the inventory by what Synchronize lists."""
        lifecycle = self._lifecycle
        messages = {pod.id: pod for pod in pods}
        curves = lifecycle.plan.curves
        by_id = {i: read_pod(pod, curves) for i, pod in messages.items()}
        entries = {
            i: pod_entry(i, by_id[i], message.SerializeToString())
            for i, message in messages.items()
        }
        found, seen = {}, {}
        for message in containers:
            sandbox_id = message.pod_sandbox_id
            pod = by_id.get(sandbox_id, _NO_POD)
            of_pod = entries.get(sandbox_id) or PodEntry(id=sandbox_id)
            entry = existing_entry(message, of_pod)
            found[message.id] = entry_from(managed_of(message, pod), entry, {})
            seen[message.id] = pod, message
        lifecycle.inventory.replace(entries, found)
        self._seen = seen

    def add_new(self, request: view.CreateContainerRequest) -> None:
        """Add a container that is being created; the other process decides about it."""
        message, inventory = request.container, self._lifecycle.inventory
        sandbox_id = message.pod_sandbox_id
        of_pod = inventory.pod(sandbox_id)
        if of_pod is None:
            pod = read_pod(decode_pod(request.pod), self._lifecycle.plan.curves)
            of_pod = pod_entry(sandbox_id, pod, request.pod)
            inventory.put_pod(of_pod)
        inventory.put(existing_entry(message, of_pod)._replace(started=False))

    def note_update(self, request: view.UpdateContainerRequest) -> None:
        """Keep the numbers that a container has after an update."""
        message = request.container
        asked = request.linux_resources.SerializeToString()
        message.linux.resources.MergeFromString(asked)
        pod = read_pod(decode_pod(request.pod), self._lifecycle.plan.curves)
        self._seen[message.id] = pod, message
        inventory = self._lifecycle.inventory
        if len(self._seen) > len(inventory) + _MAX_ENDED:
            known = inventory.snapshot()
            self._seen = {i: one for i, one in self._seen.items() if i in known}

    def take_stale(self) -> list[Correction]:
        """Forget the messages; return the corrections of values that are stale.

        To be called after the silence, when the other process's records were read. The
        inventory has the entries that the corrections are made from.
        """
        seen, self._seen = self._seen, {}
        found: list[Correction] = []
        for pod, message in seen.values():
            found += self._stale(pod, message)
        return found

    def _stale(self, pod: Pod, message: view.Container) -> list[Correction]:
        lifecycle = self._lifecycle
        entry = lifecycle.inventory.get(message.id)
        if entry is None or entry.owned:
            return []  # it has ended, or an update has been decided about since
        record = lifecycle.ownership.records.get(message.id)
        try:
            if not may_be_stale(message, record or managed_of(message, pod)):
                return []
            looked = Findings({}, [], [], set())
            ExistingContainer(lifecycle, message, pod, entry).add(
                looked, complete=False, adopts=False
            )
        except (ConversionError, HandlerFailed):
            return []  # the container runs, so its values stay as they are
        if looked.stale and lifecycle.inventory.change(entry, looked.stale[0].was):
            return looked.stale
        return []


_NO_POD = Pod()
