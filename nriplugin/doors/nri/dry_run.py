"""The plugin for whoever asks what it would answer: it decides, and does nothing.

A question must not have the answer's effects: no cgroup is written, no container is
remembered, and the runtime's own connection is none of the asker's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.doors.nri.plugin import NodePlugin

if TYPE_CHECKING:
    from nriplugin.api import view_pb2 as view
    from nriplugin.doors.nri.adoption import Ownership
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Pod
    from nriplugin.state.decision_cache import CachedAnswer
    from nriplugin.state.inventory import Known
    from nriplugin.state.plan import Plan


class AskedPlugin(NodePlugin):
    """Answers as another plugin would at this moment."""

    def __init__(self, live: NodePlugin) -> None:
        """Follow what the live plugin follows, now and after each reload."""
        self._live = live
        super().__init__(live.plan.facts)
        self.inventory = live.inventory  # which is only looked at

    @property
    def _plan(self) -> Plan:
        return self._live.plan

    @_plan.setter
    def _plan(self, plan: Plan) -> None:
        """Ignore it: the plan is the live plugin's."""

    @property
    def _ownership(self) -> Ownership:
        return self._live._ownership

    @_ownership.setter
    def _ownership(self, ownership: Ownership) -> None:
        """Ignore it: only the live plugin finds out which values are ours."""

    @property
    def _remembers(self) -> bool:
        return False

    def _write_new(
        self, request: view.CreateContainerRequest, answer: CachedAnswer
    ) -> None:
        """Write nothing."""

    def _updating(
        self,
        pod: Pod,
        request: view.UpdateContainerRequest,
        known: Known,
        become: Known,
        decision: Decision,
    ) -> None:
        """Take note of nothing."""
