"""What the runtime has, asked of it at the start and whenever it was away.

Its own way of making weights shows in containers that it made before us.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from nriplugin.api.cri_pb2 import CONTAINER_CREATED
from nriplugin.doors.cri.messages import pod_of_status, told_of
from nriplugin.engine.curve import curves_of_pods, recognise_or_continue
from nriplugin.errors import RPCError
from nriplugin.node.observe import observe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nriplugin.api import cri_pb2
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.convert import Curve
    from nriplugin.doors.cri.client import RuntimeClient
    from nriplugin.doors.cri.inventory import Inventory, Known
    from nriplugin.engine.curve import Observation
    from nriplugin.engine.model import Pod
    from nriplugin.kube.managed import Managed

_log = logging.getLogger(__name__)

# The runtime's word for something that was there a moment ago.
_NOT_FOUND = 5


class Learner:
    """Fills an inventory, and completes the facts about a node."""

    def __init__(
        self,
        client: RuntimeClient,
        inventory: Inventory,
        tree: Tree | None,
        apply: Callable[[Mapping[str, Any], Mapping[str, Curve]], None],
        recorded: Callable[[], Mapping[str, Managed]] = dict,
    ) -> None:
        """Ask through a client.

        Args:
            client: who is asked.
            inventory: takes the pods and containers.
            tree: the node's cgroups, to look at the weights of containers.
            apply: gets facts about the node, by name, and curves of pods, by UID,
                whenever they are known.
            recorded: returns what updates have set, by container.
        """
        self._recorded = recorded
        self._client = client
        self._inventory = inventory
        self._tree = tree
        self._apply = apply
        self._curve_certain = False

    def learn(self) -> None:
        """Ask for everything.

        Raises:
            RPCError, TimeoutError: the runtime does not answer, or not well.
        """
        version = self._client.version()
        before = self._inventory.snapshot()
        pods: dict[str, Pod] = {}
        for sandbox_id in self._client.ready_pods():
            if (pod := self.pod(sandbox_id)) is not None:
                pods[sandbox_id] = pod
        containers: dict[str, Known] = {}
        observations: list[Observation] = []
        recorded = self._recorded()
        for one in self._client.live_containers():
            found = self._look(one, recorded)
            if found is not None:
                containers[one.id], observation = found
                observations += [observation] if observation else []
        self._inventory.renew(before, pods, containers)
        self._complete(version.runtime_name, version.runtime_version, observations)

    def pod(self, sandbox_id: str) -> Pod | None:
        """Ask for one pod; None if it is gone."""
        try:
            return pod_of_status(self._client.pod_status(sandbox_id))
        except RPCError as exc:
            if exc.code == _NOT_FOUND:
                return None
            raise

    def container(self, container_id: str) -> Known | None:
        """Ask for one container, of which nothing is known; None if there is none."""
        for one in self._client.live_containers():
            if one.id == container_id:
                found = self._look(one, self._recorded())
                return None if found is None else found[0]
        return None

    def _look(
        self, one: cri_pb2.Container, recorded: Mapping[str, Managed]
    ) -> tuple[Known, Observation | None] | None:
        try:
            response = self._client.container_status(one.id)
        except RPCError as exc:
            if exc.code == _NOT_FOUND:
                return None
            raise
        known, cgroup = told_of(one.pod_sandbox_id, response)
        record = recorded.get(one.id)
        if record is not None:
            ours, others = record.files, record.others
            container = known.container._replace(ours=ours, others=others)
            known = known._replace(container=container)
        if one.state == CONTAINER_CREATED:
            known = known._replace(pending=None)
        if self._tree is None or cgroup is None:
            return known, None
        resources = known.container.resources
        observation = observe(
            self._tree,
            cgroup,
            resources.shares,
            resources.unified,
            shows_unified=True,
        )
        return known, observation

    def _complete(
        self, runtime: str, version: str, observations: list[Observation]
    ) -> None:
        facts: dict[str, Any] = {"runtime": runtime, "runtime_version": version}
        found = recognise_or_continue(observations)
        # Later, what is there may all be ours, and teach nothing.
        if found.certain or not self._curve_certain:
            self._curve_certain = found.certain
            facts |= {"curve": found.curve, "curve_evidence": found.evidence}
        self._apply(facts, curves_of_pods(observations, found.curve))
        _log.info(
            "runtime: %s %s, %d pods, %d containers; curve %s: %s",
            *(runtime, version, *self._inventory.counts()),
            *(found.curve.value, found.evidence),
        )
