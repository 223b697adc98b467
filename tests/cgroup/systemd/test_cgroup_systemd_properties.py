"""What systemd is told for the content of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.vectors import Exceptions, Vector, each, vectors

from nriplugin.cgroup.systemd.properties import INFINITY, settled, unit_properties

if TYPE_CHECKING:
    from collections.abc import Callable


def holding(content: str = "") -> Callable[[], str]:
    return lambda: content


def told(file: str, content: str, held: str = "") -> dict[str, Any] | None:
    """Return names and values, without the signatures."""
    properties = unit_properties(file, content, holding(held))
    if properties is None:
        return None
    return {name: value for name, (_, value) in properties}


@each("systemd/RangeToBits/")
def test_a_list_is_a_bit_mask_with_the_lowest_byte_first(vector: Vector) -> None:
    """The mask is the one that runtimes send."""
    cpus, mask = vector.input["cpus"], bytes(vector.expect["bytes"])
    assert told("cpuset.cpus", cpus) == {"AllowedCPUs": mask}
    assert told("cpuset.mems", cpus) == {"AllowedMemoryNodes": mask}


def test_an_empty_list_takes_the_restriction_away() -> None:
    """An empty mask removes the restriction."""
    assert told("cpuset.cpus", "\n") == {"AllowedCPUs": b""}


def one_file(vector: Vector) -> bool:
    """Whether runc was given nothing but the content of one file."""
    resources = vector.input["linux.resources"]
    only_unified = list(resources) == ["unified"] and len(resources["unified"]) == 1
    return only_unified and vector.expect is not None


RUNC = [vector for vector in vectors("systemd-props/v262/") if one_file(vector)]

_PREFIX = "systemd-props/v262/unified"
DIFFERENCES = Exceptions(
    {
        f"{_PREFIX} memory.zswap.max": "runc writes it to the file only",
        f"{_PREFIX} io.weight='default 500'": "the same",
    }
)


@pytest.mark.parametrize("vector", RUNC, ids=lambda vector: vector.id)
def test_a_file_becomes_the_properties_that_runc_sends(vector: Vector) -> None:
    """The properties are those of runc, except for the listed cases."""
    ((file, content),) = vector.input["linux.resources"]["unified"].items()
    ours = {name: _shown(v) for name, v in (told(file, content) or {}).items()}
    theirs = dict(item.split("=", 1) for item in vector.expect["properties"])
    DIFFERENCES.compare(vector.id, ours, theirs)


def _shown(value: object) -> str:
    return str(list(value)) if isinstance(value, bytes) else str(value)


@pytest.mark.parametrize(
    ("content", "per_second", "file"),
    [
        ("50000 100000", 500_000, "50000 100000"),
        ("12345 100000", 130_000, "13000 100000"),
        ("33333 50000", 670_000, "33500 50000"),
        ("112345 100000", 1_130_000, "113000 100000"),
        ("1000 1000000", 10_000, "10000 1000000"),
        ("max 100000", INFINITY, "max 100000"),
    ],
)
def test_a_quota_is_rounded_up_to_whole_percents(
    content: str, per_second: int, file: str
) -> None:
    """A rounded quota is not changed by a daemon-reload."""
    period = int(content.split()[1])
    assert told("cpu.max", content) == {
        "CPUQuotaPerSecUSec": per_second,
        "CPUQuotaPeriodUSec": period,
    }
    assert settled("cpu.max", content) == file


@given(st.integers(1000, 1 << 44), st.integers(1000, 1_000_000))
def test_a_quota_never_shrinks_and_grows_by_one_step_at_most(
    quota: int, period: int
) -> None:
    """Rounding a rounded quota again changes nothing."""
    properties = told("cpu.max", f"{quota} {period}")
    assert properties is not None
    per_second = properties["CPUQuotaPerSecUSec"]
    assert per_second % 10_000 == 0
    assert 0 <= per_second * period - quota * 1_000_000 < 10_000 * period
    after = settled("cpu.max", f"{quota} {period}")
    if int(after.split()[0]) * 1_000_000 == per_second * period:  # a whole number
        assert told("cpu.max", after) == properties


def test_a_quota_alone_keeps_the_period() -> None:
    """The period is that of the file, or the kernel's default."""
    assert told("cpu.max", "5000", "max 50000\n") == {
        "CPUQuotaPerSecUSec": 100_000,
        "CPUQuotaPeriodUSec": 50_000,
    }
    assert told("cpu.max", "max", "") == {
        "CPUQuotaPerSecUSec": INFINITY,
        "CPUQuotaPeriodUSec": 100_000,
    }


def test_idle_is_a_weight_of_zero() -> None:
    """Leaving idle is the default weight, but only for a cgroup that is idle."""
    assert told("cpu.idle", "1", "0\n") == {"CPUWeight": 0}
    assert told("cpu.idle", "0", "1\n") == {"CPUWeight": INFINITY}
    assert told("cpu.idle", "0", "0\n") is None


def test_a_weight_per_device_is_a_device_weight() -> None:
    """The node's name of a device is found by its numbers."""
    assert told("io.weight", "default 300") == {"IOWeight": 300}
    assert told("io.weight", "300") == {"IOWeight": 300}
    assert told("io.weight", "default 50\n8:16 200") == {
        "IOWeight": 50,
        "IODeviceWeight": [("/dev/block/8:16", 200)],
    }
    assert told("io.weight", "8:16 default") is None


def test_all_rates_of_a_device_are_told() -> None:
    """Rates that the text does not name are taken from the file."""
    held = "8:0 rbps=max wbps=7 riops=max wiops=9\n8:16 rbps=1 wbps=1 riops=1 wiops=1\n"
    node = "/dev/block/8:0"
    assert told("io.max", "8:0 rbps=5 wiops=max", held) == {
        "IOReadBandwidthMax": [(node, 5)],
        "IOWriteBandwidthMax": [(node, 7)],
        "IOReadIOPSMax": [(node, INFINITY)],
        "IOWriteIOPSMax": [(node, INFINITY)],
    }
    assert told("io.max", "8:0 rbps=5") == {"IOReadBandwidthMax": [(node, 5)]}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("cpu.max.burst", "1000"),
        ("cpu.weight.nice", "0"),
        ("memory.oom.group", "1"),
        ("memory.swap.high", "max"),
        ("hugetlb.2MB.max", "0"),
        ("io.bfq.weight", "100"),
        ("cgroup.freeze", "1"),
        ("", ""),
        # What its property does not take.
        ("memory.max", "0"),
        ("memory.high", "0"),
        ("pids.max", "0"),
        # Texts that are for the kernel to refuse.
        ("memory.max", "64M"),
        ("memory.max", "-1"),
        ("memory.max", ""),
        ("memory.max", "9" * 30),
        ("cpu.weight", "max"),
        ("cpu.weight", "²"),
        ("cpu.idle", "2"),
        ("cpu.max", ""),
        ("cpu.max", "1000 0"),
        ("cpu.max", "1000 x"),
        ("cpuset.cpus", "a-b"),
        ("cpuset.cpus", "0-99999999999"),
        ("io.weight", ""),
        ("io.weight", "/dev/sda 100"),
        ("io.weight", "8:0/../.. 100"),
        ("io.max", ""),
        ("io.max", "8:0 speed=1"),
        ("io.max", "sda rbps=1"),
    ],
)
def test_what_systemd_cannot_be_told_is_left_to_the_file(
    file: str, content: str
) -> None:
    """A text that no property can express gives None."""
    assert told(file, content) is None


@given(st.sampled_from(["memory.max", "cpu.max", "io.max", "io.weight"]), st.text())
def test_no_text_is_too_strange(file: str, content: str) -> None:
    """Any text gives properties or None, and no exception."""
    unit_properties(file, content, holding(content))
    settled(file, content)
