"""The cpu and cpuset controllers: weight, idle, bandwidth, burst, CPUs, memory nodes.

Files are added in an order that the kernel accepts when they are written one by one:
idle before weight, because an idle cgroup takes no weight, and bandwidth before burst,
because a burst is at most the quota. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.curves import MAX_SHARES, MIN_SHARES, Curve, weight_of
from nriplugin.convert.result import Rule
from nriplugin.convert.validate import (
    DEFAULT_PERIOD_US,
    MAX_NUMBER,
    MAX_PERIOD_US,
    MAX_QUOTA_US,
    MIN_PERIOD_US,
    MIN_QUOTA_US,
    check,
    quota_in,
)
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.convert.model import Resources
    from nriplugin.convert.result import Conversion

WEIGHT_RULES = {
    Curve.KEP: Rule(
        ("cpu.shares",), "kep: 1 + (shares - 2) * 9999 / 262142, rounded down"
    ),
    Curve.QUADRATIC: Rule(
        ("cpu.shares",),
        "quadratic: 10^((L^2 + 125 L) / 612 - 7/34) with L = log2(shares), rounded up",
    ),
    Curve.PROPORTIONAL: Rule(
        ("cpu.shares",), "proportional: shares * 100 / 1024, rounded down, 1 to 10000"
    ),
}
IDLE_RULE = Rule(("cpu.idle",), "as given")
MAX_RULE = Rule(
    ("cpu.quota", "cpu.period"),
    "quota and period in one line; no quota is max, no period is 100000",
)
BURST_RULE = Rule(("cpu.burst",), "as given, at most the quota")
CPUS_RULE = Rule(("cpu.cpus",), "as given")
MEMS_RULE = Rule(("cpu.mems",), "as given")


def convert_cpu(given: Resources, out: Conversion) -> None:
    """Add the files of the cpu controller."""
    idle = given.idle
    if idle is not None:
        if idle not in (0, 1):
            raise ConversionError("cpu.idle", idle, "0 or 1")
        out.write("cpu.idle", str(idle), IDLE_RULE)
    if given.shares is not None:
        _convert_shares(given, out)
    if given.quota_us is not None or given.period_us is not None:
        _convert_bandwidth(given, out)
    if given.burst_us is not None:
        _convert_burst(given, out)


def convert_cpuset(given: Resources, out: Conversion) -> None:
    """Add the files of the cpuset controller; an empty text is "not given"."""
    if given.cpus:
        check("cpuset.cpus", given.cpus, field="cpu.cpus")
        out.write("cpuset.cpus", given.cpus, CPUS_RULE)
    if given.mems:
        check("cpuset.mems", given.mems, field="cpu.mems")
        out.write("cpuset.mems", given.mems, MEMS_RULE)


def _convert_shares(given: Resources, out: Conversion) -> None:
    shares = given.shares
    assert shares is not None
    idle: object = given.idle
    if given.unified:
        idle = given.unified.get("cpu.idle", str(idle)).strip()
    if idle in (1, "1"):
        out.drop("cpu.shares", "cpu.idle is 1: the kernel takes no weight beside it")
        return
    if shares < MIN_SHARES:
        if shares < 0:
            raise ConversionError("cpu.shares", shares, "0 or more")
        out.clamp("cpu.shares", shares, MIN_SHARES, "the smallest number of shares")
    elif shares > MAX_SHARES:
        out.clamp("cpu.shares", shares, MAX_SHARES, "the largest number of shares")
    out.write("cpu.weight", str(weight_of(shares, out.curve)), WEIGHT_RULES[out.curve])


def _convert_bandwidth(given: Resources, out: Conversion) -> None:
    quota, period = given.quota_us, given.period_us
    if period is None:
        period = DEFAULT_PERIOD_US
    elif not MIN_PERIOD_US <= period <= MAX_PERIOD_US:
        raise ConversionError(
            "cpu.period", period, f"{MIN_PERIOD_US} to {MAX_PERIOD_US} (microseconds)"
        )
    text = "max"
    if isinstance(quota, int):
        if not MIN_QUOTA_US <= quota <= MAX_QUOTA_US:
            raise ConversionError(
                "cpu.quota", quota, f"{MIN_QUOTA_US} to {MAX_QUOTA_US} (microseconds)"
            )
        text = str(quota)
    out.write("cpu.max", f"{text} {period}", MAX_RULE)


def _convert_burst(given: Resources, out: Conversion) -> None:
    burst = given.burst_us
    assert burst is not None
    if burst < 0:
        raise ConversionError("cpu.burst", burst, "0 or more (microseconds)")
    # A cpu.max in `unified` replaces the quota, so the burst is compared with that one.
    explicit = given.unified.get("cpu.max")
    quota = quota_in(explicit) if explicit else given.quota_us
    if isinstance(quota, int):
        # The kernel also bounds the sum of quota and burst.
        limit = min(quota, MAX_QUOTA_US - quota)
        if burst > limit:
            reason = "the kernel takes no burst above the quota"
            out.clamp("cpu.burst", burst, limit, reason)
            burst = limit
    elif burst > MAX_NUMBER:
        raise ConversionError("cpu.burst", burst, f"at most {MAX_NUMBER}")
    out.write("cpu.max.burst", str(burst), BURST_RULE)
