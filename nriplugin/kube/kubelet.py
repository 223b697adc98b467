"""The kubelet's arithmetic between milli-CPU and the cgroup v1 numbers it sends.

Whole numbers, rounded as the kubelet does: down on the way out, and shares up on the
way back (pkg/kubelet/cm/helpers_linux.go, kuberuntime/helpers_linux.go).
"""

from __future__ import annotations

SHARES_PER_CPU = 1024
MILLI_PER_CPU = 1000

# The kernel's range for cpu.shares; a container without a request gets the minimum.
MIN_SHARES, MAX_SHARES = 2, 262_144

# The kernel takes no quota below 1 ms, so limits of 1m to 10m are all the same.
MIN_QUOTA_US = 1000

# Unless the kubelet is configured with another cpuCFSQuotaPeriod.
DEFAULT_PERIOD_US = 100_000


def milli_cpu_to_shares(milli: int) -> int:
    """Return cpu.shares for a request; none (0) is the minimum."""
    shares = milli * SHARES_PER_CPU // MILLI_PER_CPU
    return min(max(shares, MIN_SHARES), MAX_SHARES)


def milli_cpu_to_quota(milli: int, period_us: int = DEFAULT_PERIOD_US) -> int:
    """Return the quota for a limit; 0 is no quota, for no limit (0)."""
    if milli == 0:
        return 0
    return max(milli * period_us // MILLI_PER_CPU, MIN_QUOTA_US)


def shares_to_milli_cpu(shares: int) -> int:
    """Return the request that shares stand for; 0 below the minimum."""
    if shares < MIN_SHARES:
        return 0
    return -(-shares * MILLI_PER_CPU // SHARES_PER_CPU)


def quota_to_milli_cpu(quota_us: int, period_us: int = DEFAULT_PERIOD_US) -> int:
    """Return the limit that a quota stands for; 0 for no quota (-1, as read back)."""
    if quota_us < 0:
        return 0
    return quota_us * MILLI_PER_CPU // period_us
