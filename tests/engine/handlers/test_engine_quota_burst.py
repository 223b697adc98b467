"""Quota burst: samples in, quotas out."""

from __future__ import annotations

from typing import Any

import pytest
from engine.cases import APP, NODE, POD, annotated, config, refusals
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.convert.validate import MAX_QUOTA_US
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import Level
from nriplugin.engine.handlers.quota_burst import (
    QuotaBurstSettings,
    QuotaBurstState,
    quota_to_hold,
)
from nriplugin.engine.policies import (
    ContainerSample,
    NodeSample,
    PolicyAction,
    PolicyAnswer,
    Quota,
)
from nriplugin.engine.policy_settings import policies_of

OWN_US, PERIOD_US = 100_000, 100_000
OWN = f"{OWN_US} {PERIOD_US}"
INTERVAL_S = 10.0
CALM = NodeSample(0.1)
FOR_EVER = QuotaBurstSettings(True, percent=300, period_seconds=None)


def sample(
    at_s: float, cpus: float = 0.0, throttled: int = 0, original: str = OWN
) -> ContainerSample:
    """Return what is measured after a time at this use since the start."""
    return ContainerSample(
        at_s,
        {"cpu.max": original},
        cpu_usage_ns=int(cpus * at_s * 1e9),
        periods=int(at_s * 10),
        throttled=throttled,
        quota=Quota(OWN_US, PERIOD_US),
    )


def state(quota_us: int, tokens_s: float = 0.0, *, resting: bool = False) -> Any:
    return QuotaBurstState(OWN, quota_us, tokens_s, resting)


def next_quota(
    quota_us: int,
    *,
    cpus: float = 1.0,
    throttled: int = 0,
    node: float | None = 0.1,
    settings: QuotaBurstSettings = FOR_EVER,
    **more: Any,
) -> int:
    """Return the quota after one interval."""
    answer = quota_to_hold(
        settings,
        state(quota_us, **more),
        sample(0.0),
        sample(INTERVAL_S, cpus, throttled),
        NodeSample(node),
    )
    assert isinstance(answer.state, QuotaBurstState)
    return answer.state.quota_us


@pytest.mark.parametrize(
    ("quota_us", "given", "expected"),
    [
        # Up by a fifth while throttled, to the ceiling.
        (100_000, {"throttled": 1}, 120_000),
        (120_000, {"throttled": 50}, 144_000),
        (290_000, {"throttled": 50}, 300_000),
        (300_000, {"throttled": 50}, 300_000),
        # Down by a fifth once there is room below, never below its own.
        (150_000, {"cpus": 0.5}, 120_000),
        (120_000, {"cpus": 0.5}, 100_000),
        (100_000, {"cpus": 0.0}, 100_000),
        # It would be throttled again: 1.2 CPUs do not fit into 80 % of 150000.
        (150_000, {"cpus": 1.2}, 150_000),
        # The brake of the node, and from 90 % of it on no more growth.
        (200_000, {"throttled": 9, "node": 0.80}, 100_000),
        (200_000, {"throttled": 9, "node": 0.73}, 200_000),
        (200_000, {"throttled": 9, "node": 0.71}, 240_000),
        (200_000, {"throttled": 9, "node": None}, 240_000),
    ],
)
def test_steps(quota_us: int, given: dict[str, Any], expected: int) -> None:
    """Up while throttled, down when it fits, and back when the node is busy."""
    assert next_quota(quota_us, **given) == expected


@pytest.mark.parametrize(
    ("tokens_s", "resting", "cpus", "quota_us", "rests"),
    [
        (60.0, False, 3.0, 120_000, False),  # 10 s at full burst cost 10 s
        (10.0, False, 3.0, 100_000, True),  # the bucket is empty
        (10.0, False, 2.0, 120_000, False),  # half of the burst costs 5 s
        (20.0, True, 1.0, 100_000, True),  # rests until the bucket is half full
        (30.0, True, 1.0, 120_000, False),
    ],
)
def test_the_bucket(
    tokens_s: float, *, resting: bool, cpus: float, quota_us: int, rests: bool
) -> None:
    """Use above the own quota empties it, and it has to be half full again."""
    settings = QuotaBurstSettings(True, percent=300, period_seconds=60)
    answer = quota_to_hold(
        settings,
        state(OWN_US, tokens_s, resting=resting),
        sample(0.0),
        sample(INTERVAL_S, cpus, throttled=5),
        CALM,
    )
    assert (answer.state.quota_us, answer.state.resting) == (quota_us, rests)


@pytest.mark.parametrize("cpus", [4.0, 1e9])
def test_a_sample_empties_the_bucket_by_no_more_than_its_time(cpus: float) -> None:
    """However much was counted, as by a counter that jumped or under another quota."""
    settings = QuotaBurstSettings(True, percent=300, period_seconds=60)
    answer = quota_to_hold(
        settings, state(OWN_US, 25.0), sample(0.0), sample(INTERVAL_S, cpus), CALM
    )
    assert answer.state.tokens_s == 15.0


def test_the_actions_of_pod_and_container() -> None:
    """The pod grows by the difference; both have the container's period."""
    answer = quota_to_hold(FOR_EVER, state(100_000), sample(0), sample(10, 1, 3), CALM)
    assert answer.actions == (
        PolicyAction("cpu.max", "20000 100000", Level.POD),
        PolicyAction("cpu.max", "120000 100000", Level.CONTAINER),
    )
    assert answer.reason == "throttled in 3 of 100 periods"


@pytest.mark.parametrize("text", ["", "max 100000", "max"])
def test_without_a_quota_there_is_nothing_to_burst_above(text: str) -> None:
    """No state and no action."""
    answer = quota_to_hold(FOR_EVER, None, None, sample(0, original=text), CALM)
    assert answer == PolicyAnswer(None)


def test_a_resize_begins_anew() -> None:
    """The old burst says nothing about the new quota."""
    answer = quota_to_hold(
        FOR_EVER, state(250_000), None, sample(0, original="50000 100000"), CALM
    )
    assert answer.actions == ()
    assert answer.state.quota_us == 50_000


@pytest.mark.parametrize(
    ("value", "percent"), [("150%", 150), ("1000%", 1000), ("off", None)]
)
def test_the_annotation(value: str, percent: int | None) -> None:
    """It sets the ceiling of its container, or switches the policy off."""
    pod = annotated(quota_burst=value)
    chosen = config(QuotaBurstSettings(enabled=True))
    on = policies_of(pod, APP, None, chosen).on
    assert [one.settings.percent for one in on] == ([percent] if percent else [])
    assert not decide(pod, APP, NODE, chosen).refused


@pytest.mark.parametrize("value", ["150", "100%", "1001%", "-5%", "on", "9" * 300])
def test_a_wrong_annotation_is_refused_and_changes_nothing(value: str) -> None:
    """It is a mistake that the decision reports; the settings of the file hold."""
    pod = annotated(quota_burst=value)
    chosen = config(QuotaBurstSettings(enabled=True))
    [one] = policies_of(pod, APP, None, chosen).on
    assert one.settings == QuotaBurstSettings(enabled=True)
    assert sum(refusals(decide(pod, APP, NODE, chosen)).values()) == 1


def test_it_has_no_value_for_a_decision() -> None:
    """A new container gets the same files with it and without it."""
    with_it = decide(POD, APP, NODE, config(QuotaBurstSettings(enabled=True)))
    assert with_it.files == decide(POD, APP, NODE, config()).files
    assert not with_it.writes


steps = st.lists(
    st.tuples(
        st.floats(0.0, 300.0),  # seconds, also none
        st.floats(0.0, 64.0),  # CPUs
        st.integers(-5, 1000),  # throttled periods; a counter may go back
        st.none() | st.floats(0.0, 1.0),
        st.sampled_from([OWN, OWN, OWN, "1000 1000000", f"{MAX_QUOTA_US} 100000", ""]),
        st.booleans(),  # whether the sample was measured
    ),
    max_size=30,
)


@given(
    steps,
    st.integers(101, 1000),
    st.none() | st.integers(1, 1000),
    st.none() | st.integers(1, 100),
)
def test_whatever_the_samples_a_quota_stays_within_its_bounds(
    taken: list[Any], percent: int, period_s: int | None, node_percent: int | None
) -> None:
    """At least its own, at most `percent` of it, and what the kernel accepts."""
    settings = QuotaBurstSettings(True, False, percent, period_s, node_percent)
    kept: Any = None
    previous, now = None, sample(0.0)
    for seconds, cpus, throttled, node, original, measured in taken:
        before = now if measured else previous
        now = ContainerSample(
            now.at_s + seconds,
            {"cpu.max": original},
            cpu_usage_ns=(now.cpu_usage_ns or 0) + int(cpus * seconds * 1e9),
            periods=(now.periods or 0) + int(seconds * 10),
            throttled=max(0, (now.throttled or 0) + throttled) if measured else None,
        )
        answer = quota_to_hold(settings, kept, before, now, NodeSample(node))
        kept, actions = answer.state, answer.actions
        previous = before
        for action in actions:
            own_us, _, period = original.partition(" ")
            quota_us, _, of = action.value.partition(" ")
            assert of == period
            most_us = min(int(own_us) * percent // 100, MAX_QUOTA_US)
            if action.level is Level.CONTAINER:
                assert int(own_us) < int(quota_us) <= most_us
            else:
                assert 0 < int(quota_us) <= most_us - int(own_us)
        assert bool(actions) == (len(actions) == 2)


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=200))
def test_over_time_a_container_gets_its_quota_and_one_bucket_more(
    uses: list[float],
) -> None:
    """Whatever it does, for a container that uses what it is allowed to."""
    settings = QuotaBurstSettings(True, percent=300, period_seconds=60)
    kept, quota_us, used_s = None, OWN_US, 0.0
    previous = sample(0.0)
    for number, cpus in enumerate(uses, start=1):
        used_s += min(cpus, quota_us / PERIOD_US) * INTERVAL_S
        now = ContainerSample(
            number * INTERVAL_S,
            {"cpu.max": OWN},
            cpu_usage_ns=int(used_s * 1e9),
            periods=number * 100,
            throttled=number if cpus >= quota_us / PERIOD_US else previous.throttled,
        )
        kept = quota_to_hold(settings, kept, previous, now, CALM).state
        quota_us, previous = kept.quota_us, now
    own_s = len(uses) * INTERVAL_S * OWN_US / PERIOD_US
    # One bucket of 60 s and one interval, each with two CPUs above the own one.
    assert used_s <= own_s + (60 + INTERVAL_S) * 2 + 1
