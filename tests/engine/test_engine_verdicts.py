"""What holds a container back, by tables of two samples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.engine.policies import ContainerSample, MemoryCounts, StallTime
from nriplugin.engine.verdicts import (
    FoundVerdict,
    Judgement,
    Moment,
    Verdict,
    judge,
    of_pod,
)

MIB = 1 << 20
SECOND = 1_000_000_000
IDLE, THROTTLED, CONTENDED, HIGH = (
    Verdict.IDLE,
    Verdict.THROTTLED,
    Verdict.CONTENDED,
    Verdict.MEMORY_HIGH,
)
ALL = tuple(Verdict)

# What a container without a quota holds that does nothing.
ZERO: dict[str, Any] = {
    "cpu_usage_ns": 0,
    "periods": 0,
    "throttled": 0,
    "throttled_ns": 0,
    "memory_bytes": 10 * MIB,
    "memory_high_bytes": 64 * MIB,
    "memory_counts": MemoryCounts(0, 0, 0, 0),
    "cpu_stall": StallTime(0, 0),
    "memory_stall": StallTime(0, 0),
    "io_stall": StallTime(0, 0),
}
POD = ContainerSample(0.0, cpu_usage_ns=0, periods=0, throttled=0, throttled_ns=0)
START = Moment(ContainerSample(0.0, **ZERO), POD, 100.0)


def stalled(seconds: float) -> StallTime:
    return StallTime(round(seconds * 1e6), 0)


def after(
    seconds: float = 10.0,
    *,
    pod: ContainerSample | None = POD,
    busy_s: float | None = 0.0,
    **fields: Any,
) -> Moment:
    """Return the moment some seconds later; `busy_s` is the node's CPU time since."""
    sample = ContainerSample(seconds, **{**ZERO, **fields})
    return Moment(sample, pod, None if busy_s is None else 100.0 + busy_s)


def verdicts(judgement: Judgement) -> list[Verdict]:
    return [one.verdict for one in judgement.findings]


LOOP_UNDER_QUOTA: dict[str, Any] = {
    "cpu_usage_ns": 2 * SECOND,
    "periods": 100,
    "throttled": 99,
    "throttled_ns": 8 * SECOND,
    "cpu_stall": stalled(8.1),
}
# Four tasks: each CPU's time counts, so the sum is above the time that passed.
FOUR_UNDER_QUOTA: dict[str, Any] = {**LOOP_UNDER_QUOTA, "throttled_ns": 32 * SECOND}
HALF_A_CPU: dict[str, Any] = {"cpu_usage_ns": 5 * SECOND, "cpu_stall": stalled(5.0)}
AT_HIGH: dict[str, Any] = {
    "cpu_usage_ns": SECOND,
    "memory_bytes": 63 * MIB,
    "memory_counts": MemoryCounts(40, 0, 0, 0),
    "memory_stall": stalled(9.0),
}
THROTTLED_POD = POD._replace(periods=100, throttled=60, throttled_ns=5 * SECOND)

TABLE: list[tuple[str, Moment, list[Verdict]]] = [
    ("nothing happens", after(), [IDLE]),
    ("health checks", after(cpu_usage_ns=SECOND // 20), [IDLE]),
    ("works", after(cpu_usage_ns=5 * SECOND, busy_s=6.0), []),
    ("waits for its disk", after(io_stall=stalled(3)), []),
    ("loop under a quota", after(**LOOP_UNDER_QUOTA, busy_s=2.5), [THROTTLED]),
    ("four tasks", after(**FOUR_UNDER_QUOTA, busy_s=12.0), [THROTTLED]),
    ("hardly throttled", after(cpu_usage_ns=SECOND, periods=100, throttled=9), []),
    (
        "throttled enough",
        after(cpu_usage_ns=SECOND, periods=100, throttled=10, throttled_ns=SECOND),
        [THROTTLED],
    ),
    (
        "throttled and idle otherwise",
        after(periods=1, throttled=1, throttled_ns=SECOND // 100),
        [THROTTLED],
    ),
    (
        "its pod is throttled",
        after(**HALF_A_CPU, pod=THROTTLED_POD, busy_s=5.2),
        [THROTTLED],
    ),
    ("two loops on one CPU", after(**HALF_A_CPU, busy_s=10.0), [CONTENDED]),
    ("its own tasks alone", after(**HALF_A_CPU, busy_s=5.4), []),
    (
        "contended a little",
        after(cpu_usage_ns=5 * SECOND, cpu_stall=stalled(0.9), busy_s=20.0),
        [],
    ),
    (
        "contended more than throttled",
        after(
            cpu_usage_ns=2 * SECOND,
            periods=100,
            throttled=20,
            throttled_ns=2 * SECOND,
            cpu_stall=stalled(7.0),
            busy_s=10.0,
        ),
        [CONTENDED, THROTTLED],
    ),
    (
        "throttled more than contended",
        after(
            cpu_usage_ns=2 * SECOND,
            periods=100,
            throttled=50,
            throttled_ns=5 * SECOND,
            cpu_stall=stalled(7.0),
            busy_s=10.0,
        ),
        [THROTTLED, CONTENDED],
    ),
    (
        "starved",
        after(cpu_usage_ns=SECOND // 50, cpu_stall=stalled(9.9), busy_s=20.0),
        [CONTENDED],
    ),
    ("at memory.high", after(**AT_HIGH), [HIGH]),
    ("asleep at memory.high", after(**{**AT_HIGH, "cpu_usage_ns": 0}), [HIGH]),
    ("near it, without waiting", after(**{**AT_HIGH, "memory_stall": stalled(0)}), []),
    ("far from it", after(**{**AT_HIGH, "memory_bytes": 40 * MIB}), []),
    ("no memory.high", after(**{**AT_HIGH, "memory_high_bytes": -1}), []),
    (
        "near it, and never reached",
        after(**{**AT_HIGH, "memory_counts": MemoryCounts(0, 9, 0, 0)}),
        [],
    ),
    (
        "several at once",
        after(**{**LOOP_UNDER_QUOTA, **AT_HIGH}, busy_s=2.0),
        [HIGH, THROTTLED],
    ),
]


@pytest.mark.parametrize(("now", "expected"), [row[1:] for row in TABLE])
def test_verdicts_by_two_samples(now: Moment, expected: list[Verdict]) -> None:
    """All that hold, the one that costs most time first; all others were told, too."""
    judgement = judge(START, now)
    assert verdicts(judgement) == expected
    assert judgement.untold == ()


@pytest.mark.parametrize(
    ("now", "verdict", "because"),
    [
        (
            after(**LOOP_UNDER_QUOTA, busy_s=2.0),
            THROTTLED,
            "throttled in 99 of 100 periods, for 8.00 s summed over CPUs within 10.00 "
            "s",
        ),
        (
            after(**HALF_A_CPU, pod=THROTTLED_POD, busy_s=5.0),
            THROTTLED,
            "its pod: throttled in 60 of 100 periods, for 5.00 s summed over CPUs "
            "within 10.00 s",
        ),
        (
            after(**HALF_A_CPU, busy_s=10.0),
            CONTENDED,
            "waited for a CPU in 5.00 of 10.00 s, throttling left out, while it used "
            "0.50 CPUs and others 0.50",
        ),
        (
            after(**AT_HIGH),
            HIGH,
            "waited for memory in 9.00 of 10.00 s, with 63.0Mi used of memory.high "
            "64.0Mi",
        ),
        (after(), IDLE, "used 0.000 CPUs and waited for nothing"),
    ],
)
def test_a_verdict_has_its_numbers(now: Moment, verdict: Verdict, because: str) -> None:
    """A sentence says what it follows from."""
    (found,) = judge(START, now).findings
    assert (found.verdict, found.because) == (verdict, because)


@pytest.mark.parametrize(
    ("missing", "now", "untold"),
    [
        ({"periods": None}, after(**HALF_A_CPU, busy_s=9.0), {THROTTLED, CONTENDED}),
        ({"throttled_ns": None}, after(**LOOP_UNDER_QUOTA), {THROTTLED, CONTENDED}),
        ({"cpu_stall": None}, after(**HALF_A_CPU, busy_s=9.0), {CONTENDED}),
        ({"cpu_stall": None}, after(), {CONTENDED, IDLE}),
        ({"memory_stall": None}, after(**AT_HIGH), {HIGH}),
        ({"memory_high_bytes": None}, after(**AT_HIGH), {HIGH}),
        ({"memory_bytes": None}, after(**AT_HIGH), {HIGH}),
        ({"memory_counts": None}, after(**AT_HIGH), {HIGH}),
        ({"cpu_usage_ns": None}, after(), {IDLE}),
        ({"io_stall": None}, after(), {IDLE}),
    ],
)
def test_what_is_not_measured_is_not_told(
    missing: dict[str, Any], now: Moment, untold: set[Verdict]
) -> None:
    """No verdict is made up, and the missing ones are named."""
    lacking = now._replace(container=now.container._replace(**missing))
    judgement = judge(START, lacking)
    assert (verdicts(judgement), set(judgement.untold)) == ([], untold)


def test_contention_needs_the_pod_and_the_node() -> None:
    """Else the pod's quota, or the container's own tasks, may have been the reason."""
    for now in (
        after(**HALF_A_CPU, busy_s=None),
        after(**HALF_A_CPU, busy_s=10.0, pod=None),
    ):
        judgement = judge(START, now)
        assert judgement.findings == ()
        assert CONTENDED in judgement.untold


def test_without_pressure_the_run_queue_tells_who_is_idle() -> None:
    """As on cgroup v1, where contention and memory.high cannot be told."""
    v1: dict[str, Any] = {
        "cpu_stall": None,
        "memory_stall": None,
        "io_stall": None,
        "memory_high_bytes": None,
    }
    start = START._replace(container=START.container._replace(**v1))
    idle = judge(start, after(**v1, running_tasks=0))
    assert verdicts(idle) == [IDLE]
    assert idle.untold == (CONTENDED, HIGH)
    assert judge(start, after(**v1, running_tasks=1)).findings == ()
    limited = {**LOOP_UNDER_QUOTA, **v1}
    assert verdicts(judge(start, after(**limited))) == [THROTTLED]


def test_the_first_sample_and_a_clock_that_stands_still() -> None:
    """Nothing can be told."""
    assert judge(None, after()) == Judgement((), ALL)
    assert judge(START, after(0.0)) == Judgement((), ALL)


def test_a_counter_that_went_back_is_another_cgroups() -> None:
    """What follows from it is not told."""
    before = Moment(START.container._replace(throttled=7), POD, 100.0)
    judgement = judge(before, after(**LOOP_UNDER_QUOTA | {"throttled": 5}))
    assert THROTTLED in judgement.untold


def test_a_pod_is_held_back_as_its_containers_are() -> None:
    """The worst finding of each kind stays; a pod is idle if all of it is."""
    idle = judge(START, after())
    some = judge(START, after(**LOOP_UNDER_QUOTA, busy_s=2.0))
    few = Judgement((FoundVerdict(THROTTLED, "few", 0.1),), ())
    unknown = Judgement((), (CONTENDED,))
    assert verdicts(of_pod((idle, idle))) == [IDLE]
    assert of_pod((idle, few, some)) == some
    assert of_pod((idle, unknown)) == unknown
    assert of_pod(()) == Judgement((), ALL)


# Every field of a sample that may be missing, and what else a verdict needs.
FIELDS = tuple(ZERO)
NEEDS = {
    THROTTLED: {"periods", "throttled", "throttled_ns"},
    CONTENDED: {"cpu_stall", "cpu_usage_ns", "periods", "throttled", "throttled_ns"},
    HIGH: {"memory_bytes", "memory_high_bytes", "memory_counts", "memory_stall"},
    IDLE: {"cpu_usage_ns", "cpu_stall", "memory_stall", "io_stall"},
}
amounts = st.integers(0, 100 * SECOND)
stalls = st.builds(StallTime, st.integers(0, 20_000_000), st.just(0))


@st.composite
def moments(draw: st.DrawFn, at_s: float) -> Moment:
    """Any counters, of which any may be missing."""
    sample = ContainerSample(
        at_s,
        cpu_usage_ns=draw(st.none() | amounts),
        periods=draw(st.none() | st.integers(0, 200)),
        throttled=draw(st.none() | st.integers(0, 200)),
        throttled_ns=draw(st.none() | amounts),
        memory_bytes=draw(st.none() | st.integers(0, 100)),
        memory_high_bytes=draw(st.none() | st.integers(-1, 100)),
        memory_counts=draw(
            st.none()
            | st.builds(MemoryCounts, st.none() | st.integers(0, 9), *[amounts] * 3)
        ),
        cpu_stall=draw(st.none() | stalls),
        memory_stall=draw(st.none() | stalls),
        io_stall=draw(st.none() | stalls),
    )
    pod = draw(st.none() | st.just(POD))
    return Moment(sample, pod, draw(st.none() | st.floats(0, 100)))


@given(moments(0.0), moments(10.0))
def test_never_a_verdict_from_what_was_not_measured(
    previous: Moment, now: Moment
) -> None:
    """... and none both told and untold, and an idle container has no other one."""
    judgement = judge(previous, now)
    found = verdicts(judgement)
    for verdict in found:
        for moment in (previous, now):
            lacking = {f for f in FIELDS if getattr(moment.container, f) is None}
            if verdict is HIGH and moment is previous:
                lacking &= {"memory_stall"}
            assert not lacking & NEEDS[verdict]
    assert not set(found) & set(judgement.untold)
    assert len(set(found)) == len(found)
    assert IDLE not in found or found == [IDLE]
    assert all(0 <= one.share <= 1 for one in judgement.findings)
