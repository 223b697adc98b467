"""The three curves from cpu shares to cpu.weight, and their way back.

v1 shares go from 2 to 262144 with 1024 as the default, v2 weights from 1 to 10000 with
100 as the default. No curve keeps the extremes, the default and the ratios at once:

* `kep` is linear between the extremes. It is the formula of the Kubernetes KEP, of runc
  up to 1.3.1 and crun up to 1.22, and to this day of the kubelet for pods and QoS
  classes. The default 1024 becomes 39.
* `quadratic` is a parabola in log-log space through both extremes and the default. It
  is the formula of runc from 1.3.2 and crun from 1.23. 1024 becomes 100; ratios shrink.
* `proportional` keeps the ratio between siblings, shares * 100 / 1024, and cuts off at
  the extremes. It is the formula of older systemd and of Koordlet before 1.3; the
  Volcano agent gets the same weights from milli-CPUs.

docs/conversion.md has a drawing.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from math import ceil, log2

MIN_SHARES, MAX_SHARES, DEFAULT_SHARES = 2, 262_144, 1024
MIN_WEIGHT, MAX_WEIGHT, DEFAULT_WEIGHT = 1, 10_000, 100


class Curve(StrEnum):
    """A formula from shares to weight, by its name."""

    KEP = "kep"
    QUADRATIC = "quadratic"
    PROPORTIONAL = "proportional"


# The value of a setting: the curve of the node's runtime, or of current runtimes if
# there is no node.
AUTO = "auto"


def curve_named(name: str) -> Curve:
    """Return a curve by its name; `auto` is that of current runtimes."""
    return Curve.QUADRATIC if name == AUTO else Curve(name)


@lru_cache(maxsize=1024)  # the containers of a node have few different shares
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

    For `kep` this is the kubelet's own inverse, which rounds down: its shares mostly
    give a weight that is one lower. For the other curves it is the fewest shares of
    that weight, or of the next higher weight that any shares have.
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
    # `ceil` must not see 100.00000000000001. The exact result is whole only for the
    # default, 1024 shares, and with this grouping of terms doubles give exactly 100
    # there. A test checks every number of shares.
    return ceil(10 ** ((exponent * exponent + 125 * exponent) / 612 - 7 / 34))
