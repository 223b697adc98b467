"""The io controller: weights and throttles. Pure.

Which weight file a node has depends on its I/O scheduler. `io.bfq.weight` takes the v1
number unchanged; `io.weight` has another range, so the number is scaled. Only BFQ has
weights per device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.convert.validate import (
    MAX_BFQ_WEIGHT,
    MAX_NUMBER,
    MAX_V1_IO_WEIGHT,
    MIN_BFQ_WEIGHT,
    MIN_V1_IO_WEIGHT,
    THROTTLE_KEYS,
)
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.convert.model import Resources
    from nriplugin.convert.result import Conversion

BFQ_RULE = Rule(
    ("blockIO.weight", "blockIO.weightDevice"), "as given, one line per device"
)
WEIGHT_RULE = Rule(
    ("blockIO.weight",), "1 + (weight - 10) * 9999 / 990, rounded down (10 to 1000)"
)
THROTTLE_RULES = Rule(
    tuple(
        f"blockIO.throttle{name}Device"
        for name in ("ReadBps", "WriteBps", "ReadIOPS", "WriteIOPS")
    ),
    "one line per device",
)


def convert_io(given: Resources, out: Conversion, *, bfq: bool) -> None:
    """Add the weight file that the node has, and io.max."""
    if bfq:
        _convert_bfq(given, out)
    else:
        _convert_weight(given, out)
    _convert_throttles(given, out)


def _convert_weight(given: Resources, out: Conversion) -> None:
    weight = given.io_weight
    if weight is not None:
        if not MIN_V1_IO_WEIGHT <= weight <= MAX_V1_IO_WEIGHT:
            raise ConversionError(
                "blockIO.weight", weight, f"{MIN_V1_IO_WEIGHT} to {MAX_V1_IO_WEIGHT}"
            )
        span = MAX_V1_IO_WEIGHT - MIN_V1_IO_WEIGHT
        value = 1 + (weight - MIN_V1_IO_WEIGHT) * 9999 // span
        out.write("io.weight", str(value), WEIGHT_RULE)
    if given.io_device_weights:
        out.drop("blockIO.weightDevice", "needs the BFQ scheduler, which is not there")


def _convert_bfq(given: Resources, out: Conversion) -> None:
    lines = []
    if given.io_weight is not None:
        _check_bfq("blockIO.weight", given.io_weight)
        lines.append(str(given.io_weight))
    for major, minor, weight in given.io_device_weights:
        _check_bfq(f"blockIO.weightDevice {major}:{minor}", weight)
        lines.append(f"{major}:{minor} {weight}")
    if lines:
        out.write("io.bfq.weight", "\n".join(lines), BFQ_RULE)


def _check_bfq(field: str, weight: int) -> None:
    if not MIN_BFQ_WEIGHT <= weight <= MAX_BFQ_WEIGHT:
        raise ConversionError(field, weight, f"{MIN_BFQ_WEIGHT} to {MAX_BFQ_WEIGHT}")


def _convert_throttles(given: Resources, out: Conversion) -> None:
    devices: dict[tuple[int, int], dict[str, int]] = {}
    for key, major, minor, rate in given.io_throttles:
        if not 0 < rate <= MAX_NUMBER:
            field = f"blockIO.throttle {key} of {major}:{minor}"
            raise ConversionError(field, rate, f"1 to {MAX_NUMBER}")
        devices.setdefault((major, minor), {})[key] = rate
    lines = [
        f"{major}:{minor} "
        + " ".join(f"{key}={rates[key]}" for key in THROTTLE_KEYS if key in rates)
        for (major, minor), rates in devices.items()
    ]
    if lines:
        out.write("io.max", "\n".join(lines), THROTTLE_RULES)
