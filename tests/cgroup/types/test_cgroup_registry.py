"""Which file holds what, and what may be put there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.cgroup.types import contents
from nriplugin.cgroup.types.registry import Registry, Resource, Type
from nriplugin.errors import CgroupError, ConfigError

V1, V2 = Registry(1), Registry(2)

# Type -> controller and file on v1, and file on v2.
FILES = [
    (Type.CPU_SHARES, "cpu:cpu.shares", None),
    (Type.CPU_WEIGHT, None, "cpu.weight"),
    (Type.CPU_IDLE, "cpu:cpu.idle", "cpu.idle"),
    (Type.CPU_QUOTA, "cpu:cpu.cfs_quota_us", "cpu.max"),
    (Type.CPU_PERIOD, "cpu:cpu.cfs_period_us", "cpu.max"),
    (Type.CPU_BURST, "cpu:cpu.cfs_burst_us", "cpu.max.burst"),
    (Type.CPU_STAT, "cpu:cpu.stat", "cpu.stat"),
    (Type.CPU_USAGE, "cpuacct:cpuacct.usage", "cpu.stat"),
    (Type.CPUSET_CPUS, "cpuset:cpuset.cpus", "cpuset.cpus"),
    (Type.MEMORY_LIMIT, "memory:memory.limit_in_bytes", "memory.max"),
    (Type.MEMORY_MEMSW, "memory:memory.memsw.limit_in_bytes", None),
    (Type.MEMORY_SWAP, None, "memory.swap.max"),
    (Type.MEMORY_MIN, "memory:memory.min", "memory.min"),
    (Type.MEMORY_EVENTS, "memory:memory.oom_control", "memory.events"),
    (Type.PIDS_MAX, "pids:pids.max", "pids.max"),
    (Type.IO_READ_BPS, "blkio:blkio.throttle.read_bps_device", "io.max"),
    (Type.IO_WEIGHT, None, "io.weight"),
    (Type.HUGETLB_2MB, "hugetlb:hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max"),
    (Type.CGROUP_THREADS, "cpu:tasks", "cgroup.threads"),
]


@pytest.mark.parametrize(("kind", "on_v1", "on_v2"), FILES)
def test_a_type_has_its_file_on_each_version(
    kind: Type, on_v1: str | None, on_v2: str | None
) -> None:
    """A type whose numbers would mean something else on a version has no file there."""
    controller, _, file = (on_v1 or "").partition(":")
    paths = {
        V1: on_v1 and f"/{controller}/kubepods/x/{file}",
        V2: on_v2 and f"/kubepods/x/{on_v2}",
    }
    for registry, path in paths.items():
        if path is None:
            with pytest.raises(ConfigError, match="not found in cgroup registry"):
                registry.get(kind)
        else:
            assert registry.get(kind).path("/kubepods/x") == path


def test_the_roots_own_files_are_at_the_root() -> None:
    """The path of the root's file has one slash."""
    assert V2.get(Type.CPU_STAT).path("/") == "/cpu.stat"
    assert V1.get(Type.CPU_STAT).path("/") == "/cpu/cpu.stat"


def test_every_type_is_on_one_version_or_belongs_elsewhere() -> None:
    """Every declared type has a file on v1 or v2."""
    known = {resource.type for registry in (V1, V2) for resource in registry}
    assert set(Type) == known


def test_an_unknown_type_is_a_users_mistake() -> None:
    """The error names the type and the version."""
    expected = r"^type: 'cpu\.nope' not found in cgroup registry of version 2$"
    with pytest.raises(ConfigError, match=expected):
        V2.get("cpu.nope")


def test_a_registry_can_be_added_to() -> None:
    """A file of a vendor's kernel; its type is the controller and its name."""
    registry = Registry(1)
    vendor = Resource.of(1, "memory", "memory.wmark_ratio", contents.number(0, 100))
    assert vendor.type == "memory/memory.wmark_ratio"
    registry.add(vendor)
    assert registry.get("memory/memory.wmark_ratio") is vendor
    with pytest.raises(ConfigError, match="version 1, expected 2"):
        Registry(2).add(vendor)
    with pytest.raises(ConfigError, match="not found"):
        Registry(1).get("memory/memory.wmark_ratio")


def test_a_content_without_a_rule_takes_any_text() -> None:
    """A resource of plain text is for files that nriplugin has no rule for."""
    Resource.of(2, "", "x", contents.text()).validate("anything at all")


VALID = [
    (V1, Type.CPU_SHARES, 1024, "1024"),
    (V2, Type.CPU_WEIGHT, "10000", "10000"),
    (V2, Type.CPU_IDLE, 1, "1"),
    (V1, Type.CPU_QUOTA, -1, "-1"),
    (V1, Type.CPU_QUOTA, "max", "-1"),
    (V1, Type.MEMORY_LIMIT, "max", "-1"),
    (V2, Type.MEMORY_LIMIT, -1, "max"),
    (V2, Type.MEMORY_LIMIT, "-1", "max"),
    (V2, Type.MEMORY_HIGH, 0, "0"),
    (V2, Type.PIDS_MAX, "max", "max"),
    (V2, Type.CPUSET_CPUS, "3,1-2", "1-3"),
    (V2, Type.CPUSET_CPUS, "", "\n"),
    (V2, Type.CPUSET_MEMS, 0, "0"),
    (V1, Type.IO_READ_BPS, "8:0 1048576", "8:0 1048576"),
    (V1, Type.IO_READ_BPS, "8:0 max", "8:0 0"),
    (V2, Type.IO_READ_BPS, "8:0 1048576", "8:0 rbps=1048576"),
    (V2, Type.IO_WRITE_IOPS, "8:0 max", "8:0 wiops=max"),
    (V2, Type.IO_MAX, "8:0  rbps=1 wiops=max", "8:0 rbps=1 wiops=max"),
    (V2, Type.IO_WEIGHT, 100, "100"),
    (V2, Type.IO_WEIGHT, "default 100", "100"),
    (V2, Type.IO_WEIGHT, "8:16 200", "8:16 200"),
    (V2, Type.HUGETLB_1GB, 1 << 30, "1073741824"),
    (V1, Type.CPU_QOS_LEVEL, -1, "-1"),
]


@pytest.mark.parametrize(("registry", "kind", "value", "content"), VALID)
def test_what_is_valid_is_written_as_the_kernel_spells_it(
    registry: Registry, kind: Type, value: str | int, content: str
) -> None:
    """No limit is -1 or max for every type, and -1 on files only where v1 wants it."""
    resource = registry.get(kind)
    resource.validate(value)
    assert resource.format(value, None) == content


INVALID = [
    (V1, Type.CPU_SHARES, 1),
    (V1, Type.CPU_SHARES, 262_145),
    (V1, Type.CPU_SHARES, "max"),
    (V2, Type.CPU_WEIGHT, 0),
    (V2, Type.CPU_WEIGHT, 10_001),
    (V2, Type.CPU_WEIGHT, "1e3"),
    (V2, Type.CPU_WEIGHT, " 100"),
    (V2, Type.CPU_WEIGHT, "1_000"),
    (V2, Type.CPU_WEIGHT, "١"),
    (V2, Type.CPU_WEIGHT, ""),
    (V2, Type.CPU_IDLE, 2),
    (V2, Type.CPU_QUOTA, 0),
    (V2, Type.CPU_QUOTA, 999),
    (V2, Type.CPU_QUOTA, 1 << 44),
    (V2, Type.CPU_QUOTA, -2),
    (V2, Type.CPU_QUOTA, "50000 100000"),
    (V2, Type.CPU_PERIOD, 999),
    (V2, Type.CPU_PERIOD, 1_000_001),
    (V2, Type.CPU_BURST, -1),
    (V2, Type.CPU_BURST, "max"),
    (V2, Type.MEMORY_LIMIT, -2),
    (V2, Type.MEMORY_LIMIT, "infinity"),
    (V2, Type.MEMORY_LIMIT, "1.5G"),
    (V2, Type.MEMORY_LIMIT, "9" * 5000),
    (V2, Type.MEMORY_OOM_GROUP, "true"),
    (V2, Type.PIDS_MAX, 4_194_305),
    (V2, Type.CPUSET_CPUS, "all"),
    (V2, Type.IO_MAX, "8:0"),
    (V2, Type.IO_MAX, "8:0 rbps=0"),
    (V2, Type.IO_MAX, "8:0 speed=1"),
    (V2, Type.IO_MAX, "sda rbps=1"),
    (V2, Type.IO_MAX, ""),
    (V2, Type.IO_READ_BPS, "1048576"),
    (V2, Type.IO_READ_BPS, "8:0 0"),
    (V2, Type.IO_READ_BPS, "default 5"),
    (V2, Type.IO_WEIGHT, "8:0 0"),
    (V2, Type.IO_WEIGHT, "8:0 1 2"),
    (V2, Type.IO_WEIGHT, ""),
    (V2, Type.IO_BFQ_WEIGHT, 1001),
    (V1, Type.CPU_QOS_LEVEL, 3),
    (V2, Type.CPU_STAT, 1),
    (V2, Type.CGROUP_PROCS, 1),
]


@pytest.mark.parametrize(("registry", "kind", "value"), INVALID)
def test_what_the_kernel_would_refuse_is_refused_first(
    registry: Registry, kind: Type, value: str | int
) -> None:
    """The error is one line with type, value and what was expected."""
    for refuse in (registry.get(kind).validate, registry.get(kind).format):
        with pytest.raises(ConfigError, match="expected") as caught:
            refuse(value)
        message = str(caught.value)
        assert message.startswith(f"{kind}: {value!r}, expected ")
        assert "\n" not in message


@given(st.text(max_size=30))
def test_whatever_is_given_is_accepted_or_a_users_mistake(value: str) -> None:
    """Any value is written as one line or raises ConfigError."""
    for resource in (*V1, *V2):
        current = "max 100000" if resource.content.partial else None
        try:
            content = resource.format(value, current)
        except ConfigError:
            continue
        assert "\n" not in content.strip()


def test_a_quota_keeps_the_period() -> None:
    """With the current text the period is kept; without it the kernel keeps it."""
    quota = V2.get(Type.CPU_QUOTA)
    assert quota.format(200_000, "max 100000\n") == "200000 100000"
    assert quota.format(20_000, "50000 25000\n") == "20000 25000"
    assert quota.format(-1, "50000 25000\n") == "max 25000"
    assert quota.format(20_000, None) == "20000"


def test_a_period_is_never_written_alone() -> None:
    """A lone number in cpu.max would be taken for the quota."""
    period = V2.get(Type.CPU_PERIOD)
    assert period.format(50_000, "max 100000\n") == "max 50000"
    assert period.format(50_000, "20000 100000\n") == "20000 50000"
    with pytest.raises(
        ConfigError, match=r"cpu\.cfs_period_us: 50000, expected the current"
    ):
        period.format(50_000, None)


def test_present_content_that_makes_no_sense_is_an_error() -> None:
    """The other word of cpu.max is not guessed."""
    for kind in (Type.CPU_QUOTA, Type.CPU_PERIOD):
        with pytest.raises(CgroupError, match=r"^parse cpu\.max: '100000': 1 words"):
            V2.get(kind).format(50_000, "100000")


def test_one_key_of_io_max_is_seen_alone() -> None:
    """Devices without that limit are not shown, as on v1."""
    text = "8:0 rbps=1048576 wbps=max riops=max wiops=10\n8:16 rbps=max wbps=5\n"
    assert V2.get(Type.IO_READ_BPS).parse(text) == {"8:0": 1_048_576}
    assert V2.get(Type.IO_WRITE_BPS).parse(text) == {"8:16": 5}
    assert V2.get(Type.IO_WRITE_IOPS).parse(text) == {"8:0": 10}
    assert V2.get(Type.IO_READ_IOPS).parse("") == {}
    assert V1.get(Type.IO_READ_BPS).parse("8:0 1048576\n") == {"8:0": 1_048_576}


def test_content_that_is_not_understood_is_shown() -> None:
    """The error shows the beginning of the text."""
    with pytest.raises(CgroupError) as caught:
        V2.get(Type.MEMORY_STAT).parse("x" * 5000)
    assert len(str(caught.value)) < 250
    assert caught.value.operation == "parse"
