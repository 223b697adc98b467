"""From a decision to the answer that an NRI runtime takes.

Only `unified` keys of ours leave, and shares of 0 where a container is to be idle: a
`memory.limit` in an adjustment would silently set the swap limit too, and whatever an
answer to an update repeats of the request counts as set by us, so that another plugin
that sets it fails the update. With a new container goes the record of what we set.
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
    """Return the answer to a creation; None if there is nothing to adjust.

    `managed` is what the record of the container is to say.
    """
    files = decision.files
    # A node that sends only what differs keeps its specifications free of us.
    spare = decision.settings.resources.send is Send.DIFFERENT
    if not managed.files and (spare or not managed.others):
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
    """Return the answer to an update: our files, and nothing of the request.

    The runtime lays it over kubelet's request. Whatever the answer repeats of the
    request counts as set by us: another plugin that sets it fails the update, and huge
    pages are there twice. None if there is nothing to say, because an entry without
    resources wipes the request.

    Where a runtime drops files, shares of 0 alone are said: it must not write those of
    a container that is idle.
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
    """Return an update of a container that nobody asked about.

    It may be gone by now, which is no reason to fail anything.
    """
    update = nri.ContainerUpdate(container_id=container_id, ignore_failure=True)
    update.linux.resources.unified.update(files)
    return update


def _clear(resources: nri.LinuxResources) -> None:
    """Send shares of 0, which runtimes read as "not given"."""
    resources.cpu.shares.SetInParent()
    resources.cpu.shares.value = 0
