"""Requests and limits of a container, concluded from what its runtime is told."""

from __future__ import annotations

import pytest

from nriplugin.convert import UNLIMITED, Resources
from nriplugin.kube.container_demand import (
    container_demand,
    memory_request,
    quota_to_milli_cpu,
    shares_to_milli_cpu,
)
from nriplugin.kube.kubelet import milli_cpu_to_quota, milli_cpu_to_shares
from nriplugin.kube.oomscore import oom_score_adj
from nriplugin.kube.qos import QOSClass

GIB = 1 << 30


def test_every_cpu_request_is_found_again() -> None:
    """Kubelet's shares stand for one request, but for those up to 2m."""
    for milli in range(3, 256_000, 11):
        assert shares_to_milli_cpu(milli_cpu_to_shares(milli)) == milli
    assert [shares_to_milli_cpu(milli_cpu_to_shares(one)) for one in range(3)] == [
        0
    ] * 3


@pytest.mark.parametrize("period_us", [100_000, 10_000])
def test_every_cpu_limit_is_found_again(period_us: int) -> None:
    """But for those below the least quota that the kernel takes."""
    for milli in range(100, 10_000, 7):
        quota = milli_cpu_to_quota(milli, period_us)
        assert quota_to_milli_cpu(quota, period_us) == milli


@pytest.mark.parametrize(
    ("qos", "limit", "allocated", "expected"),
    [
        (QOSClass.GUARANTEED, GIB, None, GIB),
        (QOSClass.BEST_EFFORT, None, None, 0),
        (QOSClass.BURSTABLE, GIB, 300, 300),
        (QOSClass.GUARANTEED, GIB, 300, 300),
        (QOSClass.BURSTABLE, GIB, None, None),
        (None, None, None, None),
    ],
)
def test_the_memory_request(
    qos: QOSClass | None, limit: int | None, allocated: int | None, expected: int | None
) -> None:
    """It is kubelet's own number, or follows from the class, or is not known."""
    assert memory_request(qos, limit, allocated, None, 64 * GIB) == expected


@pytest.mark.parametrize("request_bytes", [GIB, 3 * GIB + 5, 20 * GIB])
def test_an_estimate_is_never_too_high(request_bytes: int) -> None:
    """A Burstable pod's is at most a thousandth of the node's memory too low."""
    capacity = 64 * GIB
    score = oom_score_adj(QOSClass.BURSTABLE, request_bytes, capacity)
    found = memory_request(QOSClass.BURSTABLE, None, None, score, capacity)
    assert found is not None
    assert request_bytes - capacity // 1000 - 1 <= found <= request_bytes


def test_an_estimate_is_at_most_the_limit() -> None:
    """And without the node's memory there is none."""
    assert memory_request(QOSClass.BURSTABLE, 100, None, 500, 64 * GIB) == 100
    assert memory_request(QOSClass.BURSTABLE, 100, None, 500, None) is None


def test_what_a_container_asks_for() -> None:
    """Amounts are in thousandths; no limit is no amount."""
    given = Resources(
        shares=512, quota_us=150_000, period_us=100_000, memory_limit_bytes=GIB
    )
    found = container_demand(given, GIB // 2)
    assert found.requests == {"cpu": 500, "memory": GIB // 2 * 1000}
    assert found.limits == {"cpu": 1500, "memory": GIB * 1000}
    assert found.unknown == 0
    bare = container_demand(
        Resources(quota_us=UNLIMITED, memory_limit_bytes=UNLIMITED), 0
    )
    assert (bare.requests, bare.limits) == ({"cpu": 0, "memory": 0}, {})


def test_what_is_not_known_is_counted() -> None:
    """The sums leave it out, and say so."""
    assert container_demand(None, 5) == ({"memory": 5000}, {}, 1)
    assert container_demand(Resources(shares=1024), None) == ({"cpu": 1000}, {}, 1)
