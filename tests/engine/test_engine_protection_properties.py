"""No more protected memory than a container may use, whichever handlers set it."""

from __future__ import annotations

import re
from math import inf
from typing import TYPE_CHECKING

import pytest
from engine.cases import APP, MIB, NODE, annotated, config
from engine.strategies import (
    memory_configs,
    memory_containers,
    memory_nodes,
    memory_pods,
    memory_resources,
)
from hypothesis import assume, given, settings

from nriplugin.convert import Resources
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import HandlerFailed, Level
from nriplugin.engine.explicit import UNSET
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.handlers.unified_annotations import UnifiedAnnotationsSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container, NodeFacts, Pod
    from nriplugin.engine.settings import EngineConfig
PROTECTION = ("memory.low", "memory.min")


def amount_of(text: str | None) -> float | None:
    """Return a number of bytes, infinity for max; None for what is neither."""
    found = re.fullmatch(r"\s*([0-9]{1,20})([kKmMgGtTpPeE]?)\s*", text or "")
    if found is None:
        return inf if text is not None and text.strip() == "max" else None
    unit = "KMGTPE".find(found[2].upper()) + 1 if found[2] else 0
    return int(found[1]) << 10 * unit


def assert_protection_fits(
    decision: Decision, held: Mapping[str, str], foreign: Collection[str]
) -> None:
    """No protection above what the container may use, unless neither is ours."""
    for low in PROTECTION:
        protected = amount_of(held.get(low))
        for top in ("memory.high", "memory.max"):
            ceiling = amount_of(held.get(top))
            if protected is None or ceiling is None:
                continue
            # A limit follows kubelet's number, so it stays whatever others protect.
            if low in foreign and (top in foreign or top == "memory.max"):
                continue
            assert protected <= ceiling, (low, top, decision.left)


def with_limit(files: Mapping[str, str], limit: object) -> dict[str, str]:
    """Return files, with the limit that the runtime writes where no file says so."""
    if isinstance(limit, int) and limit > 0:
        return {"memory.max": str(limit), **files}
    return dict(files)


def wishes_of(unified: Mapping[str, str]) -> dict[str, str]:
    return {file: value for file, value in unified.items() if UNSET.get(file) != value}


@settings(max_examples=100, deadline=None)
@given(memory_pods, memory_containers, memory_nodes, memory_configs)
def test_no_created_container_has_more_protected_than_it_may_use(
    pod: Pod, container: Container, facts: NodeFacts, config: EngineConfig
) -> None:
    """This holds for any mixture of handlers, annotations and kubelet's values."""
    container = container._replace(ours=None)
    decision = decide(pod, container, facts, config)
    foreign = wishes_of(container.resources.unified)
    held = {**foreign, **decision.expected()}
    held = with_limit(held, container.resources.memory_limit_bytes)
    assert_protection_fits(decision, held, foreign)
    for write in decision.writes:
        if write.level is Level.ANCESTORS:
            assert write.value == decision.files[write.file]


@settings(max_examples=100, deadline=None)
@given(
    memory_pods,
    memory_containers,
    memory_resources,
    memory_nodes,
    memory_configs,
    memory_configs,
)
def test_no_updated_container_has_more_protected_than_it_may_use(
    pod: Pod,
    container: Container,
    asked: Resources,
    facts: NodeFacts,
    before: EngineConfig,
    after: EngineConfig,
) -> None:
    """Also where one value is of another configuration, and the other one comes now."""
    # Such a runtime drops what we answer, and without the executor that is the end.
    assume(facts.writable or not facts.drops_unified)
    container = container._replace(ours=None)
    ours = decide(pod, container, facts, before).expected()
    old = container.resources
    unified = {**old.unified, **ours}
    container = container._replace(resources=old._replace(unified=unified), ours=ours)
    try:
        decision = decide_update(pod, container, asked, facts, after)
    except HandlerFailed:  # nothing changes
        return
    foreign = {
        f: v
        for f, v in wishes_of({**old.unified, **asked.unified}).items()
        if f in asked.unified or f not in ours
    }
    held = {**ours, **foreign, **decision.expected()}
    limit = asked.memory_limit_bytes or old.memory_limit_bytes
    assert_protection_fits(decision, with_limit(held, limit), foreign)


QOS_AND_LEVEL = config(
    MemoryQoSSettings(enabled=True, raise_ancestors=True),
    MemoryQoSLevelSettings(enabled=True),
)
RAW = config(
    MemoryQoSSettings(enabled=True),
    UnifiedAnnotationsSettings(
        enabled=True, allowed=frozenset({"memory.high", "memory.low"})
    ),
)


def container_with(
    limit_mib: int, unified: Mapping[str, str] | None = None
) -> Container:
    given = Resources(memory_limit_bytes=limit_mib * MIB, unified=unified or {})
    return APP._replace(resources=given, memory_request_bytes=256 * MIB)


def test_a_level_of_be_lowers_the_protection_of_memory_qos() -> None:
    """memory.high of BE is 0.8 of the limit, and the request may be all of it."""
    decision = decide(
        annotated(qos_level="BE"), container_with(256), NODE, QOS_AND_LEVEL
    )
    high = 256 * MIB * 8 // 10 // 4096 * 4096
    assert decision.files["memory.high"] == str(high)
    assert decision.files["memory.low"] == str(high)
    assert "memory.high" in decision.why("memory.low").source
    [write] = decision.writes
    assert (write.file, write.value) == ("memory.low", str(high))


def test_kubelets_own_protection_stays_and_our_memory_high_goes() -> None:
    """A value that the container carries explicitly is never touched."""
    container = container_with(256, {"memory.low": str(250 * MIB)})
    decision = decide(annotated(qos_level="BE"), container, NODE, QOS_AND_LEVEL)
    assert not {"memory.high", "memory.low"} & set(decision.files)
    assert any(one.what == "memory.high" for one in decision.left)
    asked = Resources(memory_limit_bytes=256 * MIB)
    container = container._replace(ours={"memory.high": str(100 * MIB)})
    decision = decide_update(
        annotated(qos_level="BE"), container, asked, NODE, QOS_AND_LEVEL
    )
    assert decision.files["memory.high"] == "max"
    assert "memory.low" not in decision.files


@pytest.mark.parametrize(
    ("asked", "low"),
    [
        (Resources(memory_limit_bytes=128 * MIB), 128 * MIB),
        (Resources(memory_limit_bytes=512 * MIB), None),
        (Resources(unified={"memory.high": "64M"}), 64 * MIB),
        (Resources(unified={"memory.max": "64M"}), 64 * MIB),
        (Resources(shares=1024), None),
    ],
)
def test_an_update_lowers_what_an_annotation_set_earlier(
    asked: Resources, low: int | None
) -> None:
    """An update changes an annotation's value only if the container may use less."""
    was = {"memory.low": str(200 * MIB)}
    container = container_with(256, was)._replace(ours=was)
    pod = annotated(**was)
    decision = decide_update(pod, container, asked, NODE, RAW)
    assert decision.files.get("memory.low") == (None if low is None else str(low))


def test_an_annotation_gets_its_own_back_when_there_is_room_again() -> None:
    """A protection that an earlier limit lowered is raised again."""
    was = {"memory.low": str(128 * MIB)}
    container = container_with(128, was)._replace(ours=was)
    pod = annotated(**{"memory.low": str(200 * MIB)})
    asked = Resources(memory_limit_bytes=256 * MIB)
    decision = decide_update(pod, container, asked, NODE, RAW)
    assert decision.files["memory.low"] == str(200 * MIB)
