"""What the plugins of an embedded runtime together make of one request.

Each answer is taken as it comes, in the order of the plugins, so that the request which
the next plugin gets shows what the earlier ones changed.

Reference: pkg/adaptation/result.go of the Go library, 0.12.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri.testing.errors import RequestRejected
from nriplugin.nri.testing.field_ownership import FieldOwnership
from nriplugin.nri.testing.fields import ADJUSTED, UPDATED, Overlay, lay_over

if TYPE_CHECKING:
    from collections.abc import Iterable


class MergedUpdates:
    """The updates of containers that answers ask for, merged container by container.

    `request` is the update that kubelet asked for, if that is what the plugins are
    asked about: what they answer for its container is laid over it. `creating` is the
    container that is being created, which answers can adjust but not update.
    """

    def __init__(
        self,
        request: nri.UpdateContainerRequest | None = None,
        creating: str | None = None,
    ) -> None:
        self.owners = nri.OwningPlugins()
        self._request = request
        self._creating = creating
        self._merged: dict[str, nri.ContainerUpdate] = {}

    def take(self, updates: Iterable[nri.ContainerUpdate], plugin: str) -> None:
        """Merge the updates of one plugin's answer.

        Raises:
            RequestRejected: one sets what is set already, and does not allow failure, or
                is about the container that is being created.
        """
        for update in updates:
            merged = self._merged_update(update.container_id, plugin)
            merged.ignore_failure &= update.ignore_failure
            try:
                self._lay_over(merged, update, plugin)
            except RequestRejected:
                if not update.ignore_failure:
                    raise

    def requested(self) -> nri.LinuxResources | None:
        """Return what replaces kubelet's request; None if no plugin answered to it."""
        if self._request is None or self._request.container.id not in self._merged:
            return None
        return self._merged[self._request.container.id].linux.resources

    def others(self) -> list[nri.ContainerUpdate]:
        """Return the updates of containers that the request is not about."""
        own_id = None if self._request is None else self._request.container.id
        return [update for id_, update in self._merged.items() if id_ != own_id]

    def _merged_update(self, container_id: str, plugin: str) -> nri.ContainerUpdate:
        if container_id == self._creating:
            raise RequestRejected(
                f"plugin {plugin} asked to update {container_id} in creation"
            )
        merged = self._merged.get(container_id)
        if merged is None:
            merged = nri.ContainerUpdate(container_id=container_id, ignore_failure=True)
            # Present even if the plugin gives none, which wipes the request.
            merged.linux.resources.SetInParent()
            self._merged[container_id] = merged
        return merged

    def _lay_over(
        self, merged: nri.ContainerUpdate, update: nri.ContainerUpdate, plugin: str
    ) -> None:
        if not (update.HasField("linux") and update.linux.HasField("resources")):
            return
        request = self._request
        if request is not None and request.container.id == update.container_id:
            base = request.linux_resources
        else:
            request, base = None, merged.linux.resources
        ownership = FieldOwnership(self.owners.owners[update.container_id], plugin)
        # A copy, so that a failure that the plugin allows changes nothing.
        copy = nri.ContainerUpdate()
        copy.linux.resources.CopyFrom(base)
        lay_over(Overlay(update, copy, None, ownership), UPDATED)
        if base.HasField("pids"):
            # The library looks for a limit in its copy and not in the answer, so that
            # the request's own limit is claimed, and the answer's has no effect.
            ownership.claim(nri.PidsLimit)
        merged.linux.resources.CopyFrom(copy.linux.resources)
        if request is not None:
            request.linux_resources.CopyFrom(copy.linux.resources)


class MergedAdjustment:
    """The adjustments of a container that is being created, merged field by field.

    The request's container gets them too, for the plugins that are yet to be asked.
    """

    def __init__(self, request: nri.CreateContainerRequest) -> None:
        self.adjust = nri.ContainerAdjustment()
        self.updates = MergedUpdates(creating=request.container.id)
        self._container = request.container

    def take(self, answer: nri.CreateContainerResponse, plugin: str) -> None:
        """Merge one plugin's answer.

        Raises:
            RequestRejected: it sets what is set already, or updates this container.
        """
        container = self._container
        ownership = FieldOwnership(self.updates.owners.owners[container.id], plugin)
        lay_over(Overlay(answer.adjust, self.adjust, container, ownership), ADJUSTED)
        self.updates.take(answer.update, plugin)
