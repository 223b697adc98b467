"""Texts of the kernel's files: every text that a kernel shows is parsed.

The functions named `show_...` write a text as the kernel does.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.cgroup.types import formats
from nriplugin.cgroup.types.formats import CpuMax, Pressure, Stall
from nriplugin.cgroup.types.registry import Registry, Type
from nriplugin.convert.cpu_list import parse_cpus, render_cpus

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

COUNT = st.integers(0, 2**64 - 1)
LIMIT = st.one_of(st.just(-1), st.integers(0, 2**63 - 1))
KEY = st.from_regex(r"[a-z_][a-z_0-9]{0,20}", fullmatch=True)
DEVICE = st.tuples(st.integers(0, 4095), st.integers(0, 2**20 - 1)).map(
    lambda pair: f"{pair[0]}:{pair[1]}"
)
PERCENT = st.integers(0, 10_000).map(lambda hundredths: hundredths / 100)
STALL = st.builds(Stall, PERCENT, PERCENT, PERCENT, COUNT)


def show_numbers(numbers: Mapping[str, int]) -> str:
    return "".join(f"{name} {number}\n" for name, number in numbers.items())


def show_devices(devices: Mapping[str, Mapping[str, int]]) -> str:
    lines = []
    for device, fields in devices.items():
        pairs = [f"{key}={formats.render_limit(n)}" for key, n in fields.items()]
        lines.append(" ".join([device, *pairs]) + "\n")
    return "".join(lines)


def show_blkio(devices: Mapping[str, Mapping[str, int]]) -> str:
    return "".join(
        f"{device} {what.capitalize()} {number}\n"
        for device, fields in devices.items()
        for what, number in fields.items()
    )


def show_pressure(pressure: Pressure) -> str:
    return "".join(
        f"{kind} avg10={stall.avg10:.2f} avg60={stall.avg60:.2f} "
        f"avg300={stall.avg300:.2f} total={stall.total_us}\n"
        for kind, stall in (("some", pressure.some), ("full", pressure.full))
        if stall is not None
    )


def show_ids(ids: Iterable[int]) -> str:
    return "".join(f"{one}\n" for one in ids)


CODECS: dict[str, tuple[Any, Any, Any]] = {
    "number": (formats.parse_number, str, st.integers(-(2**31), 2**63)),
    "limit": (formats.parse_limit, formats.render_limit, LIMIT),
    "v1 limit": (
        formats.parse_limit_v1,
        lambda number: formats.render_limit(number, "-1"),
        st.one_of(st.just(-1), st.integers(0, 2**62)),
    ),
    "cpu.max": (
        formats.parse_cpu_max,
        formats.render_cpu_max,
        st.builds(CpuMax, LIMIT, st.integers(1000, 1_000_000)),
    ),
    "list": (
        parse_cpus,
        render_cpus,
        st.frozensets(st.integers(0, 8191), max_size=50),
    ),
    "counters": (
        formats.parse_counters,
        show_numbers,
        st.dictionaries(KEY, COUNT),
    ),
    "devices": (
        formats.parse_devices,
        show_devices,
        st.dictionaries(
            DEVICE, st.dictionaries(KEY, LIMIT, min_size=1, max_size=4), max_size=4
        ),
    ),
    "device numbers": (
        formats.parse_device_numbers,
        show_numbers,
        st.dictionaries(st.one_of(st.just("default"), DEVICE), COUNT),
    ),
    "blkio": (
        formats.parse_blkio,
        show_blkio,
        st.dictionaries(
            DEVICE,
            st.dictionaries(st.sampled_from(["read", "write"]), COUNT, min_size=1),
        ),
    ),
    "pressure": (
        formats.parse_pressure,
        show_pressure,
        st.builds(Pressure, STALL, st.one_of(st.none(), STALL)),
    ),
    "ids": (
        formats.parse_ids,
        show_ids,
        st.lists(st.integers(1, 2**22)).map(tuple),
    ),
}


@pytest.mark.parametrize("name", CODECS)
@given(data=st.data())
def test_what_is_written_is_read(name: str, data: st.DataObject) -> None:
    """A value that is shown as the kernel shows it is parsed to the same value."""
    parse, render, values = CODECS[name]
    value = data.draw(values)
    text = render(value)
    assert parse(text) == value
    if text and not text.endswith("\n"):
        assert parse(f"{text}\n") == value
    assert render(parse(text)) == text


@pytest.mark.parametrize("name", CODECS)
@given(text=st.text(max_size=60))
def test_any_other_text_is_a_value_error(name: str, text: str) -> None:
    """Any other text raises ValueError and no other exception."""
    parse = CODECS[name][0]
    with contextlib.suppress(ValueError):
        parse(text)


# What may be given to a type, on each version that has it.
GIVEN: dict[Type, Any] = {
    Type.CPU_SHARES: st.integers(2, 262_144),
    Type.CPU_WEIGHT: st.integers(1, 10_000),
    Type.CPU_IDLE: st.integers(0, 1),
    Type.CPU_QUOTA: st.one_of(st.just(-1), st.integers(1000, 2**44 - 1)),
    Type.CPU_PERIOD: st.integers(1000, 1_000_000),
    Type.CPU_BURST: st.integers(0, 2**44 - 1),
    Type.MEMORY_LIMIT: st.one_of(st.just(-1), st.integers(0, 2**62)),
    Type.MEMORY_MIN: st.one_of(st.just(-1), st.integers(0, 2**62)),
    Type.PIDS_MAX: st.one_of(st.just(-1), st.integers(0, 2**22)),
    Type.HUGETLB_2MB: st.one_of(st.just(-1), st.integers(0, 2**62)),
    Type.CPU_QOS_LEVEL: st.integers(-2, 2),
    Type.MEMORY_QOS_LEVEL: st.integers(-1024, 1023),
}
REGISTRIES = {version: Registry(version) for version in (1, 2)}


@pytest.mark.parametrize("version", [1, 2])
@given(data=st.data())
def test_what_is_set_is_what_is_got(version: int, data: st.DataObject) -> None:
    """A type of one number takes it as number or as text."""
    resources = [one for one in REGISTRIES[version] if one.type in GIVEN]
    resource = data.draw(st.sampled_from(resources))
    value = data.draw(GIVEN[Type(resource.type)])
    current = "max 100000\n" if resource.content.partial else None
    for given_as in (value, str(value)):
        assert resource.parse(resource.format(given_as, current)) == value


def test_no_limit_is_minus_one_however_it_is_spelt() -> None:
    """`max`, -1 and v1's largest multiple of any page are all -1."""
    assert formats.parse_limit("max\n") == -1
    for text in ("-1", "9223372036854771712", "9223372036854710272"):
        assert formats.parse_limit_v1(text) == -1
    for huge_page in (1 << 21, 1 << 30, 1 << 34):
        largest = (2**63 - 1) // huge_page * huge_page
        assert formats.parse_limit_v1(str(largest)) == -1
    # What the kubelet gives the huge pages of a QoS class is a number all the same.
    assert formats.parse_limit_v1(str(2**62)) == 2**62
    assert formats.parse_limit(str(2**62)) == 2**62


@pytest.mark.parametrize(
    ("text", "value"),
    [("max 100000", (-1, 100000)), ("100000 100000\n", (100000,) * 2)],
)
def test_cpu_max(text: str, value: tuple[int, int]) -> None:
    """cpu.max is a quota and a period."""
    assert formats.parse_cpu_max(text) == value


@pytest.mark.parametrize("text", ["", "max", "100000", "1 2 3", "x 100000", "max max"])
def test_cpu_max_has_two_words(text: str) -> None:
    """A text without exactly two words is an error."""
    with pytest.raises(ValueError, match=r"."):
        formats.parse_cpu_max(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("\n", ""),
        ("3,1,2", "1-3"),
        ("0-3,8,", "0-3,8"),
        ("0-7:1/2", "0,2,4,6"),
        ("0-7:2/4", "0-1,4-5"),
        ("5-5", "5"),
    ],
)
def test_lists_of_cpus(text: str, canonical: str) -> None:
    """Every spelling that the kernel takes becomes the one that it shows."""
    assert render_cpus(parse_cpus(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "3-1",
        "1-",
        "-1",
        "1--2",
        "0-99999999999",
        "8192",
        "0:1/2/3",
        "0-3:3/2",
        "1;2",
        "0-3:1/0",
        "١",
        "1_0",
        "0-3:/",
        "0-3:",
        "5:1/2",
    ],
)
def test_what_is_no_list_of_cpus(text: str) -> None:
    """Other texts are refused, and so are lists too long to keep in memory."""
    with pytest.raises(ValueError, match="expected"):
        parse_cpus(text)


def test_pressure_without_full_is_an_old_kernels_cpu() -> None:
    """It had only `some` before Linux 5.13."""
    text = "some avg10=1.00 avg60=0.50 avg300=0.25 total=7\n"
    assert formats.parse_pressure(text) == Pressure(Stall(1.0, 0.5, 0.25, 7), None)
    for wrong in ("", "full avg10=0 avg60=0 avg300=0 total=0", "some avg10=0 total=1"):
        with pytest.raises(ValueError, match=r"some|expected"):
            formats.parse_pressure(wrong)


def test_io_stat_may_hold_fractions_and_devices_without_traffic() -> None:
    """blk-iocost's debug counters are fractions; some lines are a device alone."""
    text = "8:0 rbytes=1 cost.vrate=100.00 cost.usage=0\n7:0 \n"
    expected = {"8:0": {"rbytes": 1, "cost.vrate": 100, "cost.usage": 0}, "7:0": {}}
    assert formats.parse_devices(text) == expected


def test_io_stat_of_kernels_that_forget_the_end_of_a_line() -> None:
    """A device without traffic is followed by the next one."""
    text = "7:1 7:0 8:0 rbytes=4096 wbytes=1\n8:16 rbytes=2\n"
    expected = {"7:1": {}, "7:0": {}, "8:0": {"rbytes": 4096, "wbytes": 1}}
    assert formats.parse_devices(text) == {**expected, "8:16": {"rbytes": 2}}


def test_weights_by_device() -> None:
    """v2 shows `default`, v1's file of BFQ shows its default alone."""
    assert formats.parse_device_numbers("default 100\n8:0 50\n") == {
        "default": 100,
        "8:0": 50,
    }
    assert formats.parse_device_numbers("100\n") == {"default": 100}
