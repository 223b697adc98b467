"""No entry of the inventory outlives its pod or container, in any order of calls.

Calls run on many threads, so the removal of a container may be done before an earlier
call about that container.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from doors.cri.fakes import Client, FakeRuntime, counts, create_request, pod_config, rpc
from support.harness import PATIENCE_S

from nriplugin.api import cri_pb2 as cri

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.doors.cri.door import CRIDoor


def refuse(request: bytes, context: Any) -> bytes:
    context.abort(grpc.StatusCode.NOT_FOUND, "no such sandbox")
    raise AssertionError


class Overtaken:
    """Lets the runtime do its part of a call, and delays the answer."""

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
        """Start a call, do another one when the runtime is done, then end the first."""
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
    kubelet: Client, fake: FakeRuntime, door: CRIDoor, with_pod: bool
) -> None:
    """The pod in a refused request may be gone, so it gets no entry."""
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
    assert counts(door) == (0, 0)


def test_a_refused_creation_leaves_the_pod_that_is_there(
    kubelet: Client, fake: FakeRuntime, door: CRIDoor
) -> None:
    """The pod's entry and its containers stay, and a next creation works."""
    sandbox_id = kubelet.run_pod()
    kubelet.create(sandbox_id)
    create, fake.answers[rpc("CreateContainer")] = (
        fake.answers[rpc("CreateContainer")],
        refuse,
    )
    with pytest.raises(grpc.RpcError):
        kubelet.create(sandbox_id)
    assert counts(door) == (1, 1)
    fake.answers[rpc("CreateContainer")] = create
    kubelet.create(sandbox_id)
    assert counts(door) == (1, 2)


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
    kubelet: Client,
    fake: FakeRuntime,
    door: CRIDoor,
    method: str,
    left: tuple[int, int],
) -> None:
    """The update's answer comes after the removal, and adds no entry."""
    sandbox_id = kubelet.run_pod()
    container_id = kubelet.create(sandbox_id, cpu_shares=512)

    def end() -> None:
        if "Pod" in method:
            kubelet.of_pod(method, sandbox_id)
        else:
            kubelet.of_container(method, container_id)

    update = Overtaken(fake, "UpdateContainerResources")
    update.by(lambda: kubelet.update(container_id, cpu_shares=1024), end)
    assert counts(door) == left


def test_an_end_that_overtakes_a_creation(
    kubelet: Client, fake: FakeRuntime, door: CRIDoor
) -> None:
    """A pod that ends drops the container that is being created in it."""
    sandbox_id = kubelet.run_pod()
    request = create_request(sandbox_id, cpu_shares=512)
    request.sandbox_config.CopyFrom(pod_config())
    kind = cri.CreateContainerResponse
    Overtaken(fake, "CreateContainer").by(
        lambda: kubelet.call("CreateContainer", request, kind),
        lambda: kubelet.of_pod("RemovePodSandbox", sandbox_id),
    )
    assert counts(door) == (0, 0)


def test_an_update_of_a_container_that_the_runtime_does_not_list(
    kubelet: Client, fake: FakeRuntime, door: CRIDoor
) -> None:
    """The runtime accepts the update, and no entry is added."""
    fake.answers[rpc("UpdateContainerResources")] = lambda request, context: b""
    kubelet.update("ended-long-ago", cpu_shares=1024)
    assert counts(door) == (0, 0)
