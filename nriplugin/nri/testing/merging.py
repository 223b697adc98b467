"""Merges the answers of several plugins to one request.

Answers are merged one by one in the order of the plugins. Each is also applied to the
request, so that the next plugin is shown what the earlier ones changed.

The rules are those of NRI 0.12.5, whatever release the runtime imitates.
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
    """The updates of containers in the answers to one request, merged by container.

    `request` is given if the plugins are asked about an update that kubelet wants:
    answers for its container are laid over it. `creating` is given if a container is
    being created: an answer may adjust that container but not update it.
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
            RequestRejected: an update sets a field that has an owner, without
                `ignore_failure`; or it is for the container that is being created.
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
        """Return the merged form of kubelet's request; None if no answer was for it."""
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
            # The resources are present even if the plugin's update has none. That is
            # how such an update replaces kubelet's request by nothing.
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
        # Merged into a copy, so that an update with `ignore_failure` that meets a
        # conflict changes nothing.
        copy = nri.ContainerUpdate()
        copy.linux.resources.CopyFrom(base)
        lay_over(Overlay(update, copy, None, ownership), UPDATED)
        if base.HasField("pids"):
            # A quirk of the Go library: it looks for a limit in its copy of the request
            # and not in the answer. So the plugin becomes the owner of the request's
            # limit, and a limit in the answer has no effect.
            ownership.set_owner(nri.PidsLimit)
        merged.linux.resources.CopyFrom(copy.linux.resources)
        if request is not None:
            request.linux_resources.CopyFrom(copy.linux.resources)


class MergedAdjustment:
    """The adjustment of a container that is being created, merged by field.

    It is applied to the request's container, too, for the plugins that are asked later.
    """

    def __init__(self, request: nri.CreateContainerRequest) -> None:
        self.adjust = nri.ContainerAdjustment()
        self.updates = MergedUpdates(creating=request.container.id)
        self._container = request.container

    def take(self, answer: nri.CreateContainerResponse, plugin: str) -> None:
        """Merge one plugin's answer.

        Raises:
            RequestRejected: the answer sets a field that has an owner, or updates the
                container that is being created.
        """
        container = self._container
        ownership = FieldOwnership(self.updates.owners.owners[container.id], plugin)
        lay_over(Overlay(answer.adjust, self.adjust, container, ownership), ADJUSTED)
        self.updates.take(answer.update, plugin)
