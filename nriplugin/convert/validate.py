"""What the kernel takes: ranges of numbers, and a check of whole file contents.

Measured on Linux 6.1, 6.12 and 7.2. `check` is for values that arrive as text, in
`unified` or an annotation: it refuses what the kernel would refuse, because the runtime
fails a container for it, and what the kernel would take for another number. What only
the node can know (how many CPUs there are, which devices) is not judged here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nriplugin.convert.model import UNLIMITED
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.convert.model import Amount

MIN_PERIOD_US, MAX_PERIOD_US, DEFAULT_PERIOD_US = 1000, 1_000_000, 100_000
MIN_QUOTA_US, MAX_QUOTA_US = 1000, (1 << 44) - 1
MAX_PIDS = 4_194_304
MAX_CPU = 65_535  # more than any kernel is built for
MIN_BFQ_WEIGHT, MAX_BFQ_WEIGHT = 1, 1000
MIN_IO_WEIGHT, MAX_IO_WEIGHT = 1, 10_000
MAX_NUMBER = (1 << 64) - 1
THROTTLE_KEYS = ("rbps", "wbps", "riops", "wiops")

# No number that the kernel takes has more digits.
_NUMBER = re.compile(r"[0-9]{1,20}")
_BYTES = re.compile(r"\s*(?:([0-9]{1,20})([kKmMgGtTpPeE]?)|max)\s*")
_UNITS = "KMGTPE"
_CPU_RANGE = re.compile(
    r"([0-9]{1,5})(?:-([0-9]{1,5})(?::([0-9]{1,5})/([0-9]{1,5}))?)?"
)
# But for these files, the kernel reads 010 as 8, and 09 not at all.
_DECIMAL_FILES = frozenset(
    {"cpu.max", "cpuset.cpus", "cpuset.mems", "io.max", "io.weight"}
)
LEADING_ZERO = re.compile(r"(?<![0-9.])0[0-9]")
NO_LEADING_ZERO = "a number without a leading zero, which the kernel reads as octal"
_DEVICE_LINE = re.compile(r"([0-9]{1,10}:[0-9]{1,10})\s+(.*)")


def check(file: str, value: str, *, field: str | None = None) -> None:
    """Refuse a value that the kernel refuses or misreads; unknown files pass.

    Raises:
        ConversionError: names the file (or `field`), the value and what is allowed.
    """
    known = _CHECKS.get(file)
    if known is None and file.startswith("hugetlb.") and file.endswith(".max"):
        known = _CHECKS["memory.max"]
    if known is None:
        return
    accepts, expected = known
    if value.isascii() and not value.strip():
        return  # a write of nothing changes nothing
    if not value.isascii() or not accepts(value):
        raise ConversionError(field or file, value, expected)
    if file not in _DECIMAL_FILES and LEADING_ZERO.search(value):
        raise ConversionError(field or file, value, NO_LEADING_ZERO)


def quota_in(cpu_max: str) -> Amount | None:
    """Return the quota in a valid line of cpu.max."""
    words = cpu_max.split()
    if not words:
        return None
    return UNLIMITED if words[0] == "max" else int(words[0])


def bytes_in(text: str) -> Amount | None:
    """Return the bytes in a line of a file of bytes; None if the kernel refuses it."""
    found = _BYTES.fullmatch(text) if text.isascii() else None
    if found is None:
        return None
    digits, unit = found.groups()
    if digits is None:
        return UNLIMITED
    return int(digits) << 10 * (_UNITS.index(unit.upper()) + 1 if unit else 0)


def _number_in(text: str, low: int, high: int) -> bool:
    return bool(_NUMBER.fullmatch(text)) and low <= int(text) <= high


def _weight(text: str) -> bool:
    return _number_in(text.removesuffix("\n"), 1, 10_000)


def _flag(text: str) -> bool:
    return _number_in(text.strip(), 0, 1)


def _cpu_max(text: str) -> bool:
    words = text.split()
    quota_ok = words[0] == "max" or _number_in(words[0], MIN_QUOTA_US, MAX_QUOTA_US)
    if len(words) == 1:
        return quota_ok
    return quota_ok and _number_in(words[1], MIN_PERIOD_US, MAX_PERIOD_US)


def _burst(text: str) -> bool:
    return _number_in(text.strip(), 0, MAX_NUMBER)


def _bytes(text: str) -> bool:
    return bool(_BYTES.fullmatch(text))


def _pids(text: str) -> bool:
    return text.strip() == "max" or _number_in(text.strip(), 0, MAX_PIDS)


def _cpu_list(text: str) -> bool:
    parts = [part for part in text.strip().split(",") if part]
    return bool(parts) and all(map(_cpu_range, parts))


def _cpu_range(part: str) -> bool:
    found = _CPU_RANGE.fullmatch(part)
    if not found:
        return False
    first, last, used, group = (int(word) if word else 0 for word in found.groups())
    if first > MAX_CPU or last > MAX_CPU or (found[2] and last < first):
        return False
    return not found[4] or 0 < used <= group  # a stride: the first `used` of each group


def _io_weights(low: int, high: int) -> Callable[[str], bool]:
    def line_ok(line: str) -> bool:
        device = _DEVICE_LINE.fullmatch(line)
        if device:
            return device[2] == "default" or _number_in(device[2], low, high)
        return _number_in(line.removeprefix("default ").strip(), low, high)

    return lambda text: all(line_ok(line.strip()) for line in text.strip().splitlines())


def _io_max(text: str) -> bool:
    return all(_io_max_line(line.strip()) for line in text.strip().splitlines())


def _io_max_line(line: str) -> bool:
    device = _DEVICE_LINE.fullmatch(line)
    if not device:
        return False
    for word in device[2].split():
        key, _, rate = word.partition("=")
        if key not in THROTTLE_KEYS:
            return False
        if rate != "max" and not _number_in(rate, 1, MAX_NUMBER):
            return False
    return True


_BYTES_EXPECTED = "a number of bytes, with K, M or G if you like, or max"
_CHECKS: dict[str, tuple[Callable[[str], bool], str]] = {
    "cpu.weight": (_weight, "1 to 10000"),
    "cpu.idle": (_flag, "0 or 1"),
    "cpu.max": (
        _cpu_max,
        f"QUOTA or max, then a period: {MIN_QUOTA_US} to {MAX_QUOTA_US}, "
        f"{MIN_PERIOD_US} to {MAX_PERIOD_US}",
    ),
    "cpu.max.burst": (_burst, "0 or more microseconds"),
    "cpuset.cpus": (_cpu_list, f"a list such as 0-3,8, no number above {MAX_CPU}"),
    "cpuset.mems": (_cpu_list, f"a list such as 0-1, no number above {MAX_CPU}"),
    "memory.min": (_bytes, _BYTES_EXPECTED),
    "memory.low": (_bytes, _BYTES_EXPECTED),
    "memory.high": (_bytes, _BYTES_EXPECTED),
    "memory.max": (_bytes, _BYTES_EXPECTED),
    "memory.swap.max": (_bytes, _BYTES_EXPECTED),
    "memory.oom.group": (_flag, "0 or 1"),
    "pids.max": (_pids, f"0 to {MAX_PIDS}, or max"),
    "io.weight": (_io_weights(MIN_IO_WEIGHT, MAX_IO_WEIGHT), "1 to 10000"),
    "io.bfq.weight": (_io_weights(MIN_BFQ_WEIGHT, MAX_BFQ_WEIGHT), "1 to 1000"),
    "io.max": (_io_max, "lines such as 8:0 rbps=1048576 wiops=max"),
}
