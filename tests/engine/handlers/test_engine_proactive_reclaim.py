"""Proactive reclaim: samples in, writes to memory.reclaim out."""

from __future__ import annotations

from errno import EAGAIN, EBUSY, EINVAL, ENOENT, EOPNOTSUPP
from typing import Any

import pytest
from engine.cases import APP, GIB, MIB, NODE, POD, annotated, config, refusals
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.engine.decide import decide
from nriplugin.engine.handlers.proactive_reclaim import (
    ProactiveReclaimSettings,
    ReclaimState,
    memory_to_reclaim,
)
from nriplugin.engine.policies import (
    ContainerSample,
    MemoryCounts,
    NodeSample,
    StallTime,
    Trigger,
    Triggered,
)
from nriplugin.engine.policy_settings import policies_of

INTERVAL_S = 10.0
ON = ProactiveReclaimSettings(True)
NO_SWAP = NodeSample(swap_bytes=0)
SWAP = NodeSample(swap_bytes=GIB)
FILE = "memory.reclaim"


def sample(
    at_s: float,
    use: int = GIB,
    *,
    waited: float = 0.0,
    refaults: int | None = 0,
    held: int = 0,
    cache: int | None = GIB,
    protected: int | None = 0,
    done: Triggered | None = None,
    **more: Any,
) -> ContainerSample:
    """Return what is measured; `waited` seconds and the counts since the start."""
    return ContainerSample(
        at_s,
        memory_bytes=use,
        memory_counts=MemoryCounts(held, 0, 0, 0),
        memory_stall=StallTime(int(waited * 1e6), 0),
        refaults=refaults,
        cache_bytes=cache,
        protected_bytes=protected,
        triggered={} if done is None else {FILE: done},
        **more,
    )


def asked(
    now: ContainerSample,
    *,
    settings: ProactiveReclaimSettings = ON,
    node: NodeSample = NO_SWAP,
    state: ReclaimState | None = None,
    before: ContainerSample | None = None,
) -> str:
    """Return what is written after one interval in which this was measured."""
    previous = before or sample(now.at_s - INTERVAL_S)
    answer = memory_to_reclaim(settings, state, previous, now, node)
    assert answer.actions == ()
    assert all(one.file == FILE for one in answer.triggers)
    return "".join(one.value for one in answer.triggers)


def test_nothing_is_taken_before_two_samples() -> None:
    """Calm is what happens between them."""
    answer = memory_to_reclaim(ON, None, None, sample(0.0), NO_SWAP)
    assert answer.triggers == ()


@pytest.mark.parametrize(
    ("given", "amount"),
    [
        ({}, 10 * MIB + 192 * 1024),  # 1 % of 1 GiB, in whole pages
        ({"use": 10 * GIB, "cache": 10 * GIB}, 16 * MIB),  # the most per step
        ({"use": 64 * MIB}, 0),  # what it keeps
        ({"use": 65 * MIB}, 640 * 1024),
        ({"use": 64 * MIB + 128 * 1024}, 128 * 1024),
        ({"protected": GIB}, 0),
        ({"protected": GIB - MIB}, MIB),
        ({"protected": -1}, 0),  # all of its memory
        ({"cache": MIB}, MIB),
        ({"cache": 0}, 0),
        ({"cache": None}, 0),
    ],
)
def test_the_amount(given: dict[str, Any], amount: int) -> None:
    """A part of what it uses, above what it keeps and what is protected."""
    assert asked(sample(INTERVAL_S, **given)) == (str(amount) if amount else "")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"waited": 0.1}, "it waited for memory 1.0 % of the time"),
        ({"refaults": 1001}, "100 pages per second were read again"),
        ({"held": 1}, "memory.high"),
        ({"waited": 0.099, "refaults": 1000}, ""),
        ({"waited": -1.0}, ""),  # another cgroup's counters
    ],
)
def test_it_stops_at_once(given: dict[str, Any], why: str) -> None:
    """At pressure, refaults, or memory.high; and then it rests."""
    previous = sample(0.0)
    now = sample(INTERVAL_S, **given)
    answer = memory_to_reclaim(ON, None, previous, now, NO_SWAP)
    stopped = bool(why) or given == {"waited": -1.0}
    assert bool(answer.triggers) != stopped
    assert why in answer.reason
    if why:
        for seconds, rests in ((59.0, True), (60.0, False)):
            later = now._replace(at_s=now.at_s + seconds)
            again = memory_to_reclaim(ON, answer.state, now, later, NO_SWAP)
            assert bool(again.triggers) != rests


@pytest.mark.parametrize(
    ("node", "swap_max", "allowed", "ending"),
    [
        (SWAP, -1, False, " swappiness=0"),
        (SWAP, None, False, " swappiness=0"),
        (NodeSample(), -1, False, " swappiness=0"),  # not known
        (SWAP, 0, False, ""),  # it cannot swap
        (NO_SWAP, -1, False, ""),
        (SWAP, -1, True, ""),
    ],
)
def test_swap_is_not_touched_unless_allowed(
    node: NodeSample, swap_max: int | None, ending: str, *, allowed: bool
) -> None:
    """By an argument of the write, where there is swap at all."""
    settings = ON._replace(swap=allowed)
    written = asked(
        sample(INTERVAL_S, swap_max_bytes=swap_max), settings=settings, node=node
    )
    assert written.partition(" ")[2] == ending.strip()


def test_where_swap_is_allowed_the_cache_is_no_bound() -> None:
    """Other memory can be swapped."""
    settings = ON._replace(swap=True)
    assert asked(sample(INTERVAL_S, cache=0), settings=settings, node=SWAP)


@pytest.mark.parametrize(
    ("done", "until_s", "why"),
    [
        (Triggered(0, 0.1, "1"), 0, ""),  # 1 % of a CPU since it was asked
        (Triggered(0, 0.2, "1"), 20, "CPU time"),
        (Triggered(EAGAIN, 0.0, "1"), 70, "less to take"),
        (Triggered(EAGAIN, 2.0, "1"), 200, "less to take"),
        (Triggered(EBUSY, 0.0, "1"), 70, "memory.reclaim"),
    ],
)
def test_what_came_of_a_write(done: Triggered, until_s: int, why: str) -> None:
    """EAGAIN is normal and means that there is nothing to take for a while."""
    now = sample(INTERVAL_S, done=done)
    answer = memory_to_reclaim(ON, None, sample(0.0), now, NO_SWAP)
    assert bool(answer.triggers) == (until_s == 0)
    assert why in answer.reason
    assert not answer.unable
    if until_s:
        for at_s, rests in ((until_s - 1, True), (until_s, False)):
            later = sample(at_s)
            again = memory_to_reclaim(ON, answer.state, now, later, NO_SWAP)
            assert bool(again.triggers) != rests


@pytest.mark.parametrize(
    ("done", "why"),
    [
        (Triggered(ENOENT, 0.0, "1"), "expected at least 5.19"),
        (Triggered(EOPNOTSUPP, 0.0, "1"), "expected at least 5.19"),
        (Triggered(EINVAL, 0.0, "1 swappiness=0"), "proactiveReclaim.swap"),
    ],
)
def test_what_the_kernel_cannot_do_is_said(done: Triggered, why: str) -> None:
    """And is not tried again."""
    now = sample(INTERVAL_S, done=done)
    answer = memory_to_reclaim(ON, None, sample(0.0), now, SWAP)
    again = memory_to_reclaim(ON, answer.state, now, sample(9999.0), SWAP)
    for one in (answer, again):
        assert why in one.unable
        assert one.triggers == ()


@pytest.mark.parametrize("field", ["memory_stall", "refaults", "protected_bytes"])
def test_what_the_node_does_not_measure_is_said(field: str) -> None:
    """Without all of its brakes the policy does nothing."""
    lacks: dict[str, Any] = {field: None}
    now = sample(INTERVAL_S)._replace(**lacks)
    answer = memory_to_reclaim(ON, None, sample(0.0), now, NO_SWAP)
    assert answer.unable
    assert answer.triggers == ()


@pytest.mark.parametrize(
    ("value", "keeps"), [("512Mi", 512 * MIB), ("0", 0), ("1e9", 10**9), ("off", None)]
)
def test_the_annotation(value: str, keeps: int | None) -> None:
    """It sets what the container keeps, or switches the policy off."""
    pod = annotated(proactive_reclaim=value)
    chosen = config(ProactiveReclaimSettings(enabled=True))
    on = policies_of(pod, APP, None, chosen).on
    kept = [one.settings.keep_bytes for one in on]
    assert kept == ([] if keeps is None else [keeps])
    assert not decide(pod, APP, NODE, chosen).refused


@pytest.mark.parametrize("value", ["some", "-5", "1Zi", "512m", "on", "9" * 300])
def test_a_wrong_annotation_is_refused_and_changes_nothing(value: str) -> None:
    """It is a mistake that the decision reports; the settings of the file hold."""
    pod = annotated(proactive_reclaim=value)
    chosen = config(ProactiveReclaimSettings(enabled=True))
    [one] = policies_of(pod, APP, None, chosen).on
    assert one.settings == ProactiveReclaimSettings(enabled=True)
    assert sum(refusals(decide(pod, APP, NODE, chosen)).values()) == 1


def test_it_has_no_value_for_a_decision() -> None:
    """A new container gets the same files with it and without it."""
    with_it = decide(POD, APP, NODE, config(ProactiveReclaimSettings(enabled=True)))
    assert with_it.files == decide(POD, APP, NODE, config()).files
    assert not with_it.writes


sizes = st.integers(0, 64 * GIB)
steps = st.lists(
    st.tuples(
        st.floats(0.0, 300.0),  # seconds, also none
        sizes,
        st.floats(-1.0, 3.0),  # seconds waited
        st.integers(-5, 5000),  # refaults
        st.integers(-1, 1),  # times held
        st.none() | sizes,  # cache
        st.none() | st.integers(-1, GIB),
        st.none()
        | st.builds(
            Triggered,
            st.sampled_from([0, EAGAIN, EBUSY, EINVAL]),
            st.floats(0.0, 10.0),
            st.just("1"),
        ),
    ),
    max_size=30,
)
all_settings = st.builds(
    ProactiveReclaimSettings,
    st.just(True),
    percent=st.integers(1, 100),
    step_bytes=st.integers(65536, GIB),
    keep_bytes=sizes,
    pressure_ppm=st.integers(1, 1_000_000),
    refaults_per_second=st.integers(0, 1000),
    cpu_percent=st.integers(1, 100),
    rest_seconds=st.integers(1, 100),
    swap=st.booleans(),
)


@given(steps, all_settings)
def test_whatever_the_samples_no_step_exceeds_its_bounds(
    taken: list[Any], settings: ProactiveReclaimSettings
) -> None:
    """Never below what is kept or protected, nor under pressure, nor without rest."""
    kept: Any = None
    now: ContainerSample | None = None
    waited, refaults, held, at_s, rest_until_s = 10.0, 0, 0, 0.0, 0.0
    for seconds, use, more, read, times, cache, protected, done in taken:
        waited, refaults, held = waited + more, refaults + read, held + times
        at_s += seconds
        previous, now = (
            now,
            sample(
                at_s,
                use,
                waited=waited,
                refaults=refaults,
                held=held,
                cache=cache,
                protected=protected,
                done=done,
            ),
        )
        if done is not None:
            asked_s = (previous or now).at_s
            budget_s = done.cpu_s * 100 / settings.cpu_percent
            rest_until_s = max(rest_until_s, asked_s + budget_s)
        answer = memory_to_reclaim(settings, kept, previous, now, SWAP)
        kept = answer.state
        for trigger in answer.triggers:
            assert isinstance(trigger, Trigger)
            amount, _, rest = trigger.value.partition(" ")
            assert 0 < int(amount) <= settings.step_bytes
            assert use - int(amount) >= max(settings.keep_bytes, protected)
            assert rest == ("" if settings.swap else "swappiness=0")
            assert settings.swap or int(amount) <= cache
            assert read <= settings.refaults_per_second * seconds
            assert more * 1e6 <= settings.pressure_ppm * seconds + 1
            assert (times, done is None or not done.errno) == (0, True)
            assert at_s >= rest_until_s
