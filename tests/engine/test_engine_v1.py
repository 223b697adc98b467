"""A node with cgroup v1: what the handlers have written there, and when."""

from __future__ import annotations

import pytest
from engine.cases import APP, EVERYTHING_ON, NODE, POD, TYPICAL, config
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.convert import Resources
from nriplugin.engine.allowed_files import V1_FILES
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import Decision, Left
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.engine.handlers.cpu_qos import CPUQoSSettings
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.qos_level import QoSLevel
from nriplugin.engine.settings import DEFAULT_CONFIG, EngineConfig

BURST = "cpu.cfs_burst_us"
BVT = "cpu.bvt_warp_ns"
V1 = NODE._replace(
    cgroup_version=1, cgroup_evidence="tmpfs", files=frozenset({BURST}), writable=True
)
HALF = config(CPUBurstSettings(enabled=True, percent=50))
ONLY = Left("cgroup v2 files", "direct writes only: cgroup v1 (tmpfs)")

# (file, value, whose, when)
Row = tuple[str, str, str, str]


def rows(decision: Decision) -> list[Row]:
    """Return the direct writes; on cgroup v1 nothing else may leave."""
    assert (decision.files, decision.cleared, decision.refused) == ({}, (), [])
    assert decision.left[0] == ONLY
    return [(w.file, w.value, w.level.value, w.when.value) for w in decision.writes]


def test_the_conversion_does_nothing() -> None:
    """The numbers of v1 are right as they are, and a v2 key fails the container."""
    for decision in (
        decide(POD, APP, V1, DEFAULT_CONFIG),
        decide_update(POD, APP, TYPICAL, V1, DEFAULT_CONFIG),
    ):
        assert rows(decision) == []
        assert decision.left == [ONLY]
        assert decision.conversion is None


def test_a_new_container_gets_its_burst_by_a_direct_write() -> None:
    """The pod's comes before the container, whose own comes at its start."""
    assert rows(decide(POD, APP, V1, HALF)) == [
        (BURST, "50000", "pod", "before"),
        (BURST, "50000", "container", "after"),
    ]


@pytest.mark.parametrize(
    ("quota_us", "burst_us"),
    [(100_000, 100_000), (30_000, 30_000), (None, None)],
)
def test_a_burst_is_at_most_the_quota(
    quota_us: int | None, burst_us: int | None
) -> None:
    """The kernel of cgroup v1 has the same rule, and no quota means no burst."""
    app = APP._replace(resources=TYPICAL._replace(quota_us=quota_us))
    chosen = config(CPUBurstSettings(enabled=True, microseconds=200_000))
    found = rows(decide(POD, app, V1, chosen))
    values = {value for _, value, _, _ in found}
    assert values == (set() if burst_us is None else {str(burst_us)})


@pytest.mark.parametrize(
    ("quota_us", "container"),
    [
        # Lower than the old burst: the kernel would refuse the quota.
        (20_000, [("10000", "before"), ("10000", "after")]),
        (60_000, [("30000", "after")]),
        (400_000, [("200000", "after")]),
    ],
)
def test_an_update_keeps_the_order_of_the_kernel(
    quota_us: int, container: list[tuple[str, str]]
) -> None:
    """A burst is lowered before a quota that is below it, and raised after one."""
    app = APP._replace(ours={BURST: "50000"})
    asked = Resources(quota_us=quota_us, period_us=100_000)
    found = rows(decide_update(POD, app, asked, V1, HALF))
    new = str(quota_us // 2)
    assert found[0] == (BURST, new, "pod", "before")
    assert [(v, when) for _, v, whose, when in found if whose == "container"] == (
        container
    )


def test_an_update_without_a_quota_changes_no_burst_that_stays() -> None:
    """The file gets the value that it has, which the executor does not write."""
    app = APP._replace(ours={BURST: "50000"})
    found = rows(decide_update(POD, app, Resources(shares=1024), V1, HALF))
    assert found == [(BURST, "50000", "container", "after")]


@pytest.mark.parametrize(
    ("quota_us", "container"),
    [(40_000, [("0", "before"), ("0", "after")]), (80_000, [("0", "after")])],
)
def test_a_burst_that_no_handler_asks_for_ends(
    quota_us: int, container: list[tuple[str, str]]
) -> None:
    """With the next quota, and before it where the kernel would refuse that."""
    app = APP._replace(ours={BURST: "50000"})
    asked = Resources(quota_us=quota_us, period_us=100_000)
    for chosen in (DEFAULT_CONFIG, DEFAULT_CONFIG.without_handlers()):
        found = rows(decide_update(POD, app, asked, V1, chosen))
        assert found[0] == (BURST, "0", "pod", "before")
        assert [(v, when) for _, v, whose, when in found[1:]] == container


@pytest.mark.parametrize(
    ("files", "level", "expected"),
    [
        ({"cpu.qos_level"}, QoSLevel.BE, ("cpu.qos_level", "-1")),
        ({"cpu.qos_level", BVT}, QoSLevel.LS, ("cpu.qos_level", "1")),
        ({BVT}, QoSLevel.LC, (BVT, "2")),
        ({BVT}, QoSLevel.BE, (BVT, "-1")),
        ({"cpu.idle"}, QoSLevel.BE, None),
        (set(), QoSLevel.BE, None),
    ],
)
def test_the_level_of_the_cpu(
    files: set[str], level: QoSLevel, expected: tuple[str, str] | None
) -> None:
    """By the file that the kernel has; an idle container would lose its updates."""
    facts = V1._replace(files=frozenset(files))
    decision = decide(
        POD, APP, facts, config(CPUQoSSettings(enabled=True, level=level))
    )
    found = rows(decision)
    if expected is None:
        assert found == []
        assert decision.left[1:] == [
            Left(
                f"QoS level {level}",
                "cpuQoS: this node has neither cpu.qos_level nor cpu.bvt_warp_ns; "
                "the shares stay",
            )
        ]
    else:
        assert found == [
            (*expected, "container", "after"),
            (*expected, "pod", "after"),
        ]


@pytest.mark.parametrize(("level", "value"), [("BE", "-1"), ("LC", "0")])
def test_the_level_of_memory(level: str, value: str) -> None:
    """The same number as with cgroup v2."""
    facts = V1._replace(files=frozenset({"memory.qos_level"}))
    chosen = config(MemoryQoSLevelSettings(enabled=True, level=QoSLevel(level)))
    assert rows(decide(POD, APP, facts, chosen)) == [
        ("memory.qos_level", value, "container", "after"),
        ("memory.qos_level", value, "pod", "after"),
    ]
    assert rows(decide_update(POD, APP, TYPICAL, facts, chosen)) == []


def test_nothing_stands_for_a_level_of_memory() -> None:
    """cgroup v1 has neither memory.high nor memory.low."""
    level = QoSLevel.BE
    decision = decide(
        POD, APP, V1, config(MemoryQoSLevelSettings(enabled=True, level=level))
    )
    assert rows(decision) == []
    text = "memoryQoSLevel: this node has no memory.qos_level"
    assert decision.left[1:] == [Left("QoS level BE", text)]


def test_memory_qos_says_that_its_files_do_not_exist() -> None:
    """Each file is named with the reason; nothing is written in its place."""
    chosen = config(
        MemoryQoSSettings(enabled=True, swap="0", oom_group=True, raise_ancestors=True)
    )
    app = APP._replace(memory_request_bytes=1 << 28)
    decision = decide(POD, app, V1, chosen)
    assert rows(decision) == []
    reason = "memoryQoS: cgroup v1 has no such file"
    assert {left.what for left in decision.left if left.why == reason} == {
        "memory.high",
        "memory.low",
        "memory.swap.max",
        "memory.oom.group",
    }


def test_where_writing_is_off_nothing_is_promised() -> None:
    """With --read-only the decision names what it leaves out."""
    decision = decide(POD, APP, V1._replace(writable=False), HALF)
    assert rows(decision) == []
    text = "cpuBurst: only the executor can, and it is off"
    assert decision.left[1:] == [Left(BURST, text)]


@given(
    files=st.frozensets(st.sampled_from(sorted(V1_FILES | {"cpu.idle", "memory.low"}))),
    annotations=st.dictionaries(
        st.sampled_from(
            [
                f"{key}.cgroup2.nri.io"
                for key in ("cpu-burst", "qos-level", "pids.max", "memory.high")
            ]
        ),
        st.sampled_from(["BE", "LC", "10%", "off", "7", "5000"]),
    ),
    quota_us=st.none() | st.integers(1000, 10**9),
    ours=st.none() | st.just({BURST: "50000", "cpu.qos_level": "-1"}),
    writable=st.booleans(),
)
def test_no_decision_leaves_through_the_door(
    files: frozenset[str],
    annotations: dict[str, str],
    quota_us: int | None,
    ours: dict[str, str] | None,
    writable: bool,
) -> None:
    """Whatever is on, only files of cgroup v1 are written, and only directly."""
    facts = V1._replace(files=files, writable=writable)
    pod = POD._replace(annotations=annotations)
    app = APP._replace(resources=TYPICAL._replace(quota_us=quota_us), ours=ours)
    chosen = EngineConfig(base=EVERYTHING_ON)
    asked = Resources(shares=7, quota_us=quota_us, memory_limit_bytes=1 << 20)
    for decision in (
        decide(pod, app, facts, chosen),
        decide_update(pod, app, asked, facts, chosen),
    ):
        assert (decision.files, decision.cleared) == ({}, ())
        assert {write.file for write in decision.writes} <= V1_FILES
        assert writable or not decision.writes
