"""Which source of the memory request wins, and how certain it is."""

from __future__ import annotations

import pytest
from engine.cases import APP, GIB, MIB, NODE, POD

from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.settings import EngineConfig, Settings

CONFIG = EngineConfig(base=Settings(MemoryQoSSettings(enabled=True, factor_ppm=None)))
STATED = {"memory-request.cgroup2.nri.io": "1Mi"}
# Every source but the class, each with another request.
EVERY = APP._replace(
    oom_score_adj=990,
    memory_request_bytes=2 * MIB,
    allocated_request_bytes=3 * MIB,
)


@pytest.mark.parametrize(
    ("annotations", "container", "low", "source"),
    [
        (STATED, EVERY, MIB, "annotation memory-request.cgroup2.nri.io"),
        ({}, EVERY, 2 * MIB, "the pod's resources"),
        (
            {},
            EVERY._replace(memory_request_bytes=None),
            3 * MIB,
            "kubelet's checkpoint",
        ),
        # kubelet stores the request of a resize before it sends the limit.
        (
            {},
            APP._replace(allocated_request_bytes=2 * GIB),
            GIB,
            "kubelet's checkpoint",
        ),
    ],
)
def test_the_first_source_that_has_it_wins(
    annotations: dict[str, str], container: object, low: int, source: str
) -> None:
    """Annotation, the door's message, kubelet's checkpoint."""
    pod = POD._replace(annotations=annotations)
    decision = decide(pod, container, NODE, CONFIG)  # type: ignore[arg-type]
    assert decision.files["memory.low"] == str(low)
    assert decision.why("memory.low").source == f"request from {source}"


def test_without_them_it_is_estimated() -> None:
    """A container in no checkpoint has the least request of its score."""
    app = EVERY._replace(memory_request_bytes=None, allocated_request_bytes=None)
    why = decide(POD, app, NODE, CONFIG).why("memory.low")
    assert (why.source, why.confidence) == (
        "request from oom_score_adj 990",
        "estimate",
    )


def test_a_checkpoint_protects_without_a_limit_too() -> None:
    """Unlike an estimate, which may be that of another container in the pod."""
    unlimited = APP._replace(
        resources=APP.resources._replace(memory_limit_bytes=None),
        allocated_request_bytes=64 * MIB,
    )
    assert decide(POD, unlimited, NODE, CONFIG).files["memory.low"] == str(64 * MIB)


def test_a_new_request_alone_changes_the_files_of_memory() -> None:
    """No number is asked for, so no file of another handler is sent."""
    app = APP._replace(ours={}, allocated_request_bytes=64 * MIB)
    asked = APP.resources._replace(
        shares=None, quota_us=None, period_us=None, memory_limit_bytes=None
    )
    assert decide_update(POD, app, asked, NODE, CONFIG).files == {}
    new = decide_update(POD, app, asked, NODE, CONFIG, new_request=True)
    assert new.files == {"memory.low": str(64 * MIB)}


def test_half_a_byte_is_no_memory_request() -> None:
    """`512m` is refused and counted, and the next source has the request."""
    pod = POD._replace(annotations={"memory-request.cgroup2.nri.io": "512m"})
    decision = decide(pod, EVERY, NODE, CONFIG)
    assert decision.files["memory.low"] == str(2 * MIB)
    [refused] = decision.refused
    assert "memory-request.cgroup2.nri.io: '512m', expected bytes" in refused.text
