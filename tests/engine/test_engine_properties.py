"""For any input, every value of a decision is valid, or refused and counted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from engine.cases import NODE, refusals
from engine.strategies import LEVEL_FILES, configs, containers, nodes, pods, resources
from hypothesis import given, settings
from hypothesis import strategies as st

from nriplugin.convert.validate import check, quota_in
from nriplugin.engine.allowed_files import ALLOWABLE, check_raw
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import HandlerFailed, Level, Reason, When
from nriplugin.engine.explicit import UNSET
from nriplugin.engine.model import CORE_FILES, Container, NodeFacts, Pod, Use
from nriplugin.engine.settings import DEFAULT_CONFIG, EngineConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision, Write


def assert_sound(
    decision: Decision,
    explicit: Mapping[str, str],
    given_quota: object,
    facts: NodeFacts,
) -> None:
    files = decision.files
    assert set(files) <= facts.files
    # An empty value is nobody's wish: to write it changes nothing. Nor is what kubelet
    # sends for "not set".
    wishes = {
        file
        for file, value in explicit.items()
        if value.strip() and UNSET.get(file) != value
    }
    assert not set(files) & wishes
    for file, value in files.items():
        check(file, value)
        assert value.strip() == value
        assert value.isascii()
        assert value.isprintable()
        assert value
        why = decision.why(file)
        assert why.handler
        assert why.rule.text
    for write in decision.writes:
        assert_writable(write, facts)
    for file in {write.file for write in decision.writes}:
        assert_in_order([write for write in decision.writes if write.file == file])
    if files.get("cpu.idle") == "1":
        assert "cpu.weight" not in files
        assert "cpu.weight" not in wishes
    if facts.kernel is None or facts.kernel < (5, 9):
        assert files.get("memory.high", "max") == "max"
    if "cpu.max.burst" in files:
        burst = int(files["cpu.max.burst"])
        quotas = [given_quota, quota_in(files.get("cpu.max", ""))]
        for quota in quotas:
            # None at all is valid beside anything, and numbers here may be below 0.
            assert burst == 0 or not isinstance(quota, int) or burst <= quota
    for refusal in decision.refused:
        assert refusal.reason is not Reason.ERROR, refusal.text
        assert len(refusal.text) < 1000
    assert sum(refusals(decision).values()) == len(decision.refused)


def assert_in_order(writes: list[Write]) -> None:
    """Before the runtime acts, what is above a container comes first."""
    levels = [write.level for write in writes if write.when is When.BEFORE]
    assert levels == sorted(levels, key=lambda level: level is Level.CONTAINER)


def assert_writable(write: Write, facts: NodeFacts) -> None:
    assert facts.writable
    assert write.file in facts.files
    assert write.value
    if write.file in ALLOWABLE:
        check_raw(write.file, write.value)
    else:
        assert re.fullmatch(r"-1|[0-2]", write.value)
        assert write.file in LEVEL_FILES
    if write.part:  # of a sum
        assert write.value.isdecimal()
        assert write.level is not Level.CONTAINER
    assert write.part or write.level is not Level.ANCESTORS
    assert write.why.handler
    assert write.why.rule.text


def explicit_of(container: Container) -> dict[str, str]:
    ours = container.ours or ()
    unified = container.resources.unified
    return {file: value for file, value in unified.items() if file not in ours}


@settings(max_examples=150, deadline=None)
@given(pods, containers, nodes, configs)
def test_whatever_is_created(
    pod: Pod, container: Container, facts: NodeFacts, config: EngineConfig
) -> None:
    """Every file passes its validator, or there is a counted refusal."""
    decision = decide(pod, container, facts, config)
    quota = container.resources.quota_us
    assert_sound(decision, explicit_of(container), quota, facts)


@settings(max_examples=150, deadline=None)
@given(pods, containers, resources, nodes, configs, st.integers(0, 1 << 40))
def test_whatever_is_updated(
    pod: Pod,
    container: Container,
    asked: Resources,
    facts: NodeFacts,
    config: EngineConfig,
    used: int,
) -> None:
    """The same holds for updates; one fails only if our own old value is in its way."""
    try:
        decision = decide_update(pod, container, asked, facts, config, Use(used))
    except HandlerFailed:
        touched = {
            "cpu.weight": asked.shares,
            "cpu.max": asked.quota_us,
            "memory.max": asked.memory_limit_bytes,
        }
        assert any(touched[file] for file in CORE_FILES & (container.ours or {}).keys())
        return
    quota = asked.quota_us
    if quota is None:
        quota = container.resources.quota_us
    assert_sound(decision, asked.unified, quota, facts)


@settings(max_examples=50, deadline=None)
@given(pods, containers, nodes, configs)
def test_the_same_inputs_give_the_same_decision(
    pod: Pod, container: Container, facts: NodeFacts, config: EngineConfig
) -> None:
    """Nothing is remembered from one container to the next."""
    first = decide(pod, container, facts, config)
    decide(pod, container, NODE, DEFAULT_CONFIG)
    second = decide(pod, container, facts, config)
    for name in ("files", "writes", "left", "refused", "cleared", "warnings"):
        assert getattr(first, name) == getattr(second, name)


@settings(max_examples=50, deadline=None)
@given(pods, containers, nodes)
def test_without_a_configuration_only_the_core_leaves(
    pod: Pod, container: Container, facts: NodeFacts
) -> None:
    """No annotation of a pod changes that."""
    decision = decide(pod, container, facts, DEFAULT_CONFIG)
    assert set(decision.files) <= CORE_FILES
    assert decision.writes == []
    assert decision.cleared == ()
