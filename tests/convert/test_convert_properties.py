"""Properties that hold for any input: the curves, the way back, and refusals."""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from nriplugin.cgroup.writing.kernel_text import number_in, same
from nriplugin.convert import UNLIMITED, Curve, Resources, convert
from nriplugin.convert.conversion import V1_ONLY
from nriplugin.convert.curves import MAX_SHARES, MIN_SHARES, shares_of, weight_of
from nriplugin.convert.model import DeviceWeight, HugepageLimit, RdmaLimit, Throttle
from nriplugin.convert.readers import from_oci
from nriplugin.convert.reverse import reverse
from nriplugin.convert.validate import (
    BYTE_FILES,
    MAX_PIDS,
    MAX_QUOTA_US,
    THROTTLE_KEYS,
    check,
)
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.convert import Conversion

each_curve = pytest.mark.parametrize("curve", list(Curve))
curves = st.sampled_from(Curve)

# Machines differ in speed; no example may fail for being slow.
settings.register_profile("unhurried", deadline=None)
unhurried = settings.get_profile("unhurried")


# Curves, for every number there is


@each_curve
def test_a_curve_never_falls_and_stays_in_range(curve: Curve) -> None:
    """More shares never have less weight, and every weight is from 1 to 10000."""
    weights = [weight_of(shares, curve) for shares in range(MAX_SHARES + 3)]
    assert weights == sorted(weights)
    assert (weights[MIN_SHARES], weights[MAX_SHARES]) == (1, 10_000)
    assert (weights[0], weights[-1]) == (1, 10_000)


@each_curve
@pytest.mark.parametrize(
    "shares", [-(1 << 70), -1, 0, MAX_SHARES + 1, 1 << 64, 1 << 700]
)
def test_a_curve_clamps(curve: Curve, shares: int) -> None:
    """Shares out of range have the weight of the nearer end."""
    assert weight_of(shares, curve) == (1 if shares < MIN_SHARES else 10_000)


@pytest.mark.parametrize(
    ("curve", "weight"),
    [(Curve.KEP, 39), (Curve.QUADRATIC, 100), (Curve.PROPORTIONAL, 100)],
)
def test_the_default_is_the_default(curve: Curve, weight: int) -> None:
    """The default number of shares has the default weight, except by the KEP."""
    assert weight_of(1024, curve) == weight


def test_the_kep_curve_has_its_last_weight_at_the_end() -> None:
    """By the KEP only the most shares there are have the largest weight."""
    assert weight_of(MAX_SHARES - 1, Curve.KEP) == 9999


def test_the_proportional_curve_keeps_ratios() -> None:
    """Twice the shares are twice the weight, where both are whole."""
    for shares in range(256, 50_000, 256):
        once, twice = (weight_of(n, Curve.PROPORTIONAL) for n in (shares, 2 * shares))
        assert twice == 2 * once


@each_curve
def test_a_weight_survives_the_way_back(curve: Curve) -> None:
    """A weight that shares can have comes back; by kubelet's way, at most one short."""
    reachable = {weight_of(n, curve) for n in range(MIN_SHARES, MAX_SHARES + 1)}
    short = 1 if curve is Curve.KEP else 0
    for weight in reachable:
        shares = shares_of(weight, curve)
        assert MIN_SHARES <= shares <= MAX_SHARES
        assert 0 <= weight - weight_of(shares, curve) <= short
    if curve is not Curve.PROPORTIONAL:
        assert reachable == set(range(1, 10_001))


@pytest.mark.parametrize("curve", [Curve.QUADRATIC, Curve.PROPORTIONAL])
def test_the_way_back_gives_the_fewest_shares(curve: Curve) -> None:
    """One share less than the way back gives has a smaller weight."""
    for weight in range(2, 10_001):
        shares = shares_of(weight, curve)
        assert weight_of(shares, curve) >= weight > weight_of(shares - 1, curve)


# The way back

amounts = st.integers(1, 1 << 60)
maybe_unlimited = st.one_of(st.just(UNLIMITED), amounts)


@st.composite
def ordinary(draw: st.DrawFn) -> Resources:
    """Resources as Kubernetes sends them."""
    limit = draw(st.none() | maybe_unlimited)
    swap = draw(st.none() | maybe_unlimited)
    if isinstance(swap, int):
        assume(limit is not None)
        if isinstance(limit, int):
            swap += limit
    quota = draw(st.none() | st.just(UNLIMITED) | st.integers(1000, MAX_QUOTA_US))
    return Resources(
        shares=draw(st.none() | st.integers(MIN_SHARES, MAX_SHARES)),
        quota_us=quota,
        period_us=draw(st.none() | st.integers(1000, 1_000_000)),
        memory_limit_bytes=limit,
        memory_swap_bytes=swap,
        memory_reservation_bytes=draw(st.none() | maybe_unlimited),
        pids_limit=draw(st.none() | st.just(UNLIMITED) | st.integers(1, MAX_PIDS)),
        cpus=draw(st.none() | st.sampled_from(["0", "0-3", "0,2-5"])),
    )


@settings(unhurried)
@given(ordinary(), curves)
def test_the_way_back_leads_to_the_same_resources(
    given: Resources, curve: Curve
) -> None:
    """Files convert back; shares to fewer of the same weight, or to one."""
    conversion = convert(given, curve)
    back = from_oci(reverse(conversion.files, curve))
    wanted = given._replace(unified={}, shares=back.shares)
    if given.quota_us is not None or given.period_us is not None:  # one file has both
        wanted = wanted._replace(
            quota_us=given.quota_us or UNLIMITED, period_us=given.period_us or 100_000
        )
    if given.memory_limit_bytes is UNLIMITED and given.memory_swap_bytes is None:
        wanted = wanted._replace(memory_swap_bytes=UNLIMITED)
    assert back == wanted
    if given.shares is None:
        assert back.shares is None
    else:
        assert back.shares is not None
        assert back.shares <= given.shares
        lost = weight_of(given.shares, curve) - weight_of(back.shares, curve)
        assert 0 <= lost <= (1 if curve is Curve.KEP else 0)


@settings(unhurried)
@given(ordinary(), st.sampled_from([Curve.QUADRATIC, Curve.PROPORTIONAL]))
def test_files_survive_the_way_back(given: Resources, curve: Curve) -> None:
    """Files that came of a conversion, converted back and forth, are the same."""
    files = convert(given, curve).files
    assert convert(from_oci(reverse(files, curve)), curve).files == files


file_values = st.fixed_dictionaries(
    {},
    optional={
        "cpu.weight": st.integers(1, 10_000).map(str),
        "cpu.max": st.sampled_from(["max 100000", "1000 1000", "max 5000"]),
        "memory.max": amounts.map(str) | st.just("max"),
        "memory.low": amounts.map(str) | st.just("max"),
        "memory.high": amounts.map(str) | st.just("max"),
        "memory.swap.max": st.integers(0, 1 << 60).map(str) | st.just("max"),
        "pids.max": st.integers(1, MAX_PIDS).map(str) | st.just("max"),
        "io.bfq.weight": st.integers(1, 1000).map(str),
        "io.max": st.just("8:0 rbps=1"),
        "cpuset.cpus": st.sampled_from(["0", "1-3"]),
    },
)


@settings(unhurried)
@given(file_values)
def test_any_files_survive_the_way_back(files: dict[str, str]) -> None:
    """Files that are reversed to resources and converted again are the same files."""
    again = convert(from_oci(reverse(files)), bfq=True).files
    # No memory limit is no swap limit either, unless there is one.
    if files.get("memory.max") == "max":
        files = {"memory.swap.max": "max", **files}
    assert again == files


@pytest.mark.parametrize("bfq", [False, True])
def test_io_weights_survive_the_way_back(bfq: bool) -> None:
    """Every v1 weight comes back from the file of either scheduler."""
    for weight in range(10, 1001):
        files = convert(Resources(io_weight=weight), bfq=bfq).files
        assert reverse(files) == {"blockIO": {"weight": weight}}


def test_huge_pages_survive_the_way_back() -> None:
    """A limit of huge pages comes back as one, unless its two files differ."""
    limits = [{"pageSize": "1GB", "limit": 0}, {"pageSize": "2MB", "limit": 1 << 21}]
    files = convert(from_oci({"hugepageLimits": limits})).files
    assert reverse(files) == {"hugepageLimits": limits}
    other = {"hugetlb.2MB.rsvd.max": "max"}
    assert reverse({**files, **other}) == {"hugepageLimits": limits, "unified": other}


# Anything

huge = st.integers(-(1 << 200), 1 << 200)
edges = st.sampled_from(
    [-2, -1, 0, 1, 2, 999, 1000, 100_000, 262_144, 1 << 44, (1 << 63) - 1, 1 << 64]
)
numbers = huge | edges | st.integers(-10, 20_000)
long_number = "1" * 5000  # more digits than int() takes
odd_texts = st.one_of(
    st.text(max_size=20),
    st.text(string.digits + "-,:/ \t\nmaxkMG", max_size=12),
    st.sampled_from(
        [
            "0",
            "1",
            "01",
            "max",
            "max 100000",
            "5000 100000",
            "5000\t100000",
            "0-3:1/0",
            "٣",
            "٣:0 5",
            "1\u2028",
            " 1",
            long_number,
            f"0-{long_number}",
            f"8:0 {long_number}",
        ]
    ),
)
sizes = st.sampled_from(["2MB", "1GB", "64KB", "2048kB", "../2MB", ""]) | odd_texts
files = st.sampled_from(
    [
        "cpu.weight",
        "cpu.idle",
        "cpu.max",
        "cpu.max.burst",
        "cpuset.cpus",
        "cpuset.mems",
        "memory.max",
        "memory.swap.max",
        "memory.oom.group",
        "pids.max",
        "io.weight",
        "io.bfq.weight",
        "io.max",
        "hugetlb.2MB.max",
        "misc.max",
    ]
)
device_numbers = st.integers(0, 1 << 33)
amount_or_none = st.none() | st.just(UNLIMITED) | numbers
number_or_none = st.none() | numbers

anything = st.builds(
    Resources,
    shares=number_or_none,
    quota_us=amount_or_none,
    period_us=number_or_none,
    burst_us=number_or_none,
    idle=number_or_none,
    cpus=st.none() | odd_texts,
    mems=st.none() | odd_texts,
    memory_limit_bytes=amount_or_none,
    memory_swap_bytes=amount_or_none,
    memory_reservation_bytes=amount_or_none,
    pids_limit=amount_or_none,
    hugepage_limits=st.lists(st.builds(HugepageLimit, sizes, numbers)).map(tuple),
    io_weight=number_or_none,
    io_device_weights=st.lists(
        st.builds(DeviceWeight, device_numbers, device_numbers, numbers)
    ).map(tuple),
    io_throttles=st.lists(
        st.builds(
            Throttle,
            st.sampled_from(THROTTLE_KEYS),
            device_numbers,
            device_numbers,
            numbers,
        )
    ).map(tuple),
    rdma=st.lists(st.builds(RdmaLimit, odd_texts, number_or_none, number_or_none)).map(
        tuple
    ),
    unified=st.dictionaries(files | odd_texts, odd_texts, max_size=4),
    v1_only=st.lists(
        st.tuples(st.sampled_from(list(V1_ONLY)), st.integers()), max_size=3
    ).map(tuple),
)

# One field at a time: of many at once, one is all but always refused.
FIELDS = list(Resources._fields)
few_fields = st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3, unique=True)


def only(resources: Resources, fields: list[str]) -> Resources:
    wanted: Any = {field: getattr(resources, field) for field in fields}
    return Resources(**wanted)


def converted(resources: Resources, curve: Curve, bfq: bool) -> Conversion | None:
    """Convert; a refusal is None, any other exception the test's failure."""
    try:
        return convert(resources, curve, bfq=bfq)
    except ConversionError:
        return None


@settings(unhurried, max_examples=200)
@given(anything, few_fields, curves, st.booleans())
@example(Resources(burst_us=1, unified={"cpu.max": "abc"}), FIELDS, Curve.KEP, False)
@example(Resources(unified={"cpu.weight": long_number}), FIELDS, Curve.KEP, False)
@example(Resources(cpus=f"0-{long_number}"), FIELDS, Curve.KEP, False)
@example(Resources(memory_limit_bytes=10**20), FIELDS, Curve.KEP, False)
@example(Resources(memory_reservation_bytes=10**20), FIELDS, Curve.KEP, False)
@example(
    Resources(memory_limit_bytes=1, memory_swap_bytes=10**21),
    FIELDS,
    Curve.KEP,
    False,
)
@example(
    Resources(hugepage_limits=(HugepageLimit("2MB", 10**20),)),
    FIELDS,
    Curve.KEP,
    False,
)
@example(
    Resources(hugepage_limits=(HugepageLimit("2MB", 1), HugepageLimit("2MB", 2))),
    FIELDS,
    Curve.KEP,
    False,
)
def test_anything_is_converted_or_refused(
    resources: Resources, fields: list[str], curve: Curve, bfq: bool
) -> None:
    """Whatever the numbers, there are files that the kernel takes, or a refusal."""
    conversion = converted(only(resources, fields), curve, bfq)
    if conversion is None:
        return
    names = [entry.file for entry in conversion.derived]
    assert len(names) == len(set(names))
    assert list(conversion.files) == names
    for file, value in conversion.files.items():
        assert isinstance(value, str)
        check(file, value)
        assert same(file, value, f" {value}\n")
        assert isinstance(reverse({file: value}), dict)


@settings(unhurried, max_examples=200)
@given(files, odd_texts)
@example("cpu.max", "5000\t100000")
@example("cpuset.cpus", "0-3:1/0")
@example("cpuset.cpus", "٣")
@example("cpu.weight", "\x85")
@example("cpuset.cpus", long_number)
@example("memory.max", long_number)
@example("io.max", f"8:0 rbps={long_number}")
def test_any_text_is_refused_or_understood(file: str, value: str) -> None:
    """Whatever a file is to hold, it is refused, or can be compared and reversed."""
    try:
        check(file, value)
    except ConversionError:
        return
    assert value.isascii() or file == "misc.max"  # all that the kernel knows
    assert same(file, value, f" {value}\n")
    if file in BYTE_FILES and value.strip():
        assert number_in(file, value) >= 0
    if value.strip():
        assert isinstance(reverse({file: value}), dict)


# JSON

json_leaves = (
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | odd_texts
)
json_values = st.recursive(
    json_leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """JSON objects of known fields, with now and then something else in one."""
    mostly = {name: strategy | json_leaves for name, strategy in fields.items()}
    return st.fixed_dictionaries({}, optional=mostly)


def leaves(*names: str) -> dict[str, st.SearchStrategy[Any]]:
    return dict.fromkeys(names, numbers | json_leaves)


devices = st.lists(objects(**leaves("major", "minor", "rate", "weight")), max_size=3)
documents = objects(
    cpu=objects(
        **leaves("shares", "quota", "period", "burst", "idle", "realtimeRuntime"),
        cpus=odd_texts,
        mems=odd_texts,
    ),
    memory=objects(**leaves("limit", "swap", "reservation", "kernel", "swappiness")),
    pids=objects(**leaves("limit")),
    hugepageLimits=st.lists(objects(pageSize=sizes, limit=numbers), max_size=3),
    blockIO=objects(
        **leaves("weight", "leafWeight"),
        weightDevice=devices,
        throttleReadBpsDevice=devices,
        throttleWriteBpsDevice=devices,
        throttleReadIOPSDevice=devices,
        throttleWriteIOPSDevice=devices,
    ),
    rdma=st.dictionaries(odd_texts, objects(**leaves("hcaHandles", "hcaObjects"))),
    unified=st.dictionaries(files | odd_texts, odd_texts | json_leaves, max_size=3),
    network=objects(classID=numbers, priorities=json_values),
)


@settings(unhurried, max_examples=200)
@given(json_values | documents)
def test_any_json_is_read_or_refused(document: object) -> None:
    """Whatever JSON there is, it is read as resources, or refused."""
    try:
        resources = from_oci(document)
    except ConversionError:
        return
    assert isinstance(resources, Resources)


@settings(unhurried, max_examples=200)
@given(documents, st.booleans())
@example(
    {"blockIO": {"throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": True}]}},
    False,
)
@example({"rdma": {"mlx5_0": {"hcaHandles": True}}}, False)
def test_any_json_is_converted_or_refused(document: object, bfq: bool) -> None:
    """What JSON is read is converted to files that the kernel takes, or refused."""
    try:
        conversion = convert(from_oci(document), bfq=bfq)
    except ConversionError:
        return
    for file, value in conversion.files.items():
        check(file, value)
        assert "True" not in value or file not in ("io.max", "rdma.max")
