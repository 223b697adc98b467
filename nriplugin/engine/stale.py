"""Which numbers of a container changed while nriplugin was not running.

The runtime keeps the values that nriplugin sent. At a resize without nriplugin it
writes the files that it makes of kubelet's new numbers, and then nriplugin's old values
over them. Afterwards the container's numbers are not those of the record, and the
values do not follow from the numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert import UNLIMITED, Curve, Resources, convert
from nriplugin.engine.handlers.resources import lasting_quota
from nriplugin.engine.model import CORE_FILES
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert.model import Amount


def numbers_of(given: Resources) -> str:
    """Return the numbers that the conversion reads, as text for a record."""
    numbers = (
        given.shares,
        given.quota_us,
        given.period_us,
        given.memory_limit_bytes,
    )
    return ",".join(
        "" if one is None else "max" if one is UNLIMITED else str(one)
        for one in numbers
    )


def resources_of_numbers(numbers: str) -> Resources | None:
    """Return the resources that a record's numbers stand for; None if invalid."""
    try:
        shares, quota, period, limit = map(_amount, numbers.split(","))
    except ValueError:
        return None
    if shares is UNLIMITED or period is UNLIMITED:
        return None
    return Resources(
        shares=shares, quota_us=quota, period_us=period, memory_limit_bytes=limit
    )


def _amount(text: str) -> Amount | None:
    if not text:
        return None
    return UNLIMITED if text == "max" else int(text)


def changed_numbers(
    given: Resources, ours: Mapping[str, str], recorded: str
) -> Resources | None:
    """Return the numbers that nriplugin's values were not made of; None if all were.

    A value counts as made of a number if it follows by any curve, rounded or not, so
    that a change of the configuration alone makes no value stale.

    Args:
        given: the numbers that the runtime keeps for the container.
        ours: the values of nriplugin that the runtime keeps beside them.
        recorded: the numbers that those values were made of; empty if not known.
    """
    if recorded and recorded == numbers_of(given):
        return None
    stale = {
        file
        for file in CORE_FILES & ours.keys()
        if not _is_made_of(given, file, ours[file])
    }
    if not stale:
        return None
    cpu_max = "cpu.max" in stale
    return Resources(
        shares=given.shares if "cpu.weight" in stale else None,
        quota_us=given.quota_us if cpu_max else None,
        period_us=given.period_us if cpu_max else None,
        memory_limit_bytes=given.memory_limit_bytes if "memory.max" in stale else None,
    )


def _is_made_of(given: Resources, file: str, value: str) -> bool:
    """Return whether a value follows from the numbers; true if there are none."""
    bare = Resources(
        shares=given.shares,
        quota_us=given.quota_us,
        period_us=given.period_us,
        memory_limit_bytes=given.memory_limit_bytes,
    )
    for curve in Curve:
        try:
            made = convert(bare, curve).files.get(file)
        except ConversionError:
            return True
        if made is None or value in (made, _rounded(file, made)):
            return True
        if file != "cpu.weight":
            return False
    return False


def _rounded(file: str, made: str) -> str:
    return lasting_quota(made) if file == "cpu.max" else made
