"""What every container has: cpu shares, quota and period, and a memory limit."""

from __future__ import annotations

MIN_SHARES, MAX_SHARES = 2, 262_144

# What the kernel and every runtime take where none is given.
DEFAULT_PERIOD_US = 100_000


def files_of(
    shares: int, quota_us: int, period_us: int, limit_bytes: int
) -> dict[str, str]:
    """Return cgroup v2 files and their values. Zero is "not given", -1 no limit.

    Shares become a weight by the Kubernetes KEP's formula, which maps [2, 262144]
    onto [1, 10000] linearly. One function, because it runs with cold caches.
    """
    files = {}
    if shares:
        if shares < MIN_SHARES:
            shares = MIN_SHARES
        elif shares > MAX_SHARES:
            shares = MAX_SHARES
        weight = 1 + (shares - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)
        files["cpu.weight"] = str(weight)
    if quota_us:
        quota = "max" if quota_us < 0 else quota_us
        files["cpu.max"] = f"{quota} {period_us or DEFAULT_PERIOD_US}"
    if limit_bytes:
        files["memory.max"] = "max" if limit_bytes < 0 else str(limit_bytes)
    return files
