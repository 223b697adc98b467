"""The three curves from cpu shares to cpu.weight, and their way back.

v1 shares go from 2 to 262144 with 1024 as the default, v2 weights from 1 to 10000 with
100. No curve keeps everything:

* `kep` is linear between the extremes. It is the Kubernetes KEP's, that of runc up to
  1.3.1 and crun up to 1.22, and to this day kubelet's for pods and QoS classes. The
  default 1024 becomes 39.
* `quadratic` is a parabola in log-log space through both extremes and the default. It
  is that of runc from 1.3.2 and crun from 1.23. 1024 becomes 100, ratios shrink.
* `proportional` keeps the ratio between siblings, shares * 100 / 1024, and gives up the
  extremes. It is systemd's old mapping and Koordlet's before 1.3; the Volcano agent
  gets the same from milli-CPUs.

docs/conversion.md has the picture.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from math import ceil, log2

MIN_SHARES, MAX_SHARES, DEFAULT_SHARES = 2, 262_144, 1024
MIN_WEIGHT, MAX_WEIGHT, DEFAULT_WEIGHT = 1, 10_000, 100


class Curve(StrEnum):
    """A named way from shares to weight."""

    KEP = "kep"
    QUADRATIC = "quadratic"
    PROPORTIONAL = "proportional"


# On a node, what its runtime does; without one, what current runtimes do.
AUTO = "auto"


def curve_named(name: str) -> Curve:
    """Return a curve by its name, or the one that `auto` is without a node."""
    return Curve.QUADRATIC if name == AUTO else Curve(name)


@lru_cache(maxsize=1024)  # a node's containers share a few numbers of shares
def weight_of(shares: int, curve: Curve) -> int:
    """Return the weight of shares, which are clamped to their range first."""
    if shares <= MIN_SHARES:
        return MIN_WEIGHT
    if curve is Curve.PROPORTIONAL:
        weight = shares * DEFAULT_WEIGHT // DEFAULT_SHARES
        return min(max(weight, MIN_WEIGHT), MAX_WEIGHT)
    if shares >= MAX_SHARES:
        return MAX_WEIGHT
    if curve is Curve.KEP:
        return 1 + (shares - MIN_SHARES) * 9999 // (MAX_SHARES - MIN_SHARES)
    return _quadratic(shares)


def shares_of(weight: int, curve: Curve) -> int:
    """Return shares that stand for a weight.

    For `kep` by kubelet's own inverse, which rounds down and mostly gives one share too
    few to go forth again; else the fewest of that weight, or of the next there is.
    """
    if curve is Curve.KEP:
        return (weight - MIN_WEIGHT) * (MAX_SHARES - MIN_SHARES) // 9999 + MIN_SHARES
    low, high = MIN_SHARES, MAX_SHARES
    while low < high:  # both curves are monotonic
        middle = (low + high) // 2
        if weight_of(middle, curve) < weight:
            low = middle + 1
        else:
            high = middle
    return low


def _quadratic(shares: int) -> int:
    exponent = log2(shares)
    # The only point where the exact result is whole is the default, 100; doubles get
    # it right with this grouping, checked for every number of shares.
    return ceil(10 ** ((exponent * exponent + 125 * exponent) / 612 - 7 / 34))
