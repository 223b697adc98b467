"""Builds the NRI responses and updates that carry a decision to the runtime.

A response contains only these things: the `unified` keys that nriplugin sets, shares of
0 for a container that becomes idle, and, for a new container, the annotation with the
record of nriplugin's values.

No other resource field may be set. A `memory.limit` in an adjustment would silently set
the swap limit, too. And every field that a response to an update repeats from the
request counts as set by nriplugin: the update fails if another plugin sets that field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.engine.handlers.resources import Send
from nriplugin.kube.managed import KEY as MANAGED_KEY
from nriplugin.kube.managed import render_managed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.engine.decision import Decision
    from nriplugin.kube.managed import Managed


def adjustment(
    decision: Decision, managed: Managed
) -> nri.CreateContainerResponse | None:
    """Return the response to a creation; None if there is nothing to adjust.

    `managed` is the record of the container, which the response adds as an annotation.
    """
    files = decision.files
    # With `resources.send: different` a container without values from nriplugin gets no
    # annotation either, so that its OCI spec stays as it would be without nriplugin.
    only_different = decision.settings.resources.send is Send.DIFFERENT
    if not managed.files and (only_different or not managed.others):
        return None
    response = nri.CreateContainerResponse()
    response.adjust.annotations[MANAGED_KEY] = render_managed(*managed)
    if not files:
        return response
    resources = response.adjust.linux.resources
    unified = resources.unified
    for file, value in files.items():
        unified[file] = value
    if decision.cleared:
        _clear(resources)
    return response


def update_response(
    container_id: str, decision: Decision
) -> nri.UpdateContainerResponse | None:
    """Return the response to an update: nriplugin's files, and nothing of the request.

    The runtime merges the response into kubelet's request. A field that the response
    repeats from the request counts as set by nriplugin: the update fails if another
    plugin sets the same field, and huge page limits appear twice.

    None if there is nothing to set, because an update without resources makes the
    runtime drop kubelet's request. For a runtime that drops `unified` from updates the
    decision has no files, but the response may still have shares of 0, which keep the
    runtime from writing a weight to an idle container.
    """
    if not (decision.files or decision.cleared):
        return None
    response = nri.UpdateContainerResponse()
    resources = response.update.add(container_id=container_id).linux.resources
    resources.unified.update(decision.files)
    if decision.cleared:
        _clear(resources)
    return response


def files_update(container_id: str, files: Mapping[str, str]) -> nri.ContainerUpdate:
    """Return an update of a container that the runtime's request is not about.

    `ignore_failure` is set because the container may have ended meanwhile, and that
    must not fail the other updates in the same message.
    """
    update = nri.ContainerUpdate(container_id=container_id, ignore_failure=True)
    update.linux.resources.unified.update(files)
    return update


def _clear(resources: nri.LinuxResources) -> None:
    """Set shares of 0, which runtimes read as "no shares given"."""
    resources.cpu.shares.SetInParent()
    resources.cpu.shares.value = 0
