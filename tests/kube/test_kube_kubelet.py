"""The kubelet's functions, against results of the real ones."""

from __future__ import annotations

import pytest
from support.vectors import Vector, each

from nriplugin.convert.curves import MAX_SHARES, MIN_SHARES
from nriplugin.convert.validate import MIN_QUOTA_US
from nriplugin.kube.kubelet import (
    milli_cpu_to_quota,
    milli_cpu_to_shares,
    quota_to_milli_cpu,
    shares_to_milli_cpu,
)


@each("k8s/MilliCPUToShares/")
def test_requests_become_shares(vector: Vector) -> None:
    """Rounded down, within the kernel's range."""
    assert milli_cpu_to_shares(vector.input["milliCPU"]) == int(
        vector.expect["cpu.shares"]
    )


@each("k8s/MilliCPUToQuota/")
def test_limits_become_a_quota(vector: Vector) -> None:
    """No limit is no quota, and no quota is below the kernel's minimum."""
    quota = milli_cpu_to_quota(vector.input["milliCPU"], vector.input["period"])
    assert quota == vector.expect["quota"]


@each("k8s/cpuWeightToCPUShares/")
def test_shares_become_a_request(vector: Vector) -> None:
    """Rounded up."""
    assert shares_to_milli_cpu(vector.expect["cpu.shares"]) == vector.expect["milliCPU"]


@pytest.mark.parametrize(
    ("milli", "period_us", "quota_us"),
    [(500, 50_000, 25_000), (1, 1_000_000, MIN_QUOTA_US), (100, 5000, MIN_QUOTA_US)],
)
def test_the_period_scales_the_quota(milli: int, period_us: int, quota_us: int) -> None:
    """But never below the minimum."""
    assert milli_cpu_to_quota(milli, period_us) == quota_us


@pytest.mark.parametrize(
    ("quota_us", "period_us", "milli"),
    [
        (50_000, 100_000, 500),
        (3300, 100_000, 33),
        (-1, 100_000, 0),
        (25_000, 50_000, 500),
    ],
)
def test_a_quota_becomes_a_limit(quota_us: int, period_us: int, milli: int) -> None:
    """No quota is no limit."""
    assert quota_to_milli_cpu(quota_us, period_us) == milli


def test_every_request_survives_the_way_there_and_back() -> None:
    """Up to the rounding to whole shares, except where the range ends."""
    assert shares_to_milli_cpu(MIN_SHARES - 1) == 0
    for milli in range(2, 5000):
        assert shares_to_milli_cpu(milli_cpu_to_shares(milli)) == milli
    assert shares_to_milli_cpu(MAX_SHARES) == 256_000
