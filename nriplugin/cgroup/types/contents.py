"""How one resource type sees its file: what may be set, and what is then written.

Several types may share a file (cgroup v2's cpu.max is quota and period). A type that
sets a part keeps the rest: it is given the file's present content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from nriplugin.cgroup.types import formats
from nriplugin.cgroup.types.formats import UNLIMITED, CpuMax

if TYPE_CHECKING:
    from collections.abc import Callable

# What callers may set a resource to. A number may be given as its digits; no limit is
# -1, "-1" or "max", on either version.
Given: TypeAlias = int | str


@dataclass(frozen=True, slots=True)
class Content:
    """Reads and writes one type's part of a file's content.

    `check` turns what was given into what `render` takes, and raises ValueError for
    what is not `expected`; without it the type can only be read. `partial` says that
    `render` wants the present content, to keep the rest of it.
    """

    parse: Callable[[str], Any]
    check: Callable[[Given], Any] | None = None
    render: Callable[[Any, str | None], str] = lambda value, _: str(value)
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
    """Return a number within bounds, or none; `word` is what the file calls that."""
    return Content(
        formats.parse_limit if word == "max" else formats.parse_limit_v1,
        lambda given: _limit(given, low, high),
        lambda value, _: formats.render_limit(value, word),
        expected=f"a whole number from {low} to {high}, or max",
    )


def cpu_max_quota(low: int, high: int) -> Content:
    """Return the first word of cpu.max; the period stays as it is."""

    def render(quota_us: int, current: str | None) -> str:
        if current is None:  # the kernel keeps the period when it is not written
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
    """Return the second word of cpu.max; alone it would be taken for a quota."""

    def render(period_us: int, current: str | None) -> str:
        if current is None:
            raise ValueError("the present cpu.max, whose quota stays")
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
    """Return a list of CPUs or nodes, as the kernel would show it."""

    def canonical(given: Given) -> str:
        return formats.render_cpus(formats.parse_cpus(str(given)))

    return Content(
        canonical,
        canonical,
        # Writing nothing at all changes nothing; an empty line empties the list.
        lambda value, _: value or "\n",
        expected=f"a list such as 0-3,8 of numbers below {formats.MAX_CPUS}",
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
    keys = ("rbps", "wbps", "riops", "wiops")

    def check(given: Given) -> str:
        device, *pairs = str(given).split()
        if not pairs:
            raise ValueError(given)
        for pair in pairs:
            key, _, rate = pair.partition("=")
            if key not in keys:
                raise ValueError(given)
            _limit(rate, 1, MAX_RATE)
        return " ".join([_one_device([device]), *pairs])

    return Content(
        formats.parse_devices,
        check,
        expected=f"MAJOR:MINOR and KEY=RATE for {', '.join(keys)}",
    )


def reading(parse: Callable[[str], Any]) -> Content:
    """Return what can only be read."""
    return Content(parse)


def text() -> Content:
    """Return anything, as it is: there is no rule to check it by."""
    return Content(str.strip, str)


def schemata() -> Content:
    """Return resctrl's lines of `RESOURCE:DOMAIN=MASK;...`; set with one or more."""

    def check(given: Given) -> str:
        lines = str(given).splitlines()
        for line in lines:
            name, colon, domains = line.strip().partition(":")
            if not (name and colon and all("=" in one for one in domains.split(";"))):
                raise ValueError(line)
        return "\n".join(lines or [""])

    return Content(
        formats.parse_schemata,
        check,
        # The kernel refuses a last line that has no end.
        lambda value, _: f"{value}\n",
        expected="lines such as L3:0=ff;1=ff",
    )


# What an unsigned 64-bit number holds, and what v1 keeps of operations per second: it
# drops the upper bits, and of 2^32 remains 0, which stops the device.
MAX_RATE = (1 << 64) - 1
MAX_OPERATIONS_V1 = (1 << 32) - 1
_RATE_EXPECTED = "MAJOR:MINOR and a rate, or max"


def whole(given: Given) -> int:
    """Return a number that may be given as its ASCII digits, strictly.

    Raises:
        ValueError: it is something else.
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
    return _one_device(device), _limit(rate, 1, MAX_RATE)
