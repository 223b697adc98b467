"""Asks the runtime over CRI for its pods and containers.

A CRI runtime does not announce the pods and containers that it has, so the door asks
for them at the start and again after the runtime was away. The weights of the listed
containers also show the runtime's curve. If a container was created through the proxy,
its status has the record of nriplugin's values in its annotations.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.api.cri_pb2 import CONTAINER_CREATED
from nriplugin.doors.cri.messages import container_of_status, pod_of_status
from nriplugin.doors.cri.missed_containers import MissedContainers
from nriplugin.errors import RPCError
from nriplugin.state.inventory import NO_POD, PodEntry, summarise_pod
from nriplugin.state.learning import Weighted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.api import cri_pb2
    from nriplugin.doors.cri.client import RuntimeClient
    from nriplugin.kube.managed import Managed
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle

_log = logging.getLogger(__name__)

# gRPC's status code NOT_FOUND: a listed pod or container has ended meanwhile.
_NOT_FOUND = 5


class _Discovered(NamedTuple):
    entry: ContainerEntry
    weighted: Weighted | None


class Discovery:
    """Asks a runtime, and adds the answers to a life-cycle's inventory and facts."""

    def __init__(self, client: RuntimeClient, lifecycle: Lifecycle) -> None:
        """Ask with `client`; the answers go to `lifecycle`."""
        self._client = client
        self._lifecycle = lifecycle
        self.missing = MissedContainers(lifecycle)
        # How many containers the last `learn` found that are new to this process and
        # were created without nriplugin.
        self.missed = 0

    def learn(self) -> None:
        """Ask for the version, all pods and all containers.

        Raises:
            RPCError, TimeoutError: the runtime does not answer, or with an error.
        """
        lifecycle = self._lifecycle
        version = self._client.version()
        # Taken before the listing: calls go on meanwhile, and `merge` must not drop the
        # containers that are created during the listing.
        before = lifecycle.inventory.ids()
        pods: dict[str, PodEntry] = {}
        for sandbox_id in self._client.ready_pods():
            if (pod := self.pod(sandbox_id)) is not None:
                pods[sandbox_id] = pod
        records = self._records()
        found = [
            self._look(one, pods.get(one.pod_sandbox_id), records)
            for one in self._client.live_containers()
        ]
        discovered = [one for one in found if one is not None]
        entries = {one.entry.id: one.entry for one in discovered}
        lifecycle.inventory.merge(before, pods, entries)
        lifecycle.learn_runtime(version.runtime_name, version.runtime_version)
        lifecycle.learning.learn_curve(
            (one.weighted for one in discovered if one.weighted is not None),
            shows_unified=True,
        )
        self.missed = self.missing.mark(one.entry for one in discovered)
        known_pods, known_containers = lifecycle.inventory.ids()
        _log.info(
            "runtime: %s %s, %d pods, %d containers",
            *(version.runtime_name, version.runtime_version),
            *(len(known_pods), len(known_containers)),
        )

    def pod(self, sandbox_id: str) -> PodEntry | None:
        """Ask for one pod; return None if it has ended."""
        try:
            pod = pod_of_status(self._client.pod_status(sandbox_id))
        except RPCError as exc:
            if exc.code == _NOT_FOUND:
                return None
            raise
        return summarise_pod(sandbox_id, pod, describe=True)

    def container(self, container_id: str) -> ContainerEntry | None:
        """Ask for one container that the inventory lacks; None if it does not exist."""
        for one in self._client.live_containers():
            if one.id == container_id:
                pod = self._lifecycle.inventory.pod(one.pod_sandbox_id)
                found = self._look(one, pod, self._records())
                return None if found is None else found.entry
        return None

    def _records(self) -> Mapping[str, Managed]:
        records = self._lifecycle.records
        return {} if records is None else records.load()

    def _look(
        self,
        one: cri_pb2.Container,
        pod: PodEntry | None,
        records: Mapping[str, Managed],
    ) -> _Discovered | None:
        try:
            response = self._client.container_status(one.id)
        except RPCError as exc:
            if exc.code == _NOT_FOUND:
                return None
            raise
        found = container_of_status(response)
        # The record in the state directory is newer than the one in the annotations.
        kept, record = found.container, records.get(one.id) or found.record
        entry = found.entry_in(
            pod or NO_POD._replace(id=one.pod_sandbox_id),
            record,
            started=one.state != CONTAINER_CREATED,
        )
        if found.cgroup is None:
            return _Discovered(entry, None)
        resources = kept.resources
        weighted = Weighted(found.cgroup, resources.shares, resources.unified)
        return _Discovered(entry, weighted)
