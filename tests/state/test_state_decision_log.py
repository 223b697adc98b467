"""Every refusal is counted, and only some of them are logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from doors.nri.messages import OURS, container_at, creation, pod_at
from doors.nri.nodes import FACTS, configure, plugin_on

from nriplugin.engine.decision import Decision, Reason
from nriplugin.engine.settings import Settings
from nriplugin.loglimit import BURST, PER_SECOND
from nriplugin.state.decision_log import DecisionLog

if TYPE_CHECKING:
    import pytest


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def refused(count: int = 1) -> Decision:
    decision = Decision(Settings())
    for _ in range(count):
        decision.refuse("cpuBurst", Reason.ANNOTATION, "no such burst")
    return decision


def test_every_refusal_is_counted_by_handler_and_reason() -> None:
    """Both have few values, so the counts can become a metric."""
    log = DecisionLog()
    decision = refused(2)
    decision.refuse("resources", Reason.CONVERSION, "no such quota")
    for _ in range(3):
        log.note("shop/web/app", decision)
    assert log.refusals == {
        ("cpuBurst", "annotation"): 6,
        ("resources", "conversion"): 3,
    }


def test_each_line_names_the_container(caplog: pytest.LogCaptureFixture) -> None:
    """Refusals and warnings have one line each."""
    decision = refused()
    decision.warnings.append("memory.high 1: 2 bytes are in use")
    DecisionLog().note("shop/web/app", decision)
    assert caplog.messages == [
        "shop/web/app: refused: cpuBurst: no such burst",
        "shop/web/app: memory.high 1: 2 bytes are in use",
    ]


def test_nobody_waits_for_a_thread_that_logs() -> None:
    """Counting has a lock; it is free while a line is logged."""
    log = DecisionLog()
    locked = []

    def look(record: logging.LogRecord) -> bool:
        locked.append(log._lock.locked())
        return True

    decision = refused()
    decision.warnings.append("memory.high 1: 2 bytes are in use")
    logger = logging.getLogger("nriplugin.state.decision_log")
    logger.addFilter(look)
    try:
        log.note("shop/web/app", decision)
    finally:
        logger.removeFilter(look)
    assert locked == [False, False]


def test_a_flood_is_cut_off_and_counted_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Later a line says how many lines were left out."""
    clock = Clock()
    log = DecisionLog(clock)
    for _ in range(BURST + 30):
        log.note("x", refused())
    assert len(caplog.messages) == BURST
    assert log.refusals.total() == BURST + 30
    clock.now += 1 / PER_SECOND
    caplog.clear()
    for _ in range(5):
        log.note("y", refused())
    assert caplog.messages == [
        "30 lines like the next were left out",
        "y: refused: cpuBurst: no such burst",
    ]


def test_quiet_time_allows_only_one_burst_of_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A quiet week does not allow a flood."""
    clock = Clock()
    log = DecisionLog(clock)
    clock.now += 1e6
    for _ in range(10 * BURST):
        log.note("x", refused())
    assert len(caplog.messages) == BURST


def test_a_refusal_in_a_cached_decision_counts_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each container with that decision has the same mistake."""
    plugin = plugin_on(FACTS)
    configure(plugin, "cpuBurst: {enabled: true}")
    pod = pod_at(annotations={"volcano.sh/enable-quota-burst": "perhaps"})
    for _ in range(3):
        plugin.create_container(creation(pod, container_at()))
    assert plugin.lifecycle.log.refusals == {("cpuBurst", "annotation"): 3}
    assert len(plugin.plan.cache) == 1
    assert all(line.startswith("shop/web/app: refused") for line in caplog.messages)


def test_text_from_a_pod_is_shortened_and_on_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A pod's author can put text into the log, but not forge lines."""
    plugin = plugin_on(FACTS)
    configure(plugin, "cpuBurst: {enabled: true}")
    for value in ("x" * 100_000, "a\nERROR forged", "\x1b[31m"):
        pod = pod_at(annotations={f"cpu-burst{OURS}": value})
        plugin.create_container(creation(pod, container_at()))
    assert len(caplog.messages) == 3
    for line in caplog.messages:
        assert len(line) < 500
        assert line.isprintable()
