"""What the kernel accepts in a cgroup file: the only place that says so.

It holds the bounds of numbers, which files hold numbers of bytes, and `check`, which
judges the whole text of a cgroup v2 file. The bounds were measured on Linux 6.1, 6.12
and 7.2; those of cgroup v1 files with a v2 counterpart are the same.

`check` is for texts that a user wrote, in `unified` or in an annotation. It refuses a
text that the kernel would refuse, because the runtime then fails the container, and a
text that the kernel would take for another number (a leading zero means octal in most
files). What depends on the node, such as how many CPUs it has, is not judged here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nriplugin.convert.cpu_list import CPU_LIST_EXPECTED, parse_cpus
from nriplugin.convert.model import UNLIMITED
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.convert.model import Amount

MIN_PERIOD_US, MAX_PERIOD_US, DEFAULT_PERIOD_US = 1000, 1_000_000, 100_000
# The kernel's MAX_BW: it shifts quota / period left by 20 bits (BW_SHIFT) in 64 bits,
# so 44 bits are left for a quota in microseconds.
MIN_QUOTA_US, MAX_QUOTA_US = 1000, (1 << 44) - 1
MAX_PIDS = 4_194_304
MIN_V1_IO_WEIGHT, MAX_V1_IO_WEIGHT = 10, 1000
MIN_BFQ_WEIGHT, MAX_BFQ_WEIGHT = 1, 1000
MIN_IO_WEIGHT, MAX_IO_WEIGHT = 1, 10_000
MAX_NUMBER = (1 << 64) - 1
THROTTLE_KEYS = ("rbps", "wbps", "riops", "wiops")

# The files of the memory controller that hold a number of bytes or `max`. The kernel
# takes suffixes in them and rounds down to whole pages. Those of hugetlb do likewise.
BYTE_FILES = frozenset(
    f"memory.{name}"
    for name in ("min", "low", "high", "max", "swap.max", "swap.high", "zswap.max")
)

# No number that the kernel takes has more digits than 2^64 - 1.
_MAX_DIGITS = 20
_BYTES = re.compile(r"\s*(?:([0-9]{1,20})([kKmMgGtTpPeE]?)|max)\s*")
_UNITS = "KMGTPE"
# The kernel reads these files as decimal. In all others it reads 010 as 8, and refuses
# 09, so a leading zero is refused there.
_DECIMAL_FILES = frozenset(
    {"cpu.max", "cpuset.cpus", "cpuset.mems", "io.max", "io.weight"}
    | {"cpu.uclamp.min", "cpu.uclamp.max"}
)
LEADING_ZERO = re.compile(r"(?<![0-9.])0[0-9]")
NO_LEADING_ZERO = "a number without a leading zero, which the kernel reads as octal"


def check(file: str, value: str, *, field: str | None = None) -> None:
    """Refuse a text that the kernel refuses or misreads; a file not listed here passes.

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
        return  # writing an empty text changes nothing
    if not value.isascii() or not accepts(value):
        raise ConversionError(field or file, value, expected)
    if file not in _DECIMAL_FILES and LEADING_ZERO.search(value):
        raise ConversionError(field or file, value, NO_LEADING_ZERO)


def quota_in(cpu_max: str) -> Amount | None:
    """Return the quota in a valid line of cpu.max; None if the line is empty."""
    words = cpu_max.split()
    if not words:
        return None
    return UNLIMITED if words[0] == "max" else int(words[0])


def bytes_in(text: str) -> Amount | None:
    """Return the number of bytes in a text such as 4096, 128M or max.

    None if the kernel refuses the text.
    """
    found = _BYTES.fullmatch(text) if text.isascii() else None
    if found is None:
        return None
    digits, unit = found.groups()
    if digits is None:
        return UNLIMITED
    return int(digits) << 10 * (_UNITS.index(unit.upper()) + 1 if unit else 0)


def _number_in(text: str, low: int, high: int) -> bool:
    return _is_number(text) and low <= int(text) <= high


def _is_number(text: str, max_digits: int = _MAX_DIGITS) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= max_digits


def _weight(text: str) -> bool:
    # Unlike the other files, cpu.weight takes no space around its number.
    return _number_in(text.removesuffix("\n"), 1, 10_000)


def _flag(text: str) -> bool:
    return _number_in(text.strip(), 0, 1)


def _percent(text: str) -> bool:
    text = text.strip()
    whole, _, decimals = text.partition(".")
    if not _is_number(whole) or (decimals and not _is_number(decimals)):
        return text == "max"
    return int(whole) < 100 or (int(whole) == 100 and not decimals.strip("0"))


def _cpu_max(text: str) -> bool:
    # The kernel ignores everything after the second word.
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
    try:
        return bool(parse_cpus(text))
    except ValueError:
        return False


def _io_weights(low: int, high: int) -> Callable[[str], bool]:
    def line_ok(line: str) -> bool:
        weight = _after_device(line)
        if weight is not None:
            return weight == "default" or _number_in(weight, low, high)
        return _number_in(line.removeprefix("default ").strip(), low, high)

    return lambda text: all(line_ok(line.strip()) for line in text.strip().splitlines())


def _io_max(text: str) -> bool:
    return all(_io_max_line(line.strip()) for line in text.strip().splitlines())


def _io_max_line(line: str) -> bool:
    rates = _after_device(line)
    if rates is None:
        return False
    for word in rates.split():
        key, _, rate = word.partition("=")
        if key not in THROTTLE_KEYS:
            return False
        if rate != "max" and not _number_in(rate, 1, MAX_NUMBER):
            return False
    return True


def _after_device(line: str) -> str | None:
    """Return what follows MAJOR:MINOR in a line; None if it does not begin with one."""
    device, *rest = line.split(None, 1)
    major, _, minor = device.partition(":")
    if not rest or not (_is_number(major, 10) and _is_number(minor, 10)):
        return None
    return rest[0]


_PERCENT_EXPECTED = "a percentage such as 12.50, or max"
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
    "cpu.uclamp.min": (_percent, _PERCENT_EXPECTED),
    "cpu.uclamp.max": (_percent, _PERCENT_EXPECTED),
    "cpuset.cpus": (_cpu_list, CPU_LIST_EXPECTED),
    "cpuset.mems": (_cpu_list, CPU_LIST_EXPECTED),
    **dict.fromkeys(BYTE_FILES, (_bytes, _BYTES_EXPECTED)),
    "memory.oom.group": (_flag, "0 or 1"),
    "memory.zswap.writeback": (_flag, "0 or 1"),
    "pids.max": (_pids, f"0 to {MAX_PIDS}, or max"),
    "io.weight": (_io_weights(MIN_IO_WEIGHT, MAX_IO_WEIGHT), "1 to 10000"),
    "io.bfq.weight": (_io_weights(MIN_BFQ_WEIGHT, MAX_BFQ_WEIGHT), "1 to 1000"),
    "io.max": (_io_max, "lines such as 8:0 rbps=1048576 wiops=max"),
}
