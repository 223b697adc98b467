"""What stands in the files: from text to values and back, without any I/O.

A parser gets what the kernel shows and raises ValueError when it is something else; its
renderer makes the same text again. "No limit" is -1 for every file, whatever the file
itself calls it (`max`, `-1`, or on cgroup v1 the largest multiple of a page).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

UNLIMITED = -1

# cgroup v1 shows no limit as 2^63 rounded down to a page (9223372036854771712, if it is
# 4 KiB) or to a huge page, of which the largest is 16 GiB.
_V1_NO_LIMIT = (1 << 63) - (1 << 34) - 1

# The kernel's own bound (CONFIG_NR_CPUS); nodes are fewer. A list such as
# 0-99999999999 must not fill our memory.
MAX_CPUS = 8192

# The unit of cpuacct.stat on v1; the same on every architecture of interest.
USER_HZ = 100


class CpuMax(NamedTuple):
    """cgroup v2's cpu.max; a quota of -1 is none."""

    quota_us: int
    period_us: int


@dataclass(frozen=True, slots=True)
class Stall:
    """One line of pressure: percentages of the time, and the time since ever."""

    avg10: float
    avg60: float
    avg300: float
    total_us: int


@dataclass(frozen=True, slots=True)
class Pressure:
    """Pressure stall information; `full` is absent for cpu before Linux 5.13."""

    some: Stall
    full: Stall | None


def parse_number(text: str) -> int:
    """Read a whole number.

    Raises:
        ValueError: it is not one.
    """
    return int(text)


def parse_limit(text: str) -> int:
    """Read a number, or `max`."""
    return UNLIMITED if text.strip() == "max" else int(text)


def parse_limit_v1(text: str) -> int:
    """Read a number that may be -1, or too large to be a limit."""
    number = int(text)
    return UNLIMITED if number < 0 or number >= _V1_NO_LIMIT else number


def render_limit(number: int, word: str = "max") -> str:
    """Write a number, or what the file calls no limit."""
    return word if number == UNLIMITED else str(number)


def parse_cpu_max(text: str) -> CpuMax:
    """Read `max 100000` or `200000 100000`.

    Raises:
        ValueError: not two words, or not numbers.
    """
    words = text.split()
    if len(words) != 2:
        raise ValueError(f"{len(words)} words, expected a quota and a period")
    return CpuMax(parse_limit(words[0]), int(words[1]))


def render_cpu_max(value: CpuMax) -> str:
    """Write both, so that neither is lost."""
    return f"{render_limit(value.quota_us)} {value.period_us}"


def parse_cpus(text: str) -> frozenset[int]:
    """Read a list such as 0-3,8; also with strides, 0-7:1/2.

    Raises:
        ValueError: it is not a list, or a number is beyond what kernels have.
    """
    numbers: set[int] = set()
    for part in text.strip().split(","):
        if not part:
            continue
        bounds, _, stride = part.partition(":")
        first, dash, last = bounds.partition("-")
        low, high = _digits(first), _digits(last if dash else first)
        if not low <= high < MAX_CPUS:
            raise ValueError(f"{part!r}, expected numbers below {MAX_CPUS}, rising")
        used, slash, group = stride.partition("/")
        if not stride:
            numbers.update(range(low, high + 1))
            continue
        taken, every = _digits(used), _digits(group)
        if not slash or not 0 < taken <= every:
            raise ValueError(f"{part!r}, expected FIRST-LAST:USED/GROUP")
        numbers.update(n for n in range(low, high + 1) if (n - low) % every < taken)
    return frozenset(numbers)


def render_cpus(numbers: Iterable[int]) -> str:
    """Write the shortest list, as the kernel shows it; none is an empty text."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def parse_counters(text: str) -> dict[str, int]:
    """Read lines of a name and a number: cpu.stat, memory.stat, memory.events."""
    counters = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        counters[name] = int(number)
    return counters


def render_counters(counters: Mapping[str, int]) -> str:
    """Write one line each."""
    return "".join(f"{name} {number}\n" for name, number in counters.items())


def parse_devices(text: str) -> dict[str, dict[str, int]]:
    """Read lines of a device and key=number: io.stat, io.max.

    Some kernels end no line after a device without traffic: `7:1 7:0 8:0 rbytes=4096`.
    """
    devices: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        first, *words = line.split()
        fields = devices.setdefault(_device(first), {})
        for word in words:
            key, equals, number = word.partition("=")
            if equals:
                # blk-iocost's debug counters are not whole numbers.
                fields[key] = parse_limit(number.partition(".")[0])
            else:
                fields = devices.setdefault(_device(word), {})
    return devices


def render_devices(devices: Mapping[str, Mapping[str, int]]) -> str:
    """Write one line each."""
    return "".join(
        " ".join([device, *(f"{key}={render_limit(n)}" for key, n in fields.items())])
        + "\n"
        for device, fields in devices.items()
    )


def parse_device_numbers(text: str) -> dict[str, int]:
    """Read lines of a device and a number; io.weight's first line names no device."""
    numbers = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 1:  # v1's blkio.bfq.weight shows its default alone
            words = ["default", *words]
        device, number = words
        if device != "default":
            _device(device)
        numbers[device] = int(number)
    return numbers


def render_device_numbers(numbers: Mapping[str, int]) -> str:
    """Write one line each."""
    return render_counters(numbers)


def parse_blkio(text: str) -> dict[str, dict[str, int]]:
    """Read v1's `8:0 Read 4096`; the last line, the sum of all, is left out."""
    devices: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "Total":
            continue
        device, what, number = words
        devices.setdefault(_device(device), {})[what.lower()] = int(number)
    return devices


def render_blkio(devices: Mapping[str, Mapping[str, int]]) -> str:
    """Write one line per device and kind."""
    return "".join(
        f"{device} {what.capitalize()} {number}\n"
        for device, fields in devices.items()
        for what, number in fields.items()
    )


def parse_pressure(text: str) -> Pressure:
    """Read `some avg10=0.00 avg60=0.00 avg300=0.00 total=0` and its `full` twin."""
    stalls = {}
    for line in text.splitlines():
        kind, *pairs = line.split()
        fields = dict(pair.split("=", 1) for pair in pairs)
        try:
            stalls[kind] = Stall(
                float(fields["avg10"]),
                float(fields["avg60"]),
                float(fields["avg300"]),
                int(fields["total"]),
            )
        except KeyError:
            raise ValueError(f"{line!r}, expected three averages and total") from None
    if "some" not in stalls:
        raise ValueError("no line `some`")
    return Pressure(stalls["some"], stalls.get("full"))


def render_pressure(pressure: Pressure) -> str:
    """Write one or two lines, averages with two decimals."""
    lines = []
    for kind, stall in (("some", pressure.some), ("full", pressure.full)):
        if stall is not None:
            lines.append(
                f"{kind} avg10={stall.avg10:.2f} avg60={stall.avg60:.2f} "
                f"avg300={stall.avg300:.2f} total={stall.total_us}\n"
            )
    return "".join(lines)


def parse_ids(text: str) -> tuple[int, ...]:
    """Read one process or thread per line."""
    return tuple(map(int, text.split()))


def render_ids(ids: Iterable[int]) -> str:
    """Write one per line."""
    return "".join(f"{one}\n" for one in ids)


def parse_meminfo(text: str) -> dict[str, int]:
    """Read /proc/meminfo; amounts are in bytes, counts of pages stay counts."""
    amounts = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        number, *unit = rest.split()
        amounts[name] = int(number) * (1024 if unit == ["kB"] else 1)
    return amounts


def parse_schemata(text: str) -> dict[str, str]:
    """Read resctrl's lines of `RESOURCE:DOMAIN=MASK;...`, which come indented."""
    resources = {}
    for line in text.splitlines():
        name, colon, domains = line.strip().partition(":")
        if not colon:
            raise ValueError(f"{line!r}, expected RESOURCE:DOMAINS")
        resources[name] = domains
    return resources


def _device(name: str) -> str:
    major, colon, minor = name.partition(":")
    if not (colon and major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"{name!r}, expected a device MAJOR:MINOR")
    return name


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise ValueError(f"{text!r}, expected digits")
    return int(text)
