"""No entry of the inventory outlives its pod or container, in whatever order calls end.

Calls run on many threads, so what ends a container may be done before a call that was
under way for it.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from doors.cri.fakes import Client, FakeRuntime, create_request, pod_config, rpc
from support.harness import PATIENCE_S

from nriplugin.api import cri_pb2 as cri
from nriplugin.doors.cri.inventory import REMEMBERED_ENDS, Inventory, Known
from nriplugin.engine.model import Container, Pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.doors.cri.door import Door


def refuse(request: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.NOT_FOUND, "no such sandbox")
    raise AssertionError


class Overtaken:
    """Lets the runtime do its part of a call, and keeps the answer for a while."""

    def __init__(self, fake: FakeRuntime, method: str) -> None:
        self._answer = fake.answers[rpc(method)]
        self._done, self._release = threading.Event(), threading.Event()
        fake.answers[rpc(method)] = self._keep

    def _keep(self, request: bytes, context: Any) -> bytes:
        answer = self._answer(request, context)
        self._done.set()
        assert self._release.wait(PATIENCE_S)
        return answer

    def by(self, call: Callable[[], object], other: Callable[[], object]) -> None:
        """Start a call, do another when the runtime is done, and end the first."""
        with ThreadPoolExecutor(1) as pool:
            under_way = pool.submit(call)
            try:
                assert self._done.wait(PATIENCE_S)
                other()
            finally:
                self._release.set()
            under_way.result(PATIENCE_S)


@pytest.mark.parametrize("with_pod", [True, False])
def test_a_refused_creation(
    kubelet: Client, fake: FakeRuntime, door: Door, with_pod: bool
) -> None:
    """The pod that the request describes may be gone, and nothing ends it again."""
    sandbox_id = kubelet.run_pod()
    kubelet.of_pod("RemovePodSandbox", sandbox_id)
    fake.answers[rpc("CreateContainer")] = refuse
    fake.answers[rpc("PodSandboxStatus")] = refuse
    for one in (sandbox_id, "made-behind-our-back"):
        request = create_request(one, cpu_shares=512)
        if with_pod:
            request.sandbox_config.CopyFrom(pod_config())
        with pytest.raises(grpc.RpcError):
            kubelet.call("CreateContainer", request, cri.CreateContainerResponse)
    assert door.inventory.counts() == (0, 0)


def test_a_refused_creation_leaves_the_pod_that_is_there(
    kubelet: Client, fake: FakeRuntime, door: Door
) -> None:
    """With its containers; the next one is made in it."""
    sandbox_id = kubelet.run_pod()
    kubelet.create(sandbox_id)
    create, fake.answers[rpc("CreateContainer")] = (
        fake.answers[rpc("CreateContainer")],
        refuse,
    )
    with pytest.raises(grpc.RpcError):
        kubelet.create(sandbox_id)
    assert door.inventory.counts() == (1, 1)
    fake.answers[rpc("CreateContainer")] = create
    kubelet.create(sandbox_id)
    assert door.inventory.counts() == (1, 2)


@pytest.mark.parametrize(
    ("method", "left"),
    [
        ("StopContainer", (1, 0)),
        ("RemoveContainer", (1, 0)),
        ("StopPodSandbox", (0, 0)),
        ("RemovePodSandbox", (0, 0)),
    ],
)
def test_an_end_that_overtakes_an_update(
    kubelet: Client, fake: FakeRuntime, door: Door, method: str, left: tuple[int, int]
) -> None:
    """The update's answer comes last, and is about nothing."""
    sandbox_id = kubelet.run_pod()
    container_id = kubelet.create(sandbox_id, cpu_shares=512)

    def end() -> None:
        if "Pod" in method:
            kubelet.of_pod(method, sandbox_id)
        else:
            kubelet.of_container(method, container_id)

    update = Overtaken(fake, "UpdateContainerResources")
    update.by(lambda: kubelet.update(container_id, cpu_shares=1024), end)
    assert door.inventory.counts() == left


def test_an_end_that_overtakes_a_creation(
    kubelet: Client, fake: FakeRuntime, door: Door
) -> None:
    """A pod takes with it what is being made in it."""
    sandbox_id = kubelet.run_pod()
    request = create_request(sandbox_id, cpu_shares=512)
    request.sandbox_config.CopyFrom(pod_config())
    kind = cri.CreateContainerResponse
    Overtaken(fake, "CreateContainer").by(
        lambda: kubelet.call("CreateContainer", request, kind),
        lambda: kubelet.of_pod("RemovePodSandbox", sandbox_id),
    )
    assert door.inventory.counts() == (0, 0)


def test_an_update_of_what_nobody_knows(
    kubelet: Client, fake: FakeRuntime, door: Door
) -> None:
    """The runtime answers well for a container that it does not list as living."""
    fake.answers[rpc("UpdateContainerResources")] = lambda request, context: b""
    kubelet.update("ended-long-ago", cpu_shares=1024)
    assert door.inventory.counts() == (0, 0)


def test_a_listing_does_not_bring_back_what_has_ended_since() -> None:
    """Also not what was never known before."""
    inventory = Inventory()
    before = inventory.snapshot()
    inventory.drop_container("c1")
    inventory.drop_pod("p2")
    listed = {
        "c1": Known("p1", Container(id="c1")),
        "c2": Known("p2", Container(id="c2")),
        "c3": Known("p1", Container(id="c3")),
    }
    inventory.renew(before, {"p1": Pod(), "p2": Pod()}, listed)
    assert inventory.snapshot() == ({"p1"}, {"c3"})


def test_what_has_ended_is_not_remembered_for_ever() -> None:
    """IDs are never used again, so the last ones will do."""
    inventory = Inventory()
    inventory.drop_container("first")
    for number in range(REMEMBERED_ENDS):
        inventory.drop_container(str(number))
    inventory.put_container("first", Known("p", Container()))
    inventory.put_container("0", Known("p", Container()))
    assert inventory.counts() == (0, 1)
