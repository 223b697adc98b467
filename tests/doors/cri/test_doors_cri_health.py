from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from support.harness import wait_until

from nriplugin.doors.cri.health import SERVICES

if TYPE_CHECKING:
    from doors.cri.fakes import Client, FakeRuntime

    from nriplugin.doors.cri.door import CRIDoor

SERVING = HealthCheckResponse.SERVING
NOT_SERVING = HealthCheckResponse.NOT_SERVING


def check(kubelet: Client, service: str = "") -> int:
    stub: Any = HealthStub(kubelet.channel)
    status: int = stub.Check(HealthCheckRequest(service=service)).status
    return status


@pytest.mark.parametrize("service", SERVICES)
def test_the_proxy_is_healthy_while_its_runtime_answers(
    kubelet: Client, fake: FakeRuntime, service: str
) -> None:
    """Each Check asks the runtime, also without other calls in between."""
    assert check(kubelet, service) == SERVING
    fake.stop()
    assert check(kubelet, service) == NOT_SERVING
    fake.start()
    wait_until(lambda: check(kubelet, service) == SERVING)


def test_the_proxy_serves_the_health_service_itself(
    kubelet: Client, fake: FakeRuntime
) -> None:
    """A Check is not forwarded; the runtime is asked for its version."""
    check(kubelet)
    assert not [one for one in fake.seen if "Health" in one.method]


def test_an_unknown_service_is_not_found(kubelet: Client) -> None:
    """The standard asks for NOT_FOUND."""
    with pytest.raises(grpc.RpcError) as caught:
        check(kubelet, "other")
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_watch_reports_changes(
    kubelet: Client, fake: FakeRuntime, door: CRIDoor
) -> None:
    """The state changes when a call finds the runtime away, and when it is back."""
    stub: Any = HealthStub(kubelet.channel)
    watch = stub.Watch(HealthCheckRequest())
    assert next(watch).status == SERVING
    fake.stop()
    with pytest.raises(grpc.RpcError):
        kubelet.run_pod()
    statuses = iter(lambda: next(watch).status, None)
    assert next(status for status in statuses if status != SERVING) == NOT_SERVING
    fake.start()
    assert next(status for status in statuses if status != NOT_SERVING) == SERVING
    watch.cancel()
