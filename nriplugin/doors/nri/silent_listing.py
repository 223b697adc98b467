"""Keeps the inventory while another process of nriplugin makes all decisions.

A process that the runtime has launched gets the list of all containers only once, when
it registers. If it is silent at that time (daemon/serving.py), it needs the list all
the same: when the silence ends, it answers for these containers. Nothing is decided or
corrected here, and the other process's records are left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.doors.nri.existing import entry_from
from nriplugin.doors.nri.messages import (
    decode_pod,
    existing_entry,
    managed_of,
    pod_entry,
    read_pod,
)
from nriplugin.engine.model import Pod
from nriplugin.state.inventory import PodEntry, summarise_pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.api import view_pb2 as view
    from nriplugin.state.lifecycle import Lifecycle


def list_existing(
    lifecycle: Lifecycle,
    pods: Iterable[view.PodSandbox],
    containers: Iterable[view.Container],
) -> None:
    """Replace the inventory by what Synchronize lists."""
    curves = lifecycle.plan.curves
    by_id = {pod.id: read_pod(pod, curves) for pod in pods}
    entries = {i: summarise_pod(i, pod) for i, pod in by_id.items()}
    found = {}
    for message in containers:
        sandbox_id = message.pod_sandbox_id
        of_pod = entries.get(sandbox_id) or PodEntry(id=sandbox_id)
        record = managed_of(message, by_id.get(sandbox_id, _NO_POD))
        entry = existing_entry(message, of_pod)
        found[message.id] = entry_from(record, entry, {})
    lifecycle.inventory.replace(entries, found)


def list_new(lifecycle: Lifecycle, request: view.CreateContainerRequest) -> None:
    """Add a container that is being created; the other process decides about it."""
    message = request.container
    sandbox_id = message.pod_sandbox_id
    of_pod = lifecycle.inventory.pod(sandbox_id)
    if of_pod is None:
        pod = read_pod(decode_pod(request.pod), lifecycle.plan.curves)
        of_pod = pod_entry(sandbox_id, pod, request.pod)
        lifecycle.inventory.put_pod(of_pod)
    lifecycle.inventory.put(existing_entry(message, of_pod)._replace(started=False))


_NO_POD = Pod()
