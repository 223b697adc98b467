"""The kubelet's functions, against results of the real ones."""

from __future__ import annotations

import pytest
from support.vectors import Vector, each

from nriplugin.convert.curves import MAX_SHARES, MIN_SHARES
from nriplugin.convert.validate import MIN_QUOTA_US
from nriplugin.kube.kubelet import (
    milli_cpu_to_quota,
    milli_cpu_to_shares,
)


@each("k8s/MilliCPUToShares/")
def test_requests_become_shares(vector: Vector) -> None:
    """Shares are rounded down and stay within the kernel's range."""
    assert milli_cpu_to_shares(vector.input["milliCPU"]) == int(
        vector.expect["cpu.shares"]
    )


@each("k8s/MilliCPUToQuota/")
def test_limits_become_a_quota(vector: Vector) -> None:
    """No limit is no quota, and no quota is below the kernel's minimum."""
    quota = milli_cpu_to_quota(vector.input["milliCPU"], vector.input["period"])
    assert quota == vector.expect["quota"]


@pytest.mark.parametrize(
    ("milli", "period_us", "quota_us"),
    [(500, 50_000, 25_000), (1, 1_000_000, MIN_QUOTA_US), (100, 5000, MIN_QUOTA_US)],
)
def test_the_period_scales_the_quota(milli: int, period_us: int, quota_us: int) -> None:
    """The quota never goes below the minimum."""
    assert milli_cpu_to_quota(milli, period_us) == quota_us


def test_shares_stay_within_the_kernels_range() -> None:
    """A request of none has the fewest shares, and a huge one the most."""
    assert milli_cpu_to_shares(0) == MIN_SHARES
    assert milli_cpu_to_shares(256_001) == MAX_SHARES
