"""Which properties of a systemd unit stand for the content of a cgroup v2 file.

Pure: a file's name and text in, D-Bus properties out. What has no property (such as
`cpu.max.burst`, `hugetlb.*`, `memory.oom.group` of a unit that exists already), or a
text that its property cannot express, gives None and is written to the file directly.

How systemd rounds a quota is in `nriplugin/systemd_quota.py`, where the engine may look
as well.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nriplugin.convert.cpu_list import parse_cpus
from nriplugin.systemd_quota import (
    DEFAULT_PERIOD,
    quota_per_second,
    rounded_cpu_max,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# Name, and a D-Bus variant: its signature and value.
Property = tuple[str, tuple[str, Any]]

INFINITY = (1 << 64) - 1

_AMOUNTS = {
    "memory.min": "MemoryMin",
    "memory.low": "MemoryLow",
    "memory.high": "MemoryHigh",
    "memory.max": "MemoryMax",
    "memory.swap.max": "MemorySwapMax",
    "memory.zswap.max": "MemoryZSwapMax",
    "pids.max": "TasksMax",
}
# systemd takes no 0 for these.
_ABOVE_ZERO = ("memory.high", "memory.max", "pids.max")
_SETS = {"cpuset.cpus": "AllowedCPUs", "cpuset.mems": "AllowedMemoryNodes"}
_RATES = {
    "rbps": "IOReadBandwidthMax",
    "wbps": "IOWriteBandwidthMax",
    "riops": "IOReadIOPSMax",
    "wiops": "IOWriteIOPSMax",
}

_NUMBER = re.compile(r"[0-9]{1,19}")
_DEVICE = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")


def unit_properties(
    file: str, content: str, held: Callable[[], str]
) -> list[Property] | None:
    """Return what to tell systemd, or None if it cannot be told.

    `held` reads what the file holds now; it is asked where a text leaves the rest as
    it is.
    """
    content = content.strip()
    if file in _AMOUNTS:
        return _amount(file, content)
    if file in _SETS:
        return _members(_SETS[file], content)
    if file == "cpu.weight":
        return [("CPUWeight", ("t", int(content)))] if _is_number(content) else None
    if file == "cpu.idle":
        return _idle(content, held)
    if file == "cpu.max":
        return _quota(content, held)
    if file == "io.weight":
        return _io_weight(content)
    if file == "io.max":
        return _io_max(content, held)
    return None


def settled(file: str, content: str) -> str:
    """Return what the file holds once systemd has written it: a quota is rounded."""
    return rounded_cpu_max(content) if file == "cpu.max" else content


def _is_number(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text))


def _value(text: str) -> int | None:
    if text == "max":
        return INFINITY
    return int(text) if _is_number(text) else None


def _amount(file: str, content: str) -> list[Property] | None:
    value = _value(content)
    if value is None or (value == 0 and file in _ABOVE_ZERO):
        return None
    return [(_AMOUNTS[file], ("t", value))]


def _members(name: str, content: str) -> list[Property] | None:
    """Return a bit mask, the lowest byte first."""
    try:
        members = parse_cpus(content)
    except ValueError:
        return None
    bits = sum(1 << member for member in members)
    return [(name, ("ay", bits.to_bytes((bits.bit_length() + 7) // 8, "little")))]


def _idle(content: str, held: Callable[[], str]) -> list[Property] | None:
    """Return a weight: systemd calls idle a weight of 0 (since version 252).

    Out of idle there is only the default weight, which is what the kernel goes back to
    as well; a cgroup that is not idle must not lose the weight that it has.
    """
    if content == "1":
        return [("CPUWeight", ("t", 0))]
    if content == "0" and held().strip() == "1":
        return [("CPUWeight", ("t", INFINITY))]
    return None


def _quota(content: str, held: Callable[[], str]) -> list[Property] | None:
    quota, _, period = content.partition(" ")
    period = period or held().strip().partition(" ")[2] or DEFAULT_PERIOD
    if not _is_number(period) or int(period) == 0:
        return None
    value = _value(quota)
    if value is None:
        return None
    if value != INFINITY:
        value = quota_per_second(value, int(period))
    return [
        ("CPUQuotaPerSecUSec", ("t", value)),
        ("CPUQuotaPeriodUSec", ("t", int(period))),
    ]


def _io_weight(content: str) -> list[Property] | None:
    properties: list[Property] = []
    devices: list[tuple[str, int]] = []
    for line in content.splitlines():
        device, _, weight = line.rpartition(" ")
        if not _is_number(weight):
            return None  # a device goes back to the default, or nonsense
        if device in ("", "default"):
            properties.append(("IOWeight", ("t", int(weight))))
        elif _DEVICE.fullmatch(device):
            devices.append((_node(device), int(weight)))
        else:
            return None
    if devices:
        properties.append(("IODeviceWeight", ("a(st)", devices)))
    return properties or None


def _io_max(content: str, held: Callable[[], str]) -> list[Property] | None:
    """Return all four rates of every device named.

    systemd sets those of a device that it is not told to no limit, while the kernel
    leaves those that a line does not name.
    """
    wanted, present = _rates(content), _rates(held())
    if not wanted or present is None:
        return None
    limits: dict[str, list[tuple[str, int]]] = {key: [] for key in _RATES}
    for device, rates in wanted.items():
        for key, value in (present.get(device, {}) | rates).items():
            limits[key].append((_node(device), value))
    return [
        (name, ("a(st)", limits[key])) for key, name in _RATES.items() if limits[key]
    ]


def _rates(text: str) -> dict[str, dict[str, int]] | None:
    devices: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        device, *words = line.split() or [""]
        if not _DEVICE.fullmatch(device):
            return None
        rates = devices.setdefault(device, {})
        for word in words:
            key, _, rate = word.partition("=")
            value = _value(rate)
            if key not in _RATES or value is None:
                return None
            rates[key] = value
    return devices


def _node(device: str) -> str:
    return f"/dev/block/{device}"
