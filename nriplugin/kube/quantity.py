"""Kubernetes quantities ("100m", "1.5", "512Mi", "1e3"), exactly and without floats.

The grammar is that of apimachinery's resource.Quantity, without negative amounts,
because no amount that nriplugin reads may be negative. As there, a quantity with a
binary suffix is capped at 2^63 - 1, and whole units and thousandths are rounded up.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from fractions import Fraction

# As a manifest has it: YAML has numbers, too.
Quantity: TypeAlias = str | int | float

MAX_INT64 = 2**63 - 1

# The suffixes of amounts that are finer than one.
_PARTS = ("n", "u", "m")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
# Lengths are bounded so that "1e999999999" is an error and not a very long wait.
_QUANTITY = (
    r"\+?(?=\.?[0-9])([0-9]{0,40})(?:\.([0-9]{0,40}))?"
    r"(?:[eE]([+-]?[0-9]{1,2})|([KMGTPE]i|[numkMGTPE]?))"
)


def parse(given: object, field: str = "quantity") -> Fraction:
    """Return the exact amount.

    Raises:
        ConfigError: not a quantity, or a negative one; names the field and the value.
    """
    # The repr of a YAML number is the shortest text that reads back the same, so it is
    # what the manifest says; the repr of any other object is not a quantity.
    amount = _parse(given if isinstance(given, str) else repr(given))
    if amount is None:
        raise ConfigError(
            f"{field}: {given!r:.60}, expected a quantity such as 100m, 1.5 or 512Mi"
        )
    return amount


# Cached, because many annotations have the same few quantities and fractions are slow.
@lru_cache(maxsize=256)
def _parse(text: str) -> Fraction | None:
    # Late: `fractions` imports `decimal`, and most runs of the OCI hook need neither.
    from fractions import Fraction

    match = re.fullmatch(_QUANTITY, text)
    if match is None:
        return None
    whole, decimals, exponent, suffix = match.groups(default="")
    number = Fraction(int((whole + decimals) or "0"), 10 ** len(decimals))
    if suffix in _BINARY:
        return min(number * (1 << _BINARY[suffix]), Fraction(MAX_INT64))
    power = int(exponent) if exponent else _DECIMAL[suffix]
    scale: int = 10 ** abs(power)
    return number * scale if power >= 0 else number / scale


def milli(given: object, field: str = "quantity") -> int:
    """Return thousandths, rounded up, as Kubernetes' MilliValue."""
    return math.ceil(parse(given, field) * 1000)


def value(given: object, field: str = "quantity") -> int:
    """Return whole units, rounded up, as Kubernetes' Value."""
    return math.ceil(parse(given, field))


def byte_count(given: str, field: str = "quantity") -> int:
    """Return bytes, as `value`; a suffix for parts of a byte is a mistake here.

    Kubernetes reads `512m` as half a byte, which becomes one byte. Whoever writes that
    means 512Mi, and a limit of one byte would stop a container.
    """
    if given.endswith(_PARTS):
        raise ConfigError(
            f"{field}: {given!r:.60}, expected bytes, such as 512Mi; "
            f"{given[-1]} stands for parts of a byte"
        )
    return value(given, field)
