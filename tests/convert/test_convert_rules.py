"""The order, rules, notes and errors that a conversion gives beside its files."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from nriplugin.convert import UNLIMITED, Curve, Resources, convert
from nriplugin.convert.conversion import V1_ONLY
from nriplugin.convert.model import DeviceWeight, HugepageLimit, RdmaLimit, Throttle
from nriplugin.convert.readers import from_oci
from nriplugin.convert.validate import bytes_in
from nriplugin.errors import ConversionError

GIB = 1 << 30
DEVICE = {"major": 8, "minor": 0}

# A document per field, with the other fields that it needs.
DOCUMENTS: dict[str, dict[str, Any]] = {
    "cpu.idle": {"cpu": {"idle": 0}},
    "cpu.shares": {"cpu": {"shares": 1024}},
    "cpu.quota": {"cpu": {"quota": 50_000}},
    "cpu.period": {"cpu": {"period": 50_000}},
    "cpu.burst": {"cpu": {"burst": 10_000}},
    "cpu.cpus": {"cpu": {"cpus": "0-3"}},
    "cpu.mems": {"cpu": {"mems": "0"}},
    "memory.limit": {"memory": {"limit": -1}},
    "memory.swap": {"memory": {"swap": -1}},
    "memory.reservation": {"memory": {"reservation": GIB}},
    "pids.limit": {"pids": {"limit": 0}},
    "hugepageLimits": {"hugepageLimits": [{"pageSize": "2MB", "limit": 0}]},
    "blockIO.weight": {"blockIO": {"weight": 500}},
    "blockIO.throttleReadBpsDevice": {
        "blockIO": {"throttleReadBpsDevice": [{**DEVICE, "rate": 1}]}
    },
    "blockIO.throttleWriteBpsDevice": {
        "blockIO": {"throttleWriteBpsDevice": [{**DEVICE, "rate": 1}]}
    },
    "blockIO.throttleReadIOPSDevice": {
        "blockIO": {"throttleReadIOPSDevice": [{**DEVICE, "rate": 2}]}
    },
    "blockIO.throttleWriteIOPSDevice": {
        "blockIO": {"throttleWriteIOPSDevice": [{**DEVICE, "rate": 2}]}
    },
    "rdma": {"rdma": {"mlx5_0": {"hcaHandles": 2, "hcaObjects": 3}}},
    "unified": {"unified": {"memory.high": "1"}},
}

# The order of writing; unified files that nothing derives are at the end.
ORDER = [
    "cpu.idle",
    "cpu.weight",
    "cpu.max",
    "cpu.max.burst",
    "cpuset.cpus",
    "cpuset.mems",
    "memory.max",
    "memory.swap.max",
    "memory.low",
    "pids.max",
    "hugetlb.2MB.max",
    "hugetlb.2MB.rsvd.max",
    "io.weight",
    "io.max",
    "rdma.max",
    "memory.high",
]


def everything() -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for document in DOCUMENTS.values():
        for group, fields in document.items():
            if isinstance(fields, dict):
                whole.setdefault(group, {}).update(fields)
            else:
                whole[group] = fields
    return whole


# Order


def test_files_come_in_a_fixed_order() -> None:
    """Files come in one order, in which the kernel takes them one by one."""
    assert list(convert(from_oci(everything())).files) == ORDER


def test_the_order_of_the_input_does_not_matter() -> None:
    """However the JSON is ordered, the files are the same, in the same order."""
    backwards = {
        group: dict(reversed(fields.items())) if isinstance(fields, dict) else fields
        for group, fields in reversed(everything().items())
    }
    wanted = convert(from_oci(everything()))
    assert list(convert(from_oci(backwards)).files.items()) == list(
        wanted.files.items()
    )


def test_unified_comes_in_a_fixed_order() -> None:
    """However unified is ordered, its files come in the same order."""
    values = {"memory.high": "1", "cpu.max.burst": "5", "cpu.max": "5000", "a.b": "1"}
    orders = {
        tuple(convert(Resources(unified=dict(order))).files)
        for order in permutations(values.items())
    }
    ((*order,),) = orders
    assert sorted(order) == sorted(values)
    assert order.index("cpu.max") < order.index("cpu.max.burst")


def test_idle_is_written_before_weight() -> None:
    """An explicit cpu.idle=0 comes before the weight, which an idle group refuses."""
    files = convert(Resources(shares=1024, unified={"cpu.idle": "0"})).files
    assert list(files) == ["cpu.idle", "cpu.weight"]


def test_bandwidth_is_written_before_burst() -> None:
    """An explicit cpu.max comes before the burst, which may need the new quota."""
    given = Resources(burst_us=100_000, unified={"cpu.max": "100000 100000"})
    assert list(convert(given).files) == ["cpu.max", "cpu.max.burst"]


# Rules


@pytest.mark.parametrize("field", DOCUMENTS)
def test_a_file_names_the_field_that_it_comes_of(field: str) -> None:
    """Each file of a single field has a rule that names the field and has a text."""
    derived = convert(from_oci(DOCUMENTS[field])).derived
    assert derived
    for entry in derived:
        assert field in entry.rule.fields
        assert entry.rule.text


@pytest.mark.parametrize("without", DOCUMENTS)
def test_no_rule_names_only_what_was_not_given(without: str) -> None:
    """If a field is missing, no file's rule is about that field alone."""
    whole = everything()
    (group,) = DOCUMENTS[without]
    if isinstance(whole[group], dict):
        for name in DOCUMENTS[without][group]:
            del whole[group][name]
    else:
        del whole[group]
    for entry in convert(from_oci(whole)).derived:
        assert set(entry.rule.fields) - {without}


def test_explicit_files_say_so() -> None:
    """A file from unified names unified, also where one was derived before."""
    conversion = convert(Resources(shares=2, unified={"cpu.weight": "7", "a.b": "1"}))
    assert [(entry.file, entry.rule.fields) for entry in conversion.derived] == [
        ("cpu.weight", ("unified",)),
        ("a.b", ("unified",)),
    ]


@pytest.mark.parametrize("curve", list(Curve))
def test_a_weight_names_its_curve(curve: Curve) -> None:
    """The rule of a weight begins with the curve's name."""
    (entry,) = convert(Resources(shares=1024), curve).derived
    assert entry.rule.text.startswith(f"{curve}: ")


def test_nothing_gives_nothing() -> None:
    """Empty resources have no files and no notes."""
    conversion = convert(Resources())
    assert (conversion.derived, conversion.dropped, conversion.clamped) == ([], [], [])


# Left out and moved


@pytest.mark.parametrize("field", V1_ONLY)
def test_what_has_no_file_is_said_to_be_dropped(field: str) -> None:
    """A field without a counterpart has no file, and the result says which and why."""
    conversion = convert(Resources(v1_only=((field, 1),)))
    assert conversion.files == {}
    assert conversion.dropped == [(field, V1_ONLY[field])]
    assert V1_ONLY[field]


def test_weights_of_devices_need_bfq() -> None:
    """Without BFQ the weights of devices are dropped, with BFQ they have lines."""
    weights = (DeviceWeight(8, 0, 300), DeviceWeight(8, 16, 400))
    given = Resources(io_weight=500, io_device_weights=weights)
    without = convert(given)
    assert without.files == {"io.weight": "4950"}
    ((field, reason),) = without.dropped
    assert field == "blockIO.weightDevice"
    assert "BFQ" in reason
    with_bfq = convert(given, bfq=True)
    assert with_bfq.files == {"io.bfq.weight": "500\n8:0 300\n8:16 400"}
    assert with_bfq.dropped == []


@pytest.mark.parametrize(
    "idle",
    [{"idle": 1}, {"unified": {"cpu.idle": "1"}}, {"unified": {"cpu.idle": "1\n"}}],
)
def test_idle_takes_no_weight(idle: dict[str, Any]) -> None:
    """Shares beside cpu.idle=1 are dropped with a reason, as the kernel wants none."""
    conversion = convert(Resources(shares=2048, **idle))
    assert list(conversion.files) == ["cpu.idle"]
    ((field, reason),) = conversion.dropped
    assert field == "cpu.shares"
    assert "cpu.idle" in reason


def test_not_idle_has_a_weight() -> None:
    """Shares beside cpu.idle=0 have their weight."""
    conversion = convert(Resources(shares=2048, idle=0))
    assert conversion.files == {"cpu.idle": "0", "cpu.weight": "174"}
    assert conversion.dropped == []


@pytest.mark.parametrize(
    "given",
    [
        Resources(unified={"cpu.idle": "1", "cpu.weight": "200"}),
        Resources(idle=1, unified={"cpu.weight": "200"}),
    ],
    ids=["explicit", "given"],
)
def test_idle_beside_an_explicit_weight_is_refused(given: Resources) -> None:
    """An explicit weight beside cpu.idle=1 is refused, as the kernel would do."""
    with pytest.raises(ConversionError, match=r"cpu\.weight"):
        convert(given)


BOUND = (1 << 44) - 1


@pytest.mark.parametrize(
    ("given", "used"),
    [
        (Resources(quota_us=50_000, burst_us=50_000), 50_000),
        (Resources(quota_us=50_000, burst_us=50_001), 50_000),
        (Resources(quota_us=UNLIMITED, burst_us=50_001), 50_001),
        (Resources(burst_us=50_001), 50_001),
        (Resources(burst_us=BOUND + 1), BOUND + 1),
        (Resources(quota_us=BOUND, burst_us=BOUND), 0),
        (Resources(quota_us=BOUND - 5, burst_us=BOUND), 5),
        (Resources(burst_us=70_000, unified={"cpu.max": "60000 100000"}), 60_000),
        (
            Resources(quota_us=50_000, burst_us=60_000, unified={"cpu.max": "70000"}),
            60_000,
        ),
        (Resources(quota_us=5000, burst_us=6000, unified={"cpu.max": "max"}), 6000),
        (Resources(quota_us=5000, burst_us=6000, unified={"cpu.max": ""}), 5000),
    ],
)
def test_a_burst_is_at_most_the_quota(given: Resources, used: int) -> None:
    """A burst above the quota, or with it above the kernel's bound, is clamped."""
    conversion = convert(given)
    assert conversion.files["cpu.max.burst"] == str(used)
    if used == given.burst_us:
        assert conversion.clamped == []
    else:
        ((field, before, now, reason),) = conversion.clamped
        assert (field, before, now) == ("cpu.burst", given.burst_us, used)
        assert reason


def test_an_explicit_burst_above_the_quota_is_refused() -> None:
    """An explicit burst is not clamped, but refused if no order of writing works."""
    explicit = {"cpu.max.burst": "50001"}
    with pytest.raises(ConversionError, match=r"cpu\.max\.burst: '50001'"):
        convert(Resources(quota_us=50_000, unified=explicit))
    convert(Resources(quota_us=50_001, unified=explicit))


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("cpu.weight", "0100"),
        ("cpu.idle", "01"),
        ("cpu.max.burst", "010000"),
        ("memory.max", "010000000"),
        ("memory.low", "010M"),
        ("memory.oom.group", "01"),
        ("pids.max", "0100"),
        ("io.bfq.weight", "default 0100"),
        ("hugetlb.2MB.max", "010000000"),
    ],
)
def test_an_explicit_number_is_not_taken_for_another(file: str, value: str) -> None:
    """The kernel reads a leading zero of these files as octal; we would not."""
    with pytest.raises(ConversionError, match="octal"):
        convert(Resources(unified={file: value}))


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("cpu.max", "010000 0100000"),
        ("cpuset.cpus", "00-03,08"),
        ("io.weight", "default 0100"),
        ("io.max", "8:0 rbps=01048576"),
        ("memory.low", "0"),
        ("memory.low", "100"),
    ],
)
def test_an_explicit_number_that_all_read_alike_passes(file: str, value: str) -> None:
    """The kernel reads these files by other means, as decimal numbers."""
    assert convert(Resources(unified={file: value})).files == {file: value}


def test_an_explicit_nothing_changes_nothing() -> None:
    """An empty value in unified, a write of nothing, does not undo what is derived."""
    files = convert(Resources(quota_us=50_000, unified={"cpu.max": ""})).files
    assert files["cpu.max"] == "50000 100000"


# Swap

L = 134_217_728
BAD = "refused"
SWAP_TABLE: list[tuple[int | None, int | None, str | dict[str, str]]] = [
    (L, None, {"memory.max": str(L)}),
    (L, 2 * L, {"memory.max": str(L), "memory.swap.max": str(L)}),
    (L, L + 1, {"memory.max": str(L), "memory.swap.max": "1"}),
    (L, L, {"memory.max": str(L), "memory.swap.max": "0"}),
    (L, L - 1, BAD),
    (L, 1, BAD),
    (L, -1, {"memory.max": str(L), "memory.swap.max": "max"}),
    (L, 0, {"memory.max": str(L)}),
    (-1, None, {"memory.max": "max", "memory.swap.max": "max"}),
    (-1, 0, {"memory.max": "max", "memory.swap.max": "max"}),
    (-1, -1, {"memory.max": "max", "memory.swap.max": "max"}),
    (-1, L, {"memory.max": "max", "memory.swap.max": str(L)}),
    (None, L, BAD),
    (0, L, BAD),
    (None, -1, {"memory.swap.max": "max"}),
    (0, -1, {"memory.swap.max": "max"}),
    (None, 0, {}),
    (None, None, {}),
    (-2, None, BAD),
    (-2, L, BAD),
    (L, -2, BAD),
    (None, -2, BAD),
]


@pytest.mark.parametrize(("limit", "swap", "files"), SWAP_TABLE)
def test_limit_and_swap(
    limit: int | None, swap: int | None, files: str | dict[str, str]
) -> None:
    """Every combination of limit and swap means what it means to runc."""
    memory = {"limit": limit, "swap": swap}
    given = {name: value for name, value in memory.items() if value is not None}
    if files == BAD:
        with pytest.raises(ConversionError, match=r"^memory\."):
            convert(from_oci({"memory": given}))
    else:
        assert convert(from_oci({"memory": given})).files == files


def test_swap_needs_a_limit_of_its_own_kind() -> None:
    """An explicit memory.max is no limit to subtract from a swap."""
    with pytest.raises(ConversionError, match=r"^memory\.swap: .*memory\.limit"):
        convert(Resources(memory_swap_bytes=L, unified={"memory.max": str(L)}))


# Errors


@pytest.mark.parametrize(
    ("given", "wrong", "expected"),
    [
        (Resources(shares=-1), "cpu.shares: -1", "0 or more"),
        (Resources(idle=2), "cpu.idle: 2", "0 or 1"),
        (Resources(quota_us=999), "cpu.quota: 999", "1000 to 17592186044415"),
        (
            Resources(quota_us=1 << 44),
            "cpu.quota: 17592186044416",
            "1000 to 17592186044415",
        ),
        (Resources(period_us=999), "cpu.period: 999", "1000 to 1000000"),
        (Resources(period_us=1_000_001), "cpu.period: 1000001", "1000 to 1000000"),
        (Resources(burst_us=-1), "cpu.burst: -1", "0 or more"),
        (Resources(cpus="3-1"), "cpu.cpus: '3-1'", "0-3,8"),
        (Resources(mems="x"), "cpu.mems: 'x'", "0-3,8"),
        (Resources(memory_limit_bytes=-2), "memory.limit: -2", "bytes"),
        (
            Resources(memory_reservation_bytes=-2),
            "memory.reservation: -2",
            "-1 for no limit",
        ),
        (
            Resources(memory_limit_bytes=5, memory_swap_bytes=4),
            "memory.swap: 4",
            "at least 5",
        ),
        (Resources(pids_limit=4_194_305), "pids.limit: 4194305", "0 to 4194304"),
        (Resources(pids_limit=-1), "pids.limit: -1", "0 to 4194304"),
        (
            Resources(hugepage_limits=(HugepageLimit("2048kB", 0),)),
            "hugepageLimits: '2048kB'",
            "2MB",
        ),
        (
            Resources(hugepage_limits=(HugepageLimit("2MB", -1),)),
            "hugepageLimits 2MB: -1",
            "bytes",
        ),
        (Resources(io_weight=9), "blockIO.weight: 9", "10 to 1000"),
        (Resources(io_weight=1001), "blockIO.weight: 1001", "10 to 1000"),
        (
            Resources(io_throttles=(Throttle("rbps", 8, 0, 0),)),
            "blockIO.throttle rbps of 8:0: 0",
            "1 to ",
        ),
        (Resources(rdma=(RdmaLimit("a b", 1, None),)), "rdma: 'a b'", "a device"),
        (
            Resources(rdma=(RdmaLimit("mlx5_0", -1, None),)),
            "rdma mlx5_0 hca_handle: -1",
            "0 or more",
        ),
        (Resources(unified={"cpu.weight": "0"}), "cpu.weight: '0'", "1 to 10000"),
        (Resources(unified={"a/b.c": "0"}), "unified: 'a/b.c'", "CONTROLLER.PARAMETER"),
        (Resources(unified={"weight": "0"}), "unified: 'weight'", "the name of a file"),
        (Resources(unified={".max": "0"}), "unified: '.max'", "the name of a file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_say_field_value_and_what_was_expected(
    given: Resources, wrong: str, expected: str
) -> None:
    """An error is one line: the field, the value, what was expected."""
    with pytest.raises(ConversionError) as caught:
        convert(given)
    text = str(caught.value)
    assert text.startswith(f"{wrong}, expected ")
    assert expected in text.removeprefix(wrong)
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize("weight", [0, 1001])
def test_bfq_has_a_range_of_its_own(weight: int) -> None:
    """With BFQ a weight is from 1 to 1000, of the cgroup as of a device."""
    with pytest.raises(ConversionError, match=r"^blockIO\.weight: .* 1 to 1000$"):
        convert(Resources(io_weight=weight), bfq=True)
    device = (DeviceWeight(8, 0, weight),)
    with pytest.raises(ConversionError, match=r"^blockIO\.weightDevice 8:0: "):
        convert(Resources(io_device_weights=device), bfq=True)


def test_rates_of_a_device_share_a_line() -> None:
    """A device has one line of io.max, in the kernel's order; the last rate counts."""
    throttles = (
        Throttle("wiops", 8, 0, 4),
        Throttle("rbps", 8, 16, 9),
        Throttle("rbps", 8, 0, 1),
        Throttle("wiops", 8, 0, 5),
    )
    files = convert(Resources(io_throttles=throttles)).files
    assert files == {"io.max": "8:0 rbps=1 wiops=5\n8:16 rbps=9"}


def test_devices_of_rdma_have_a_line_each() -> None:
    """Every RDMA device has a line, with the limits that were given."""
    limits = (RdmaLimit("mlx5_0", 2, 3), RdmaLimit("mlx5_1", None, 0))
    files = convert(Resources(rdma=limits)).files
    wanted = "mlx5_0 hca_handle=2 hca_object=3\nmlx5_1 hca_object=0"
    assert files == {"rdma.max": wanted}


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", 0),
        (" 4096\n", 4096),
        ("4k", 4096),
        ("1G", 1 << 30),
        ("2E", 2 << 60),
        ("max", UNLIMITED),
        ("1Gi", None),
        ("-1", None),
        ("\u0661", None),
        ("", None),
    ],
)
def test_bytes_are_read_as_the_kernel_reads_them(text: str, amount: object) -> None:
    """With the kernel's units; a text that the kernel refuses is no amount."""
    assert bytes_in(text) == amount
