"""How a resource type reads and writes its part of a file's text. Pure.

A `Content` says which values a type may be set to and which text is then written.
Several types may share one file: cgroup v2's cpu.max holds quota and period. A type
that sets only a part of a file keeps the rest, so it is given the file's current text.
Bounds come from the caller; what the kernel accepts is known in `convert.validate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nriplugin.cgroup.types import formats
from nriplugin.cgroup.types.formats import UNLIMITED, CpuMax
from nriplugin.convert.cpu_list import CPU_LIST_EXPECTED, parse_cpus, render_cpus
from nriplugin.convert.validate import MAX_NUMBER, THROTTLE_KEYS
from nriplugin.convert.validate import check as check_text
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable

# The values that a caller may give. A number may be given as its digits; no limit is
# given as -1, "-1" or "max", on either version.
Given: TypeAlias = int | str


def _as_text(value: object, _: str | None) -> str:
    return str(value)


class Content(NamedTuple):
    """Reads and writes one type's part of a file's text.

    `check` turns the caller's value into the value that `render` takes, and raises
    ValueError if it is not what `expected` describes; a type without `check` is read
    only. `partial` says that `render` needs the file's current text, because it keeps
    the rest of it.
    """

    parse: Callable[[str], Any]
    check: Callable[[Given], Any] | None = None
    render: Callable[[Any, str | None], str] = _as_text
    expected: str = ""
    partial: bool = False


def number(low: int, high: int) -> Content:
    """Return a whole number within bounds."""
    return Content(
        formats.parse_number,
        lambda given: _within(whole(given), low, high),
        expected=f"a whole number from {low} to {high}",
    )


def limit(low: int, high: int, word: str = "max") -> Content:
    """Return a number within bounds, or no limit, which the file calls `word`."""
    return Content(
        formats.parse_limit if word == "max" else formats.parse_limit_v1,
        lambda given: _limit(given, low, high),
        lambda value, _: formats.render_limit(value, word),
        expected=f"a whole number from {low} to {high}, or max",
    )


def cpu_max_quota(low: int, high: int) -> Content:
    """Return the first word of cpu.max; the period stays as it is."""

    def render(quota_us: int, current: str | None) -> str:
        if current is None:  # the kernel keeps the period that is not written
            return formats.render_limit(quota_us)
        period_us = formats.parse_cpu_max(current).period_us
        return formats.render_cpu_max(CpuMax(quota_us, period_us))

    return Content(
        lambda text: formats.parse_cpu_max(text).quota_us,
        lambda given: _limit(given, low, high),
        render,
        expected=f"a whole number from {low} to {high}, or max",
        partial=True,
    )


def cpu_max_period(low: int, high: int) -> Content:
    """Return the second word of cpu.max.

    The kernel would take a period that is written alone for a quota.
    """

    def render(period_us: int, current: str | None) -> str:
        if current is None:
            raise ValueError("the current cpu.max, whose quota stays")
        quota_us = formats.parse_cpu_max(current).quota_us
        return formats.render_cpu_max(CpuMax(quota_us, period_us))

    return Content(
        lambda text: formats.parse_cpu_max(text).period_us,
        lambda given: _within(whole(given), low, high),
        render,
        expected=f"a whole number from {low} to {high}",
        partial=True,
    )


def cpu_list() -> Content:
    """Return a list of CPUs or memory nodes, spelt as the kernel shows it."""

    def canonical(given: Given) -> str:
        return render_cpus(parse_cpus(str(given)))

    return Content(
        canonical,
        canonical,
        # A write of no bytes does not reach the kernel; an empty line empties the list.
        lambda value, _: value or "\n",
        expected=CPU_LIST_EXPECTED,
    )


def device_weight(low: int, high: int) -> Content:
    """Return a weight by device; set with `WEIGHT` or `MAJOR:MINOR WEIGHT`."""

    def check(given: Given) -> str:
        *device, weight = str(given).split()
        _within(whole(weight), low, high)
        if device == ["default"] or not device:
            return weight
        return f"{_one_device(device)} {weight}"

    return Content(
        formats.parse_device_numbers,
        check,
        expected=f"[MAJOR:MINOR] and a whole number from {low} to {high}",
    )


def device_rate_v1(high: int) -> Content:
    """Return a rate by device, set with `MAJOR:MINOR RATE`; a rate of 0 is no limit."""

    def check(given: Given) -> tuple[str, int]:
        device, rate = _device_rate(given)
        if rate != UNLIMITED:
            _within(rate, 1, high)
        return device, rate

    def render(value: tuple[str, int], _: str | None) -> str:
        device, rate = value
        return f"{device} {0 if rate == UNLIMITED else rate}"

    expected = f"MAJOR:MINOR and a whole number from 1 to {high}, or max"
    return Content(formats.parse_device_numbers, check, render, expected=expected)


def device_rate_v2(key: str) -> Content:
    """Return one key of io.max by device; the kernel keeps those not written."""

    def parse(text: str) -> dict[str, int]:
        return {
            device: fields[key]
            for device, fields in formats.parse_devices(text).items()
            if fields.get(key, UNLIMITED) != UNLIMITED
        }

    def render(value: tuple[str, int], _: str | None) -> str:
        device, rate = value
        return f"{device} {key}={formats.render_limit(rate)}"

    return Content(parse, _device_rate, render, expected=_RATE_EXPECTED)


def io_max() -> Content:
    """Return all of io.max; set with one line as the kernel takes it."""

    def check(given: Given) -> str:
        device, *pairs = str(given).split()
        if not pairs:
            raise ValueError(given)
        line = " ".join([device, *pairs])
        try:
            check_text("io.max", line)
        except ConversionError as exc:
            raise ValueError(given) from exc
        return line

    keys = ", ".join(THROTTLE_KEYS)
    return Content(
        formats.parse_devices, check, expected=f"MAJOR:MINOR and KEY=RATE for {keys}"
    )


def reading(parse: Callable[[str], Any]) -> Content:
    """Return a content that can be read but not set."""
    return Content(parse)


def text() -> Content:
    """Return the text itself, unchecked: for files that nriplugin has no rule for."""
    return Content(str.strip, str)


# cgroup v1 keeps operations per second in 32 bits and drops the upper ones: 2^32 would
# become 0, which stops the device.
MAX_OPERATIONS_V1 = (1 << 32) - 1
_RATE_EXPECTED = "MAJOR:MINOR and a rate, or max"


def whole(given: Given) -> int:
    """Return a whole number that is given as an int or as ASCII digits.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(given, int):
        return int(given)
    digits = given.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 20):
        raise ValueError(given)
    return int(given)


def _within(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError(value)
    return value


def _limit(given: Given, low: int, high: int) -> int:
    if given in ("max", "-1", UNLIMITED):
        return UNLIMITED
    return _within(whole(given), low, high)


def _one_device(words: list[str]) -> str:
    (device,) = formats.parse_device_numbers(f"{words[0]} 0") if words else ("",)
    if len(words) != 1 or ":" not in device:
        raise ValueError(words)
    return device


def _device_rate(given: Given) -> tuple[str, int]:
    *device, rate = str(given).split()
    return _one_device(device), _limit(rate, 1, MAX_NUMBER)
