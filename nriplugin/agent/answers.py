"""From a decision to the answer that an NRI runtime takes.

Only `unified` keys leave, and shares of 0 where a container is to be idle: a
`memory.limit` in an adjustment would silently set the swap limit too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.engine.decision import Decision


def adjustment(decision: Decision) -> nri.CreateContainerResponse | None:
    """Return the answer to a creation; None if there is nothing to adjust."""
    files = decision.files
    if not files:
        return None
    response = nri.CreateContainerResponse()
    resources = response.adjust.linux.resources
    unified = resources.unified
    for file, value in files.items():
        unified[file] = value
    if decision.cleared:
        _clear(resources)
    return response


def whole_update(
    container_id: str, asked: nri.LinuxResources, decision: Decision
) -> nri.UpdateContainerResponse | None:
    """Return the answer to an update: all that was asked for, and our files.

    Also where there are none: a runtime that drops files must not see the shares of a
    container that is idle.
    """
    if not (decision.files or decision.cleared):
        return None
    response = nri.UpdateContainerResponse()
    update = response.update.add(container_id=container_id)
    update.linux.resources.CopyFrom(asked)
    update.linux.resources.unified.update(decision.files)
    if decision.cleared:
        _clear(update.linux.resources)
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
