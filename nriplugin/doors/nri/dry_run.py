"""The NRI plugin for dry runs: it answers as the live plugin would, without effects.

The control API serves it. It reads the live plugin's plan and inventory, and changes
neither: no cgroup is written, no container and no decision is remembered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.readers import core_from_nri
from nriplugin.doors.nri.messages import decode_pod, read_container, read_pod
from nriplugin.doors.nri.plugin import NodePlugin, existing
from nriplugin.doors.nri.responses import adjustment, update_response
from nriplugin.engine.decide import decide_update
from nriplugin.engine.shadow import to_enforce_at_update
from nriplugin.nri import Plugin
from nriplugin.state.creation_decision import decide_creation

if TYPE_CHECKING:
    from nriplugin.api import nri_pb2 as nri
    from nriplugin.api import view_pb2 as view
    from nriplugin.state.lifecycle import Lifecycle


class DryRunPlugin(Plugin):
    """Answers creations and updates as the live plugin would at this moment."""

    views = NodePlugin.views

    def __init__(self, lifecycle: Lifecycle) -> None:
        """Decide by the plan and the inventory of the live plugin's life-cycle."""
        self._lifecycle = lifecycle

    def create_container(  # type: ignore[override] # the view declared above
        self, request: view.CreateContainerRequest
    ) -> nri.CreateContainerResponse | None:
        """Answer with the cgroup v2 files that the container would get."""
        plan = self._lifecycle.plan
        if plan.inactive:
            return None
        pod = read_pod(decode_pod(request.pod), plan.curves)
        container = read_container(request.container)
        response: nri.CreateContainerResponse | None = decide_creation(
            plan, pod, container, adjustment
        ).response
        return response

    def update_container(  # type: ignore[override] # the view declared above
        self, request: view.UpdateContainerRequest
    ) -> nri.UpdateContainerResponse | None:
        """Answer with the cgroup v2 files that the update would get."""
        plan = self._lifecycle.plan
        pod = read_pod(decode_pod(request.pod), plan.curves)
        entry, container = existing(self._lifecycle, request, pod, plan)
        if plan.inactive and not entry.ours:
            return None
        asked = core_from_nri(request.linux_resources)
        use = self._lifecycle.use_of(entry.cgroup, asked)
        given = (pod, container, asked, plan.facts, plan.config, use)
        decision = to_enforce_at_update(decide_update(*given), *given)
        return update_response(request.container.id, decision)
