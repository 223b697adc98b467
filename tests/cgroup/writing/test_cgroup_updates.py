from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.trees import POD

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.kernel_text import (
    amount,
    equal,
    growth,
    number_in,
    putting_back,
    same,
    writes,
)
from nriplugin.cgroup.writing.merging import MERGES, larger, union
from nriplugin.cgroup.writing.updates import Update
from nriplugin.convert.cpu_list import parse_cpus, render_cpus

cpus = st.frozensets(st.integers(0, 200), max_size=20)
amounts = st.one_of(st.integers(0, 2**63 - 1).map(str), st.just("max"), st.just("-1"))


@given(cpus, cpus)
def test_union_holds_both(held: frozenset[int], wanted: frozenset[int]) -> None:
    """The merge of two cpusets holds exactly the members of both."""
    merged = union(render_cpus(held), render_cpus(wanted))
    assert parse_cpus(merged) == held | wanted
    assert merged == union(render_cpus(wanted), render_cpus(held))


@given(amounts, amounts)
def test_larger_is_one_of_the_two_and_not_below_either(held: str, wanted: str) -> None:
    """The merge of two amounts is the one that is at least as large as both."""
    merged = larger(held, wanted)
    assert merged in (held, wanted)
    assert amount(merged) == max(amount(held), amount(wanted))


@pytest.mark.parametrize("word", ["max", "-1", "max\n"])
def test_no_limit_is_larger_than_anything(word: str) -> None:
    """No limit, on either version, wins against every number."""
    assert amount(word) == inf
    assert larger("17592186044415", word) == word
    assert larger(word, "17592186044415") == word


def test_merges_are_for_the_types_that_parents_and_children_share() -> None:
    """Sets are united, amounts take the larger, and no other type has a merge."""
    sets = {Type.CPUSET_CPUS, Type.CPUSET_MEMS}
    amounts = {Type.MEMORY_MIN, Type.MEMORY_LOW, Type.CPU_QUOTA, Type.CPU_BURST}
    assert MERGES.keys() == sets | amounts
    assert {MERGES[type_] for type_ in sets} == {union}
    assert {MERGES[type_] for type_ in amounts} == {larger}


def test_updates_are_equal_by_what_they_ask_for() -> None:
    """Type, cgroup, value and origin count, and an update can be in a set."""
    one = Update(Type.CPU_WEIGHT, POD, 200, origin="test")
    assert one == Update(Type.CPU_WEIGHT, POD, 200, origin="test")
    assert len({one, Update(Type.CPU_WEIGHT, POD, 200, origin="test")}) == 1
    for other in (
        Update(Type.CPU_SHARES, POD, 200, origin="test"),
        Update(Type.CPU_WEIGHT, "/kubepods", 200, origin="test"),
        Update(Type.CPU_WEIGHT, POD, 201, origin="test"),
        Update(Type.CPU_WEIGHT, POD, 200),
        "Update",
    ):
        assert one != other
    assert repr(one) == f"Update({Type.CPU_WEIGHT!r}, {POD!r}, 200, 'test')"


def test_limits_of_two_devices_are_two_values() -> None:
    """Updates are the same if type, cgroup and device are."""
    first = Update(Type.IO_READ_BPS, POD, "8:0 1000")
    assert first.key == Update(Type.IO_READ_BPS, POD, "8:0 2000").key
    assert first.key != Update(Type.IO_READ_BPS, POD, "8:16 1000").key
    assert first.key != Update(Type.IO_WRITE_BPS, POD, "8:0 1000").key


@pytest.mark.parametrize(
    ("file", "wanted", "held"),
    [
        ("cpu.max", "50000", "50000 100000\n"),
        ("cpu.max", "max", "max 100000\n"),
        ("cpu.max", "50000 100000", "50000 100000\n"),
        ("cpuset.cpus", "0,1,2,8", "0-2,8\n"),
        ("cpuset.cpus", "0-6:1/2", "0,2,4,6\n"),
        ("memory.max", "5000", "4096\n"),
        ("memory.max", "4095", "0\n"),
        ("memory.high", "9223372036854771712", "max\n"),
        ("memory.max", "1M", "1048576\n"),
        ("memory.limit_in_bytes", "-1", "9223372036854771712\n"),
        ("hugetlb.2MB.max", "2097153", "2097152\n"),
        ("pids.max", "max", "max\n"),
        ("cpu.cfs_quota_us", "-1", "-1\n"),
        ("io.max", "8:0 rbps=1000", "8:0 rbps=1000 wbps=max riops=max wiops=max\n"),
        ("io.max", "8:0 rbps=max", ""),
        ("io.weight", "200", "default 200\n8:0 50\n"),
        ("blkio.throttle.read_bps_device", "8:0 0", ""),
    ],
)
def test_what_the_kernel_makes_of_a_value_is_the_value(
    file: str, wanted: str, held: str
) -> None:
    """Rounding, spelling and completion by the kernel are no difference."""
    assert same(file, wanted, held)


@pytest.mark.parametrize(
    ("file", "wanted", "held"),
    [
        ("cpu.max", "50000 50000", "50000 100000"),
        ("cpu.max", "50000", "max 100000"),
        ("cpuset.cpus", "0-2", "0-3"),
        ("cpuset.cpus", "0-2", "nonsense"),
        ("memory.max", "8192", "4096"),
        ("memory.oom.group", "1", "0"),
        ("cpu.weight", "100", "101"),
        ("io.max", "8:0 rbps=1000", "8:0 rbps=2000 wbps=max"),
        ("io.max", "8:0 rbps=1000", "8:16 rbps=1000"),
        ("io.weight", "200", "default 100\n8:0 200"),
    ],
)
def test_another_value_is_a_difference(file: str, wanted: str, held: str) -> None:
    """What the kernel would not have made of it is a difference."""
    assert not same(file, wanted, held)


def test_whole_files_are_equal_only_if_neither_has_more() -> None:
    """An added device makes two texts of a file different, either way round."""
    assert not equal("io.max", "", "8:0 rbps=1 wbps=max")
    assert not equal("io.max", "8:0 rbps=1", "")
    assert equal("io.max", "8:0 rbps=1 wbps=max", "8:0 rbps=1")


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("cpuset.cpus", "1-4", "1-5", 1),
        ("cpuset.cpus", "1-5", "4-5", -1),
        ("cpuset.cpus", "1-4", "4-5", 0),
        ("cpuset.cpus", "", "4-5", 0),
        ("cpu.max", "50000 100000", "50000 50000", 1),
        ("cpu.max", "max 100000", "50000 50000", -1),
        ("cpu.max", "50000 100000", "max 100000", 1),
        ("memory.min", "0", "4096", 1),
        ("memory.limit_in_bytes", "-1", "4096", -1),
        ("cpu.cfs_quota_us", "50000", "-1", 1),
        ("io.max", "8:0 rbps=1", "8:0 rbps=2", 0),
        ("cpu.weight", "x", "1", 0),
        ("cpu.max", "", "1 1", 0),
    ],
)
def test_growth(file: str, old: str, new: str, expected: int) -> None:
    """A value grows if it allows more; what cannot be compared does neither."""
    assert growth(file, old, new) == expected


def test_numbers_to_compare_pairs_by() -> None:
    """The quota of cpu.max is its first word; bytes count in pages."""
    assert number_in("cpu.max", "50000 100000") == 50000
    assert number_in("cpu.max", "max 100000") == inf
    assert number_in("memory.limit_in_bytes", "8192") == 2


def test_putting_back_takes_our_devices_away_by_name() -> None:
    """A file with a line per device loses the lines that we added, and only those."""
    assert putting_back("cpu.weight", "100", ["200"]) == "100"
    assert putting_back(
        "io.max", "8:0 rbps=1", ["8:0 rbps=2 wbps=3\n8:16 riops=4"]
    ) == ("8:0 rbps=1\n8:0 wbps=max\n8:16 riops=max")
    assert putting_back("io.weight", "default 100", ["default 100\n8:0 50"]) == (
        "default 100\n8:0 default"
    )
    assert putting_back("blkio.throttle.read_bps_device", "", ["8:0 5"]) == "8:0 0"


def test_devices_are_written_line_by_line_and_nothing_as_an_empty_line() -> None:
    """The kernel reads one line per write, and no write of no bytes."""
    assert writes("io.max", "8:0 rbps=1\n8:16 rbps=2") == ["8:0 rbps=1", "8:16 rbps=2"]
    assert writes("cpuset.cpus", "") == ["\n"]
    assert writes("cpu.max", "max 100000") == ["max 100000"]
