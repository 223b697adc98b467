"""The CRI proxy and kubelet's checkpoint: what creations and updates ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doors.cri.fakes import Client, FakeRuntime, pod_config, rpc
from support.harness import wait_until

from nriplugin.api import cri_pb2 as cri
from nriplugin.config import parse_config

if TYPE_CHECKING:
    from nriplugin.doors.cri.door import CRIDoor

MIB = 1 << 20


def test_requests_of_creations_and_updates_are_exact(
    kubelet: Client, fake: FakeRuntime, door: CRIDoor
) -> None:
    """What the runtime gets has the request that kubelet has allocated."""
    requests = door.lifecycle.requests
    requests.watch = lambda path: None
    door.lifecycle.plans.learn({"files": frozenset({"memory.low", "memory.max"})})
    door.apply(parse_config("memoryQoS: {enabled: true, throttlingFactor: null}", "x"))
    uid = pod_config().metadata.uid
    requests.publish({uid: {"app": 128 * MIB}})
    sandbox_id = kubelet.run_pod()
    limit: dict[str, Any] = {"memory_limit_in_bytes": 256 * MIB}
    made = kubelet.create(sandbox_id, oom_score_adj=999, **limit)
    (created,) = fake.requests(rpc("CreateContainer"), cri.CreateContainerRequest)
    assert created.config.linux.resources.unified["memory.low"] == "134217728"
    entry = door.lifecycle.inventory.get(made)
    assert entry is not None
    assert entry.allocated_request_bytes == 128 * MIB
    requests.publish({uid: {"app": 64 * MIB}})
    kubelet.update(made, **limit)
    (updated,) = fake.requests(
        rpc("UpdateContainerResources"), cri.UpdateContainerResourcesRequest
    )
    assert updated.linux.unified["memory.low"] == str(64 * MIB)
    wait_until(lambda: allocated(door, made) == 64 * MIB)


def allocated(door: CRIDoor, container_id: str) -> int | None:
    """Return the request that a container was decided about with."""
    entry = door.lifecycle.inventory.get(container_id)
    return None if entry is None else entry.allocated_request_bytes
