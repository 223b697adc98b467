"""CPU: shares to cpu.weight, quota and period to cpu.max."""

from __future__ import annotations

CPU_WEIGHT = "cpu.weight"
CPU_MAX = "cpu.max"

MIN_SHARES, MAX_SHARES = 2, 262_144

# What the kernel and every runtime take where none is given.
DEFAULT_PERIOD_US = 100_000


def weight_from_shares(shares: int) -> int:
    """Map [2, 262144] onto [1, 10000] linearly, as the Kubernetes KEP has it."""
    shares = min(max(shares, MIN_SHARES), MAX_SHARES)
    return 1 + (shares - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)


def cpu_max(quota_us: int, period_us: int | None) -> str:
    """Return the text of cpu.max; a negative quota is no limit."""
    quota = "max" if quota_us < 0 else str(quota_us)
    return f"{quota} {period_us or DEFAULT_PERIOD_US}"
