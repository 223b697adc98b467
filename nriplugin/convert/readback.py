"""What a file says after a value was written to it.

The kernel rounds and completes: memory to whole pages, huge pages to theirs, cpu.max
with its period, lists of CPUs to their shortest form. A value that was applied reads
back like this, so whoever verifies compares with this.
"""

from __future__ import annotations

import re

from nriplugin.convert.validate import DEFAULT_PERIOD_US

PAGE_BYTES = 4096

# From here on a number of bytes is no limit.
NO_LIMIT_BYTES = (1 << 63) - PAGE_BYTES

SUFFIXES = {"k": 10, "m": 20, "g": 30, "t": 40, "p": 50, "e": 60}

_HUGETLB = re.compile(r"hugetlb\.([0-9]+)(KB|MB|GB)\.(rsvd\.)?max")
_HUGE_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_BYTE_FILES = {
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.max",
    "memory.swap.max",
}


def read_back(file: str, value: str) -> str:
    """Return what reading gives after writing a valid value to a fresh cgroup."""
    text = value.strip()
    if not text:
        return ""
    if file in _BYTE_FILES:
        return _whole_pages(text, PAGE_BYTES)
    huge = _HUGETLB.fullmatch(file)
    if huge:
        return _whole_pages(text, int(huge[1]) * _HUGE_UNITS[huge[2]])
    if file == "cpu.max":
        words = text.split()[:2]
        return " ".join(words if len(words) == 2 else [*words, str(DEFAULT_PERIOD_US)])
    if file in ("io.weight", "io.bfq.weight"):
        return _weights(text)
    if file in ("cpuset.cpus", "cpuset.mems"):
        return _shortest_list(text)
    return text


def number_of_bytes(text: str) -> int:
    """Return the number in a text such as 4096 or 128M."""
    shift = SUFFIXES.get(text[-1].lower(), 0)
    return int(text[:-1] if shift else text) << shift


def _whole_pages(text: str, page: int) -> str:
    if text == "max" or (number := number_of_bytes(text)) >= NO_LIMIT_BYTES:
        return "max"
    return str(number // page * page)


def _weights(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    default = "default 100"
    devices = []
    for line in lines:
        if ":" in line:
            devices.append(line)
        else:
            default = f"default {line.removeprefix('default ')}"
    return "\n".join([default, *devices])


def _shortest_list(text: str) -> str:
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        bounds, _, stride = part.partition(":")
        first, _, last = bounds.partition("-")
        members = range(int(first), int(last or first) + 1)
        used, _, group = (stride or "1/1").partition("/")
        numbers.update(n for i, n in enumerate(members) if i % int(group) < int(used))
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
