"""The texts of the kernel's files, parsed into values. Pure.

A parser takes the text that the kernel shows and raises ValueError for any other text.
"No limit" is -1 in every value, whatever the file itself calls it: `max`, `-1`, or on
cgroup v1 the largest multiple of a page. Only limits are rendered as text here: the
other files that nriplugin writes hold plain numbers. Lists of CPUs are parsed by
`convert.cpu_list`.
"""

from __future__ import annotations

from typing import NamedTuple

UNLIMITED = -1

# cgroup v1 shows no limit as 2^63 rounded down to a page (9223372036854771712, if it is
# 4 KiB) or to a huge page, of which the largest is 16 GiB.
_V1_NO_LIMIT = (1 << 63) - (1 << 34) - 1

# cpuacct.stat on v1 counts in ticks of 1/100 s on every architecture that Kubernetes
# supports.
USER_HZ = 100


class CpuMax(NamedTuple):
    """cgroup v2's cpu.max; a quota of -1 is none."""

    quota_us: int
    period_us: int


class Stall(NamedTuple):
    """One line of a pressure file.

    The averages are percentages of the last 10, 60 and 300 seconds; the total is the
    time since the cgroup was made.
    """

    avg10: float
    avg60: float
    avg300: float
    total_us: int


class Pressure(NamedTuple):
    """Pressure stall information; `full` is absent for cpu before Linux 5.13."""

    some: Stall
    full: Stall | None

    def as_dict(self) -> dict[str, dict[str, float] | None]:
        """Return nested dictionaries, as JSON output has them."""
        full = None if self.full is None else self.full._asdict()
        return {"some": self.some._asdict(), "full": full}


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
    """Read a number of v1; -1 and the number that v1 shows for it are no limit."""
    number = int(text)
    return UNLIMITED if number < 0 or number >= _V1_NO_LIMIT else number


def render_limit(number: int, word: str = "max") -> str:
    """Return the text of a limit; `word` is what the file calls no limit."""
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
    """Return quota and period: the kernel would keep the period, not the quota."""
    return f"{render_limit(value.quota_us)} {value.period_us}"


def parse_counters(text: str) -> dict[str, int]:
    """Read lines of a name and a number: cpu.stat, memory.stat, memory.events."""
    counters = {}
    for line in text.splitlines():
        name, _, number = line.partition(" ")
        counters[name] = int(number)
    return counters


def parse_devices(text: str) -> dict[str, dict[str, int]]:
    """Read lines of a device and key=number: io.stat, io.max.

    Some kernels write no line end after a device without traffic, so one line may name
    several devices: `7:1 7:0 8:0 rbytes=4096`.
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


def parse_ids(text: str) -> tuple[int, ...]:
    """Read one process or thread per line."""
    return tuple(map(int, text.split()))


def _device(name: str) -> str:
    major, colon, minor = name.partition(":")
    if not (colon and major.isdecimal() and minor.isdecimal()):
        raise ValueError(f"{name!r}, expected a device MAJOR:MINOR")
    return name
