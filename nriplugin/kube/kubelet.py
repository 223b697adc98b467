"""The kubelet's arithmetic from milli-CPU to the cgroup v1 numbers that it sends.

All numbers are whole and rounded down, as the kubelet does it
(pkg/kubelet/cm/helpers_linux.go, kuberuntime/helpers_linux.go). The bounds are the
kernel's, from `convert`.
"""

from __future__ import annotations

from nriplugin.convert.curves import MAX_SHARES, MIN_SHARES
from nriplugin.convert.validate import DEFAULT_PERIOD_US, MIN_QUOTA_US

SHARES_PER_CPU = 1024
MILLI_PER_CPU = 1000


def milli_cpu_to_shares(milli: int) -> int:
    """Return cpu.shares for a request; without a request (0) they are the minimum."""
    shares = milli * SHARES_PER_CPU // MILLI_PER_CPU
    return min(max(shares, MIN_SHARES), MAX_SHARES)


def milli_cpu_to_quota(milli: int, period_us: int = DEFAULT_PERIOD_US) -> int:
    """Return the quota for a limit; 0 is no quota, for no limit (0).

    Limits of 1m to 10m all get the smallest quota that the kernel takes, 1 ms. The
    period is the default unless the kubelet has another cpuCFSQuotaPeriod.
    """
    if milli == 0:
        return 0
    return max(milli * period_us // MILLI_PER_CPU, MIN_QUOTA_US)
