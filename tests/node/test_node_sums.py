"""Direct writes: sums over a cgroup's children, at the pod and above."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from node.writing import BURST, LOW, PAGE, kernel_with, part, writer_on
from support.trees import CONTAINER, POD, QOS, UID

from nriplugin.cgroup.locate.paths import Driver, cgroup_path, pod_components
from nriplugin.engine.decision import Level, When

SIDECAR = f"{POD}/{'a' * 64}"
PAUSE = f"{POD}/{'b' * 64}"
NEIGHBOUR = f"{QOS}/podneighbour"
GUARANTEED = "/kubepods/podguaranteed"
ALL = ("/kubepods", QOS, POD, CONTAINER, SIDECAR, PAUSE, NEIGHBOUR, GUARANTEED)


def bursting(quota: str, **bursts: str) -> dict[str, str]:
    """Return the files of a pod's quota and of its containers' bursts."""
    names = {"own": CONTAINER, "sidecar": SIDECAR, "pause": PAUSE, "pod": POD}
    files = {f"{names[name]}/{BURST}": value for name, value in bursts.items()}
    return {f"{POD}/cpu.max": quota, **files}


@pytest.mark.parametrize(
    ("quota", "held", "burst"),
    [
        ("200000 100000", {}, "30000"),
        ("200000 100000", {"sidecar": "50000"}, "80000"),
        ("200000 100000", {"sidecar": "50000", "pause": "7"}, "80007"),
        # At an update, the container's old part is not counted beside its new one.
        ("200000 100000", {"sidecar": "50000", "own": "99000"}, "80000"),
        # A pod's burst follows its containers' downwards, too.
        ("200000 100000", {"sidecar": "50000", "pod": "150000"}, "80000"),
        # Never above the quota, which the kernel would refuse.
        ("60000 100000", {"sidecar": "50000"}, "60000"),
        ("60000 100000", {"sidecar": "odd"}, "30000"),
        ("60000 100000", {"sidecar": ""}, "30000"),
    ],
)
def test_a_pods_burst_is_the_sum_of_its_containers(
    quota: str, held: dict[str, str], burst: str
) -> None:
    """The parts are read from the containers' cgroups."""
    kernel = kernel_with(*ALL, files=bursting(quota, **held).items())
    writer_on(kernel).carry_out([part(BURST, 30000)], When.BEFORE, POD, CONTAINER)
    assert kernel.writes == [(f"{POD}/{BURST}", burst)]


def test_a_new_container_is_added_to_all_that_are_there() -> None:
    """It has no cgroup yet."""
    files = bursting("200000 100000", sidecar="50000", own="20000")
    kernel = kernel_with(*ALL, files=files.items())
    writer_on(kernel).carry_out([part(BURST, 30000)], When.BEFORE, POD)
    assert kernel.writes == [(f"{POD}/{BURST}", "100000")]


@pytest.mark.parametrize("quota", ["max 100000", "max", "", "odd", "-1 100000"])
def test_a_pod_without_a_quota_needs_no_burst(quota: str) -> None:
    """A burst could make the kernel refuse a later quota."""
    kernel = kernel_with(*ALL, files=bursting(quota, sidecar="50000").items())
    assert (
        writer_on(kernel).carry_out([part(BURST, 30000)], When.BEFORE, POD, CONTAINER)
        == []
    )
    assert kernel.writes == []


def test_a_pod_whose_quota_cannot_be_read_is_left_alone() -> None:
    """As if it had no quota."""
    kernel = kernel_with(*ALL)
    del kernel.files[f"{POD}/cpu.max"]
    assert writer_on(kernel).carry_out([part(BURST, 30000)], When.BEFORE, POD) == []


def test_without_a_burst_the_rest_of_the_sum_counts() -> None:
    """A part of 0 removes the container from the sum."""
    files = bursting("200000 100000", sidecar="50000", own="20000", pod="70000")
    kernel = kernel_with(*ALL, files=files.items())
    writer_on(kernel).carry_out([part(BURST, 0)], When.BEFORE, POD, CONTAINER)
    assert kernel.writes == [(f"{POD}/{BURST}", "50000")]


def test_sums_other_than_bursts_have_no_quota() -> None:
    """The kernel limits only bursts by the quota."""
    kernel = kernel_with(*ALL, files=[(f"{SIDECAR}/{LOW}", str(PAGE))])
    writer_on(kernel).carry_out([part(LOW, PAGE)], When.BEFORE, POD, CONTAINER)
    assert kernel.writes == [(f"{POD}/{LOW}", str(2 * PAGE))]


def raise_low(
    pages: int, held: dict[str, str], container: str | None = CONTAINER
) -> list[tuple[str, str]]:
    """Return the writes above a container that wants so many pages."""
    files = {f"{cgroup}/{LOW}": value for cgroup, value in held.items()}
    kernel = kernel_with(*ALL, files=files.items())
    wanted = part(LOW, pages * PAGE, Level.ANCESTORS)
    writer_on(kernel).carry_out([wanted], When.BEFORE, POD, container)
    assert {path.rpartition("/")[2] for path, _ in kernel.writes} <= {LOW}
    return [(path.rpartition("/")[0], _pages(value)) for path, value in kernel.writes]


def _pages(value: str) -> str:
    return f"{int(value) // PAGE}p"


def p(pages: int) -> str:
    return str(pages * PAGE)


def test_all_above_a_container_are_raised_from_the_top() -> None:
    """A child with more protection than its parent takes it from its siblings."""
    assert raise_low(5, {}) == [("/kubepods", "5p"), (QOS, "5p"), (POD, "5p")]


@pytest.mark.parametrize(
    ("held", "written"),
    [
        # Enough everywhere.
        ({POD: p(5), QOS: p(5), "/kubepods": p(5)}, []),
        ({POD: p(9), QOS: p(9), "/kubepods": p(9)}, []),
        # Only one has too little.
        ({POD: p(5), QOS: p(4), "/kubepods": p(5)}, [(QOS, "5p")]),
        # The other children count at every level.
        (
            {SIDECAR: p(2), NEIGHBOUR: p(3), GUARANTEED: p(4)},
            [("/kubepods", "14p"), (QOS, "10p"), (POD, "7p")],
        ),
        # What the container has already is not counted twice, nor the pod's own.
        (
            {CONTAINER: p(4), POD: p(4), QOS: p(4), "/kubepods": p(4)},
            [("/kubepods", "5p"), (QOS, "5p"), (POD, "5p")],
        ),
        # A pod with more than its containers keeps it, and counts with all of it.
        ({POD: p(20), QOS: p(20)}, [("/kubepods", "20p")]),
        # No limit is enough for all below, and says nothing about those above.
        ({POD: "max"}, [("/kubepods", "5p"), (QOS, "5p")]),
        ({QOS: "max", "/kubepods": "max"}, [(POD, "5p")]),
        ({POD: "odd", QOS: "", SIDECAR: "max"}, [("/kubepods", "5p")]),
    ],
)
def test_ancestors_are_raised_as_far_as_needed(
    held: dict[str, str], written: list[tuple[str, str]]
) -> None:
    """None is ever lowered."""
    assert raise_low(5, held) == written


def test_a_container_that_is_not_there_yet() -> None:
    """Its part is added to those of the existing containers."""
    assert raise_low(5, {SIDECAR: p(1), CONTAINER: p(2)}, None) == [
        ("/kubepods", "8p"),
        (QOS, "8p"),
        (POD, "8p"),
    ]


def test_a_cgroup_without_the_file_ends_the_walk() -> None:
    """Without the controller, no cgroup above can have the file either."""
    kernel = kernel_with(*ALL)
    for cgroup in (QOS, "/kubepods"):
        del kernel.files[f"{cgroup}/{LOW}"]
    wanted = part(LOW, PAGE, Level.ANCESTORS)
    outcomes = writer_on(kernel).carry_out([wanted], When.BEFORE, POD, CONTAINER)
    assert [outcome.update.cgroup for outcome in outcomes] == [POD]
    assert kernel.writes == [(f"{POD}/{LOW}", str(PAGE))]


def test_once_raised_there_is_nothing_to_do() -> None:
    """Also for a number that the kernel rounds down to whole pages."""
    kernel = kernel_with(*ALL)
    writer = writer_on(kernel)
    wanted = [part(LOW, PAGE + 5, Level.ANCESTORS)]
    writer.carry_out(wanted, When.BEFORE, POD, CONTAINER)
    assert len(kernel.writes) == 3
    assert all(
        outcome.ok for outcome in writer.carry_out(wanted, When.BEFORE, POD, CONTAINER)
    )
    assert len(kernel.writes) == 3


@pytest.mark.parametrize("driver", Driver)
@pytest.mark.parametrize("qos_class", ["Guaranteed", "Burstable", "BestEffort"])
@pytest.mark.parametrize("root", [(), ("kubelet",), ("a", "b")])
def test_nothing_above_kubepods_is_raised(
    driver: Driver, qos_class: str, root: tuple[str, ...]
) -> None:
    """Cgroups above kubepods do not belong to kubelet."""
    components = pod_components(qos_class, UID, root)
    depths = range(1, len(components) + 1)
    branch = [cgroup_path(components[:depth], driver) for depth in depths]
    kernel = kernel_with(*branch, "/system.slice")
    wanted = part(LOW, PAGE, Level.ANCESTORS)
    writer_on(kernel).carry_out([wanted], When.BEFORE, branch[-1])
    raised = [path.removesuffix(f"/{LOW}") for path, _ in kernel.writes]
    assert raised == branch[len(root) :]


amounts = st.integers(0, 1 << 40) | st.sampled_from(["max", "", "odd", "-1", "1e3"])


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 1 << 40),
    st.dictionaries(st.sampled_from(ALL), amounts),
    st.sampled_from([None, CONTAINER]),
    st.sampled_from([Level.POD, Level.ANCESTORS]),
    st.sampled_from([BURST, LOW]),
    amounts,
)
def test_whatever_the_files_hold(
    wanted: int,
    held: dict[str, int | str],
    container: str | None,
    level: Level,
    file: str,
    quota: int | str,
) -> None:
    """No exception, no other cgroup, no burst above the quota, nothing lowered."""
    kernel = kernel_with(*ALL)
    for cgroup, value in held.items():
        kernel.files[f"{cgroup}/{file}"] = str(value)
    kernel.files[f"{POD}/cpu.max"] = f"{quota} 100000"
    before = dict(kernel.files)
    writer_on(kernel).carry_out(
        [part(file, wanted, level)], When.BEFORE, POD, container
    )
    for path, value in kernel.writes:
        cgroup, _, name = path.rpartition("/")
        assert name == file
        if level is Level.POD:
            assert cgroup == POD
            there = before[f"{POD}/cpu.max"].split()
            assert file != BURST or int(value) <= int(there[0])
        else:
            assert cgroup in (POD, QOS, "/kubepods")
            assert int(value) > int(before[path])
