"""Meanings of an absent field, 0 and a negative number in each source, and errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pytest

from nriplugin.api import nri_pb2 as nri
from nriplugin.convert import UNLIMITED, Resources, convert
from nriplugin.convert.conversion import V1_ONLY
from nriplugin.convert.model import DeviceWeight, HugepageLimit, RdmaLimit, Throttle
from nriplugin.convert.readers import (
    MEANINGS,
    core_from_nri,
    from_cri,
    from_nri,
    from_oci,
)
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Callable

    Source: TypeAlias = Callable[[Any], Resources]

INVALID = "invalid"
NUMBER = 7_000  # nothing special in any field


class Row(NamedTuple):
    """A field of the model, and what 0, -1 and -2 mean by it in OCI JSON."""

    field: str
    zero: object
    minus_one: object
    minus_two: object


ROWS = {
    "shares": Row("cpu.shares", None, INVALID, INVALID),
    "quota_us": Row("cpu.quota", None, UNLIMITED, UNLIMITED),
    "period_us": Row("cpu.period", None, INVALID, INVALID),
    "burst_us": Row("cpu.burst", 0, INVALID, INVALID),
    "idle": Row("cpu.idle", 0, INVALID, INVALID),
    "memory_limit_bytes": Row("memory.limit", None, UNLIMITED, INVALID),
    "memory_swap_bytes": Row("memory.swap", None, UNLIMITED, INVALID),
    "memory_reservation_bytes": Row("memory.reservation", None, UNLIMITED, INVALID),
    "pids_limit": Row("pids.limit", 0, UNLIMITED, UNLIMITED),
    "io_weight": Row("blockIO.weight", None, INVALID, INVALID),
}


def oci(attribute: str, value: object) -> Resources:
    group, field = ROWS[attribute].field.split(".")
    return from_oci({group: {field: value}})


def nri_message(attribute: str, value: int) -> nri.LinuxResources:
    message = nri.LinuxResources()
    group, field = ROWS[attribute].field.split(".")
    if group == "pids":
        message.pids.limit = value
    else:
        getattr(getattr(message, group), field).value = value
    return message


CRI_NAMES = {
    "shares": "cpu_shares",
    "quota_us": "cpu_quota",
    "period_us": "cpu_period",
    "memory_limit_bytes": "memory_limit_in_bytes",
    "memory_swap_bytes": "memory_swap_limit_in_bytes",
}
UNSIGNED_IN_NRI = {"shares", "period_us"}
NOT_IN_NRI = {"burst_us", "idle", "io_weight"}


def cri_message(**given: object) -> SimpleNamespace:
    fields: dict[str, object] = dict.fromkeys(CRI_NAMES.values(), 0)
    fields |= {"cpuset_cpus": "", "cpuset_mems": "", "hugepage_limits": []}
    return SimpleNamespace(**{**fields, "unified": {}, **given})


def cases(
    attributes: list[str], *, zero_is_given: bool, unsigned: set[str] | None = None
) -> list[Any]:
    result = []
    for attribute in attributes:
        field, zero, minus_one, minus_two = ROWS[attribute]
        expected = {0: zero if zero_is_given else None, NUMBER: NUMBER, 1: 1}
        if attribute not in (unsigned or set()):
            expected |= {-1: minus_one, -2: minus_two}
        result += [
            pytest.param(attribute, value, meaning, id=f"{field}={value}")
            for value, meaning in expected.items()
        ]
    return result


def assert_reads(
    read: Callable[[], Resources], attribute: str, meaning: object
) -> None:
    if meaning is INVALID:
        with pytest.raises(ConversionError) as caught:
            read()
        assert caught.value.field == ROWS[attribute].field
    else:
        wanted: Any = {attribute: meaning}
        assert read() == Resources(unified={}, **wanted)


def test_the_table_has_every_field() -> None:
    """Every field with a meaning is in the tables of this file."""
    rows = {row.field for row in ROWS.values()}
    assert rows | {"hugepageLimits.limit"} == MEANINGS.keys()


@pytest.mark.parametrize(
    ("attribute", "value", "meaning"), cases(list(ROWS), zero_is_given=True)
)
def test_numbers_in_oci(attribute: str, value: int, meaning: object) -> None:
    """In OCI JSON a 0 can be a 0; the meaning of a negative number is per field."""
    assert_reads(lambda: oci(attribute, value), attribute, meaning)


@pytest.mark.parametrize("attribute", ROWS)
@pytest.mark.parametrize("absent", [True, False], ids=["absent", "null"])
def test_nothing_in_oci(attribute: str, absent: bool) -> None:
    """In OCI JSON a field that is absent or null is not given."""
    group, field = ROWS[attribute].field.split(".")
    document = {group: {} if absent else {field: None}}
    assert from_oci(document) == from_oci({}) == Resources(unified={})


@pytest.mark.parametrize(
    ("attribute", "value", "meaning"),
    cases(
        [name for name in ROWS if name not in NOT_IN_NRI],
        zero_is_given=False,
        unsigned=UNSIGNED_IN_NRI,
    ),
)
def test_numbers_in_nri(attribute: str, value: int, meaning: object) -> None:
    """In NRI a 0 is "not given"; the meaning of a negative number is per field."""
    message = nri_message(attribute, value)
    assert_reads(lambda: from_nri(message), attribute, meaning)


def test_nothing_in_nri() -> None:
    """An empty NRI message gives nothing, and is not changed by being read."""
    message = nri.LinuxResources()
    assert from_nri(message) == Resources(unified={})
    assert not message.ListFields()


@pytest.mark.parametrize(
    ("attribute", "value", "meaning"), cases(list(CRI_NAMES), zero_is_given=False)
)
def test_numbers_in_cri(attribute: str, value: int, meaning: object) -> None:
    """In CRI a 0 is "not given"; the meaning of a negative number is per field."""
    message = cri_message(**{CRI_NAMES[attribute]: value})
    assert_reads(lambda: from_cri(message), attribute, meaning)


def test_nothing_in_cri() -> None:
    """An empty CRI message gives nothing."""
    assert from_cri(cri_message()) == Resources(unified={})


# Lists and texts


def test_all_of_oci() -> None:
    """Every field of OCI JSON that has a file is read."""
    device = {"major": 8, "minor": 16}
    document = {
        "cpu": {"cpus": "0-3", "mems": "0"},
        "hugepageLimits": [
            {"pageSize": "2MB", "limit": 0},
            {"pageSize": "1GB", "limit": 1 << 30},
        ],
        "blockIO": {
            "weightDevice": [{**device, "weight": 300}, {**device, "weight": 0}],
            "throttleReadBpsDevice": [{**device, "rate": 1}],
            "throttleWriteBpsDevice": [{**device, "rate": 2}],
            "throttleReadIOPSDevice": [{**device, "rate": 3}],
            "throttleWriteIOPSDevice": [{**device, "rate": 4}],
        },
        "rdma": {"mlx5_0": {"hcaHandles": 5}, "mlx5_1": {"hcaObjects": 6}},
        "unified": {"memory.high": "1"},
        "devices": [{"allow": False}],
    }
    assert from_oci(document) == Resources(
        cpus="0-3",
        mems="0",
        hugepage_limits=(HugepageLimit("2MB", 0), HugepageLimit("1GB", 1 << 30)),
        io_device_weights=(DeviceWeight(8, 16, 300),),
        io_throttles=(
            Throttle("rbps", 8, 16, 1),
            Throttle("wbps", 8, 16, 2),
            Throttle("riops", 8, 16, 3),
            Throttle("wiops", 8, 16, 4),
        ),
        rdma=(RdmaLimit("mlx5_0", 5, None), RdmaLimit("mlx5_1", None, 6)),
        unified={"memory.high": "1"},
    )


def test_texts_and_lists_of_nri() -> None:
    """CPUs, memory nodes, huge pages and unified are read from NRI, a size's 0 too."""
    message = nri.LinuxResources(
        cpu=nri.LinuxCPU(cpus="0-3", mems="0"),
        hugepage_limits=[
            nri.HugepageLimit(page_size="2MB", limit=0),
            nri.HugepageLimit(page_size="1GB", limit=1 << 30),
        ],
        unified={"memory.high": "1"},
    )
    assert from_nri(message) == Resources(
        cpus="0-3",
        mems="0",
        hugepage_limits=(HugepageLimit("2MB", 0), HugepageLimit("1GB", 1 << 30)),
        unified={"memory.high": "1"},
    )


def test_texts_and_lists_of_cri() -> None:
    """CPUs, memory nodes, huge pages and unified are read from CRI, a size's 0 too."""
    message = cri_message(
        cpuset_cpus="0-3",
        cpuset_mems="0",
        hugepage_limits=[
            SimpleNamespace(page_size="2MB", limit=0),
            SimpleNamespace(page_size="1GB", limit=1 << 30),
        ],
        unified={"memory.high": "1"},
    )
    assert from_cri(message) == Resources(
        cpus="0-3",
        mems="0",
        hugepage_limits=(HugepageLimit("2MB", 0), HugepageLimit("1GB", 1 << 30)),
        unified={"memory.high": "1"},
    )


# Fields without a file

V1_OCI: dict[str, object] = {
    "cpu.realtimeRuntime": 950_000,
    "cpu.realtimePeriod": 1_000_000,
    "memory.kernel": 1 << 20,
    "memory.kernelTCP": 1 << 20,
    "memory.swappiness": 60,
    "memory.disableOOMKiller": True,
    "memory.useHierarchy": True,
    "memory.checkBeforeUpdate": True,
    "blockIO.leafWeight": 100,
    "network.classID": 1_048_577,
    "network.priorities": [{"name": "lo", "priority": 1}],
}


@pytest.mark.parametrize("field", V1_ONLY)
def test_what_has_no_file_is_kept_with_its_value(field: str) -> None:
    """A field of OCI JSON without a cgroup v2 counterpart is remembered, not lost."""
    group, name = field.split(".")
    value = V1_OCI[field]
    assert from_oci({group: {name: value}}) == Resources(
        unified={}, v1_only=((field, value),)
    )


def test_what_has_no_file_is_kept_from_nri() -> None:
    """A field of an NRI message without a cgroup v2 counterpart is remembered."""
    message = nri.LinuxResources()
    message.cpu.realtime_runtime.value = 950_000
    message.cpu.realtime_period.value = 1_000_000
    message.memory.kernel.value = 1 << 20
    message.memory.kernel_tcp.value = 1 << 20
    message.memory.swappiness.value = 60
    message.memory.disable_oom_killer.value = True
    message.memory.use_hierarchy.value = True
    wanted = [
        (field, value)
        for field, value in V1_OCI.items()
        if field.startswith(("cpu.", "memory.")) and "checkBefore" not in field
    ]
    assert list(from_nri(message).v1_only) == wanted


@pytest.mark.parametrize(
    "document",
    [
        {"memory": {"disableOOMKiller": False}},
        {"memory": {"checkBeforeUpdate": False}},
        {"network": {"priorities": []}},
    ],
)
def test_a_switch_that_is_off_asks_for_nothing(document: object) -> None:
    """A value that means "leave it as it is" is not reported as left out."""
    assert from_oci(document) == Resources(unified={})


# Wrong types

A_DEVICE = {"major": 8, "minor": 0}


@pytest.mark.parametrize("attribute", ROWS)
@pytest.mark.parametrize("value", ["5", 5.0, True, [5], {}], ids=repr)
def test_a_number_is_a_whole_number(attribute: str, value: object) -> None:
    """Nothing but a whole number passes for a number; the error names the field."""
    with pytest.raises(ConversionError) as caught:
        oci(attribute, value)
    assert caught.value.field == ROWS[attribute].field
    assert caught.value.value == value


@pytest.mark.parametrize("wrong", ["x", 5, [1], True], ids=repr)
@pytest.mark.parametrize(
    "name", ["cpu", "memory", "pids", "blockIO", "network", "rdma", "unified"]
)
def test_a_group_is_an_object(name: str, wrong: object) -> None:
    """A group of fields that is no object is refused, by its name."""
    with pytest.raises(ConversionError, match=f"^{name}: .*an object"):
        from_oci({name: wrong})


@pytest.mark.parametrize("wrong", ["x", 5, [1], True], ids=repr)
def test_the_whole_is_an_object(wrong: object) -> None:
    """A document that is no object is refused."""
    with pytest.raises(ConversionError, match=r"^linux\.resources: .*an object"):
        from_oci(wrong)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"cpu": {"cpus": 3}}, "cpu.cpus"),
        ({"cpu": {"mems": ["0"]}}, "cpu.mems"),
        ({"hugepageLimits": {}}, "hugepageLimits"),
        ({"hugepageLimits": ["2MB"]}, "hugepageLimits"),
        ({"hugepageLimits": [{"pageSize": 2}]}, "hugepageLimits.pageSize"),
        (
            {"hugepageLimits": [{"pageSize": "2MB", "limit": "1"}]},
            "hugepageLimits.limit",
        ),
        (
            {"hugepageLimits": [{"pageSize": "2MB", "limit": -1}]},
            "hugepageLimits.limit",
        ),
        ({"blockIO": {"weightDevice": 5}}, "blockIO.weightDevice"),
        ({"blockIO": {"weightDevice": [{"weight": 5}]}}, "blockIO.weightDevice"),
        (
            {"blockIO": {"weightDevice": [{"major": -8, "minor": 0, "weight": 5}]}},
            "blockIO.weightDevice",
        ),
        (
            {"blockIO": {"weightDevice": [{"major": True, "minor": 0, "weight": 5}]}},
            "blockIO.weightDevice",
        ),
        (
            {"blockIO": {"weightDevice": [{**A_DEVICE, "weight": "5"}]}},
            "blockIO.weight",
        ),
        (
            {"blockIO": {"throttleReadBpsDevice": [A_DEVICE]}},
            "blockIO.throttleReadBpsDevice.rate",
        ),
        (
            {"blockIO": {"throttleWriteIOPSDevice": [{**A_DEVICE, "rate": 1.5}]}},
            "blockIO.throttleWriteIOPSDevice.rate",
        ),
        (
            {"blockIO": {"throttleWriteBpsDevice": [{**A_DEVICE, "rate": True}]}},
            "blockIO.throttleWriteBpsDevice.rate",
        ),
        (
            {"blockIO": {"throttleReadIOPSDevice": [{"major": "8", "rate": 5}]}},
            "blockIO.throttleReadIOPSDevice",
        ),
        ({"rdma": {"mlx5_0": 5}}, "rdma.mlx5_0"),
        ({"rdma": {"mlx5_0": {"hcaHandles": "5"}}}, "rdma.mlx5_0"),
        ({"rdma": {"mlx5_0": {"hcaObjects": True}}}, "rdma.mlx5_0"),
        ({"unified": {"cpu.weight": 100}}, "unified cpu.weight"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_types_are_refused_by_name(document: object, field: str) -> None:
    """A value of the wrong type is refused, and the error names the field."""
    with pytest.raises(ConversionError) as caught:
        from_oci(document)
    assert caught.value.field == field


# unified


EVERYTHING = {
    "cpu": {"shares": 1024, "quota": 50_000, "burst": 10_000, "cpus": "0-1"},
    "memory": {"limit": 1 << 30, "swap": 1 << 31, "reservation": 1 << 20},
    "pids": {"limit": 100},
    "hugepageLimits": [{"pageSize": "2MB", "limit": 1 << 21}],
    "blockIO": {"weight": 500},
}
EXPLICIT = {
    "cpu.weight": "7",
    "cpu.max": "70000 100000",
    "cpu.max.burst": "7000",
    "cpuset.cpus": "1",
    "memory.max": "7M",
    "memory.swap.max": "0",
    "memory.low": "7K",
    "pids.max": "7",
    "hugetlb.2MB.max": "0",
    "hugetlb.2MB.rsvd.max": "0",
    "io.weight": "default 7",
}


@pytest.mark.parametrize("file", EXPLICIT)
def test_unified_wins_key_by_key(file: str) -> None:
    """A file in unified has that value, and every other one stays as it was."""
    derived = convert(from_oci(EVERYTHING)).files
    both = convert(from_oci({**EVERYTHING, "unified": {file: EXPLICIT[file]}})).files
    assert both == {**derived, file: EXPLICIT[file]}
    assert list(both) == list(derived)


def test_unified_wins_all_at_once() -> None:
    """If unified has every file, nothing derived is left."""
    assert convert(from_oci({**EVERYTHING, "unified": EXPLICIT})).files == EXPLICIT


def test_unified_of_a_message_is_converted_as_it_is() -> None:
    """The map of a protobuf message serves as unified without being copied."""
    message = nri.LinuxResources(unified={"memory.high": "1", "cpu.weight": "7"})
    message.cpu.shares.value = 1024
    assert convert(from_nri(message)).files == {"cpu.weight": "7", "memory.high": "1"}


# Nothing half done


@pytest.mark.parametrize(
    "bad",
    [
        {"unified": {"cpu.weight": "0"}},
        {"blockIO": {"weight": 5}},
        {"pids": {"limit": 1 << 40}},
        {"memory": {"limit": 4096, "swap": 1}},
    ],
    ids=repr,
)
def test_nothing_is_half_done(bad: dict[str, Any]) -> None:
    """One bad value among good ones fails the whole, and the good ones are fine."""
    good = {**EVERYTHING, **{name: {} for name in bad}}
    assert convert(from_oci(good)).files
    given = from_oci({**EVERYTHING, **bad})
    before = repr(given)
    with pytest.raises(ConversionError):
        convert(given)
    assert repr(given) == before


@pytest.mark.parametrize("quota", [0, -1, 50_000])
@pytest.mark.parametrize("limit", [0, -1, 1 << 28])
def test_the_core_of_nri_is_read_the_same(quota: int, limit: int) -> None:
    """The request path reads less, but nothing differently."""
    message = nri.LinuxResources(unified={"cpu.weight": "7"})
    message.cpu.shares.value = 1024
    message.cpu.quota.value = quota
    message.cpu.period.value = 100_000
    message.cpu.cpus = "0-3"
    message.memory.limit.value = limit
    message.memory.swap.value = -1
    whole = from_nri(message)
    assert whole.cpus == "0-3"
    less = whole._replace(cpus=None, memory_swap_bytes=None)
    assert core_from_nri(message) == less
