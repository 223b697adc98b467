"""Start-up boost: the time since the start in, quotas out."""

from __future__ import annotations

import pytest
from engine.cases import APP, NODE, annotated, config, refusals
from hypothesis import given
from hypothesis import strategies as st

from nriplugin.convert.validate import MAX_QUOTA_US
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import Level
from nriplugin.engine.handlers.startup_boost import (
    StartupBoostSettings,
    quota_to_hold,
    settings_of,
)
from nriplugin.engine.policies import ContainerSample, NodeSample, PolicyAction
from nriplugin.kube.annotations import read_annotations

ON = StartupBoostSettings(enabled=True)
TWICE = StartupBoostSettings(True, percent=200, seconds=60)
NODE_OF_8 = NodeSample(cpus=8)
KEY = "startup-boost.cgroup2.nri.io"


def actions(
    settings: StartupBoostSettings,
    age_s: float | None,
    own: str = "50000 100000",
    node: NodeSample = NODE_OF_8,
) -> tuple[PolicyAction, ...]:
    """Return what is to be held at an age."""
    original = {"cpu.max": own} if own else {}
    sample = ContainerSample(100.0, original, age_s=age_s)
    return quota_to_hold(settings, None, None, sample, node).actions


def both(pod: str, container: str) -> tuple[PolicyAction, ...]:
    return (
        PolicyAction("cpu.max", pod, Level.POD),
        PolicyAction("cpu.max", container, Level.CONTAINER),
    )


@pytest.mark.parametrize("age_s", [0.0, 59.9])
def test_until_the_deadline(age_s: float) -> None:
    """The pod grows by what the container gets more."""
    assert actions(TWICE, age_s) == both("50000 100000", "100000 100000")


@pytest.mark.parametrize(
    ("age_s", "own"),
    [
        (60.0, "50000 100000"),
        (None, "50000 100000"),  # the start was not seen, or it was resized since
        (1.0, "max 100000"),
        (1.0, ""),
    ],
)
def test_there_is_none(age_s: float | None, own: str) -> None:
    """After the deadline, without a known start, and without a quota."""
    assert actions(TWICE, age_s, own) == ()


def test_all_cpus() -> None:
    """`max` gives as much as the node has, and never less than the container's own."""
    most = TWICE._replace(percent="max")
    assert actions(most, 1.0) == both("750000 100000", "800000 100000")
    assert actions(most, 1.0, "900000 100000") == ()
    assert actions(most, 1.0, node=NodeSample()) == ()


@given(
    own=st.integers(1000, MAX_QUOTA_US),
    percent=st.one_of(st.just("max"), st.integers(101, 10_000)),
    age_s=st.one_of(st.none(), st.floats(0, 1e6)),
    cpus=st.one_of(st.none(), st.integers(1, 4096)),
)
def test_never_outside_its_bounds(
    own: int, percent: int | str, age_s: float | None, cpus: int | None
) -> None:
    """Whatever is measured: above the own quota, within the kernel's range, in time."""
    settings = StartupBoostSettings(True, percent=percent)
    held = actions(settings, age_s, f"{own} 100000", NodeSample(cpus=cpus))
    if held:
        pod, container = (int(one.value.split()[0]) for one in held)
        assert own < container <= MAX_QUOTA_US
        assert container == own + pod
        assert age_s is not None
        assert age_s < settings.seconds


@pytest.mark.parametrize(
    ("text", "percent", "seconds"),
    [("150%", 150, 60), ("30s", 200, 30), ("max 5s", "max", 5), ("9s 400%", 400, 9)],
)
def test_the_annotation(text: str, percent: int | str, seconds: int) -> None:
    """It has a percentage, a time, or both."""
    annotations = read_annotations({KEY: text}, "app")
    found = settings_of(TWICE, annotations, pytest.fail)
    assert found == TWICE._replace(percent=percent, seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "100%", "10001%", "0s", "3601s", "60", "2x", "5s 6s", "max 200%"]
)
def test_a_mistake_in_the_annotation(text: str) -> None:
    """It is refused in one line, and the configured settings stay."""
    said: list[str] = []
    annotations = read_annotations({KEY: text}, "app")
    assert settings_of(TWICE, annotations, said.append) == TWICE
    assert said == [
        f"{KEY}: {text!r}, expected 101% to 10000% or max, 1s to 3600s, both, or off"
    ]
    pod = annotated(startup_boost=text)
    assert sum(refusals(decide(pod, APP, NODE, config(ON))).values()) == 1


def test_switched_off_by_annotation() -> None:
    """The decision says so."""
    pod = annotated(startup_boost="off")
    decision = decide(pod, APP, NODE, config(ON))
    assert f"startupBoost: switched off by annotation {KEY}" in str(decision.left)
    assert (
        settings_of(TWICE, read_annotations({KEY: "off"}, "app"), pytest.fail) is None
    )
