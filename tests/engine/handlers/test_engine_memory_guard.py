"""Memory guard: samples in, values of memory.high out."""

from __future__ import annotations

from typing import Any

import pytest
from engine.cases import APP, MIB, NODE, POD, annotated, config, refusals
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.engine.decide import decide
from nriplugin.engine.decision import Level
from nriplugin.engine.handlers.memory_guard import (
    MemoryGuardSettings,
    MemoryGuardState,
    high_to_hold,
)
from nriplugin.engine.policies import (
    ContainerSample,
    MemoryCounts,
    NodeSample,
    PolicyAction,
    PolicyAnswer,
    StallTime,
)
from nriplugin.engine.policy_settings import policies_of

OWN, LIMIT = 64 * MIB, 128 * MIB
INTERVAL_S = 10.0
COOLDOWN_S = 60
STEP = 10 * OWN // 100 // 65536 * 65536  # in whole pages of the largest size
ON = MemoryGuardSettings(True)


def sample(
    at_s: float,
    use: int = OWN,
    *,
    held: int = 0,
    stalled: float = 0.0,
    high: int | None = OWN,
    limit: int | None = LIMIT,
    original: str = str(OWN),
    **more: Any,
) -> ContainerSample:
    """Return what is measured; `stalled` seconds and `held` count since the start."""
    return ContainerSample(
        at_s,
        {"memory.high": original},
        memory_bytes=use,
        memory_high_bytes=high,
        memory_max_bytes=limit,
        memory_counts=MemoryCounts(held, 0, 0, 0),
        memory_stall=StallTime(int(stalled * 1e6), int(stalled * 1e6)),
        **more,
    )


def after(
    high: int,
    now: ContainerSample,
    *,
    since_s: float = 0.0,
    settings: MemoryGuardSettings = ON,
    before: ContainerSample | None = None,
) -> MemoryGuardState:
    """Return the state after one interval in which this was measured."""
    state = MemoryGuardState(str(OWN), high, since_s)
    previous = before or sample(now.at_s - INTERVAL_S, now.memory_bytes or 0)
    answer = high_to_hold(settings, state, previous, now, NodeSample())
    assert isinstance(answer.state, MemoryGuardState)
    return answer.state


HELD: dict[str, Any] = {"held": 3, "stalled": 9.0}


@pytest.mark.parametrize(
    ("measured", "steps"),
    [
        (HELD, 1),
        ({"held": 3, "stalled": 3.0}, 1),  # just 30 % of the time
        ({"held": 3, "stalled": 2.9}, 0),
        ({"held": 0, "stalled": 9.0}, 0),  # it waits for another reason
        ({**HELD, "use": OWN * 96 // 100}, 1),
        ({**HELD, "use": OWN * 94 // 100}, 0),  # it is not at its memory.high
        ({**HELD, "swap_bytes": 2 * MIB}, 0),  # swap takes what it needs
        ({**HELD, "swap_bytes": 100}, 1),
        ({**HELD, "high": 100 * MIB}, 0),  # another value is in the file
        ({**HELD, "high": None}, 0),
    ],
)
def test_a_step_up(measured: dict[str, Any], steps: int) -> None:
    """Only while it was held back, could not run, and is at its memory.high."""
    before = sample(0.0, measured.get("use", OWN), swap_bytes=0)
    state = after(OWN, sample(INTERVAL_S, **measured), before=before)
    assert state.high_bytes == OWN + steps * STEP


def test_a_spike_is_no_stall() -> None:
    """It has to be at its memory.high in both samples."""
    now = sample(INTERVAL_S, **HELD)
    assert after(OWN, now, before=sample(0.0, MIB)).high_bytes == OWN


@pytest.mark.parametrize(
    ("limit", "settings", "most"),
    [
        (LIMIT, ON, LIMIT),
        (LIMIT, ON._replace(limit_percent=80), LIMIT * 80 // 100),
        (OWN + 1000, ON, OWN + 1000),
        (-1, ON._replace(no_limit_percent=150), OWN * 150 // 100),
    ],
)
def test_the_most(limit: int, settings: MemoryGuardSettings, most: int) -> None:
    """It ends at its part of the limit, or where it is told without one."""
    state: Any = None
    seen = []
    previous, high = None, OWN
    for number in range(30):
        now = sample(
            number * INTERVAL_S,
            high,
            held=number,
            stalled=number * 9.0,
            high=high,
            limit=limit,
        )
        answer = high_to_hold(settings, state, previous, now, NodeSample())
        state, previous, high = answer.state, now, answer.state.high_bytes
        seen.append(high)
    assert seen[-1] == max(seen) == most


@pytest.mark.parametrize(
    ("limit", "original", "why"),
    [
        (-1, str(OWN), "no limit"),
        (OWN, str(OWN), "100 % of its limit"),
        (LIMIT, "max", ""),
        (LIMIT, "", ""),
    ],
)
def test_without_room_there_is_nothing_to_do(
    limit: int, original: str, why: str
) -> None:
    """And the answer says why, where there is a memory.high."""
    now = sample(0.0, limit=limit, original=original)
    answer = high_to_hold(ON, None, None, now, NodeSample())
    assert answer == PolicyAnswer(None, reason=answer.reason)
    assert why in answer.reason
    assert bool(answer.reason) == bool(why)


@pytest.mark.parametrize(
    ("lacks", "why"),
    [
        ({"memory_stall": None}, "pressure"),
        ({"memory_counts": None}, "events"),
        ({"memory_counts": MemoryCounts(None, 0, None, 0)}, "events"),
    ],
)
def test_what_the_node_does_not_measure_is_said(
    lacks: dict[str, Any], why: str
) -> None:
    """A kernel without pressure, cgroup v1."""
    answer = high_to_hold(ON, None, None, sample(0.0)._replace(**lacks), NodeSample())
    assert (answer.actions, answer.state) == ((), None)
    assert why in answer.unable


HIGHER = OWN + 3 * STEP


@pytest.mark.parametrize(
    ("since_s", "use", "high"),
    [
        (59.0, MIB, HIGHER),  # the cooldown
        (60.0, MIB, HIGHER - OWN // 10),
        (60.0, (HIGHER - OWN // 10) * 90 // 100, HIGHER - OWN // 10),
        (60.0, (HIGHER - OWN // 10) * 90 // 100 + 1, HIGHER),  # it would be held again
        (1000.0, HIGHER + MIB, HIGHER),
    ],
)
def test_a_step_down(since_s: float, use: int, high: int) -> None:
    """Only after the cooldown, and only if what it uses fits into less."""
    state = after(HIGHER, sample(since_s, use))
    assert state.high_bytes == high
    if use > HIGHER - OWN // 10:
        assert "it uses too much" in state.reason


def test_the_last_step_down_is_its_own_value() -> None:
    """And then nothing is held any more."""
    state = MemoryGuardState(str(OWN), OWN + 4096, 0.0)
    answer = high_to_hold(ON, state, sample(70.0, MIB), sample(80.0, MIB), NodeSample())
    assert answer.actions == ()
    assert answer.state.high_bytes == OWN


def test_the_action() -> None:
    """The container's memory.high, and the reason."""
    answer = high_to_hold(
        ON, None, sample(0.0), sample(INTERVAL_S, **HELD), NodeSample()
    )
    assert answer.actions == (
        PolicyAction("memory.high", str(OWN + STEP), Level.CONTAINER),
    )
    assert answer.reason == "held back 3 times, and stalled 90 % of 10 s"


def test_a_resize_begins_anew() -> None:
    """The old steps say nothing about the new memory.high."""
    state = MemoryGuardState(str(OWN), HIGHER, 0.0)
    now = sample(10.0, original=str(32 * MIB))
    answer = high_to_hold(ON, state, None, now, NodeSample())
    assert (answer.actions, answer.state.high_bytes) == ((), 32 * MIB)


@pytest.mark.parametrize(
    ("value", "percent"), [("80%", 80), ("100%", 100), ("off", None)]
)
def test_the_annotation(value: str, percent: int | None) -> None:
    """It sets the part of the limit, or switches the policy off."""
    pod = annotated(memory_guard=value)
    chosen = config(MemoryGuardSettings(enabled=True))
    on = policies_of(pod, APP, None, chosen).on
    assert [one.settings.limit_percent for one in on] == ([percent] if percent else [])
    assert not decide(pod, APP, NODE, chosen).refused


@pytest.mark.parametrize("value", ["80", "0%", "101%", "-5%", "on", "9" * 300])
def test_a_wrong_annotation_is_refused_and_changes_nothing(value: str) -> None:
    """It is a mistake that the decision reports; the settings of the file hold."""
    pod = annotated(memory_guard=value)
    chosen = config(MemoryGuardSettings(enabled=True))
    [one] = policies_of(pod, APP, None, chosen).on
    assert one.settings == MemoryGuardSettings(enabled=True)
    assert sum(refusals(decide(pod, APP, NODE, chosen)).values()) == 1


def test_it_has_no_value_for_a_decision() -> None:
    """A new container gets the same files with it; an old kernel is told of."""
    chosen = config(MemoryGuardSettings(enabled=True))
    assert (
        decide(POD, APP, NODE, chosen).files == decide(POD, APP, NODE, config()).files
    )
    old = decide(POD, APP, NODE._replace(kernel=(5, 4)), chosen)
    assert any("expected at least 5.9" in str(one) for one in old.left)


steps = st.lists(
    st.tuples(
        st.floats(0.0, 300.0),  # seconds, also none
        st.integers(0, 4 * LIMIT),  # what is used
        st.integers(-3, 100),  # times held; a counter may go back
        st.floats(-1.0, 300.0),  # seconds stalled
        st.sampled_from([None, -1, 0, OWN - 1, OWN, OWN + 1, LIMIT, 4 * LIMIT]),
        st.sampled_from([str(OWN), str(OWN), "4096", "max", "", str(2 * LIMIT), "0"]),
        st.booleans(),  # whether the file holds what the policy wants
    ),
    max_size=30,
)
all_settings = st.builds(
    MemoryGuardSettings,
    st.just(True),
    step_percent=st.integers(1, 100),
    limit_percent=st.integers(1, 100),
    no_limit_percent=st.none() | st.integers(101, 1000),
    stall_percent=st.integers(1, 100),
    cooldown_seconds=st.integers(0, 100),
)


@given(steps, all_settings)
def test_whatever_the_samples_memory_high_stays_within_its_bounds(
    taken: list[Any], settings: MemoryGuardSettings
) -> None:
    """Above its own, never above memory.max nor its part of it."""
    kept: Any = None
    previous, now = None, sample(0.0)
    held, stalled, wanted = 0, 0.0, OWN
    for seconds, use, times, stall_s, limit, original, holds in taken:
        held, stalled = max(0, held + times), max(0.0, stalled + stall_s)
        now = sample(
            now.at_s + seconds,
            use,
            held=held,
            stalled=stalled,
            high=wanted if holds else OWN,
            limit=limit,
            original=original,
        )
        answer = high_to_hold(settings, kept, previous, now, NodeSample())
        kept, previous = answer.state, now
        for action in answer.actions:
            assert (action.file, action.level) == ("memory.high", Level.CONTAINER)
            wanted = int(action.value)
            assert int(original) < wanted
            if limit is not None and limit >= 0:
                assert wanted <= limit * settings.limit_percent // 100
            else:
                assert limit == -1
                assert settings.no_limit_percent is not None
                assert wanted <= int(original) * settings.no_limit_percent // 100


@given(steps, all_settings, st.integers(0, OWN // 2))
def test_once_calm_it_goes_back_step_by_step(
    taken: list[Any], settings: MemoryGuardSettings, use: int
) -> None:
    """Whatever was before: without stalls every value ends at its own."""
    kept: Any = MemoryGuardState(str(OWN), OWN, 0.0)
    previous, now = None, sample(0.0)
    held = 0
    for seconds, used, times, *_ in taken:
        held += abs(times)
        high = kept.high_bytes if kept else OWN
        now = sample(
            now.at_s + seconds, max(used, high), held=held, stalled=now.at_s, high=high
        )
        kept = high_to_hold(settings, kept, previous, now, NodeSample()).state
        previous = now
    highs = []
    for _ in range(100):
        later = now.at_s + settings.cooldown_seconds + 1
        before, now = now, sample(later, use, held=held, stalled=later)
        now = now._replace(memory_stall=before.memory_stall)
        answer = high_to_hold(settings, kept, before, now, NodeSample())
        kept = answer.state
        highs.append(kept.high_bytes if kept else OWN)
    assert highs == sorted(highs, reverse=True)
    assert answer.actions == ()
