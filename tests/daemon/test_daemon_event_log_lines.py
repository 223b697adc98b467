"""The decision log: what a line says, and that no request waits for it."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from doors.nri.messages import OURS, container_at, creation, pod_at
from doors.nri.nodes import FACTS, configure, plugin_on
from support.harness import PATIENCE_S, PATIENT, container, pod, wait_until
from support.processes import Place

from nriplugin.daemon.event_log_lines import (
    LINES_AT_ONCE,
    EventLogLines,
    logging_decisions,
)
from nriplugin.nri.testing.runtime import EmbeddedRuntime
from nriplugin.state.events import KEPT, EventKind, EventLog
from nriplugin.state.inventory import ContainerEntry, PodEntry

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LOGGER = "nriplugin.daemon.event_log_lines"
CONFIG = "cpuBurst: {enabled: true, percent: 50}\nmemoryQoS: {enabled: true}"


def lines_about(
    config: str, annotations: dict[str, str], caplog: pytest.LogCaptureFixture
) -> list[logging.LogRecord]:
    """Return what is logged about the creation of one container."""
    plugin = plugin_on(FACTS)
    lines = EventLogLines(plugin.lifecycle.events)
    configure(plugin, config)
    app = container_at()
    app.env.append("PASSWORD=hunter2")
    plugin.create_container(creation(pod_at(annotations=annotations), app))
    with caplog.at_level(logging.DEBUG, LOGGER):
        caplog.clear()
        lines.look()
        lines.look()
    return caplog.records


def test_a_line_has_files_values_handlers_and_what_was_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One line per container, and nothing of the message that it came with."""
    bad = {f"cpu-burst{OURS}": "plenty"}
    (record,) = lines_about(CONFIG, bad, caplog)
    text = record.getMessage()
    assert text.startswith("created shop/web/app: ")
    assert "cpu.weight=59 (resources)" in text
    assert "cpu.max.burst=50000 (cpuBurst)" in text
    assert "skipped: " in text
    assert "plenty" in text
    assert "hunter2" not in text
    fields = record.__dict__["fields"]
    assert fields["container_id"] == "c1"
    assert (fields["namespace"], fields["pod"]) == ("shop", "web")
    assert fields["files"]["cpu.weight"] == "59"
    assert fields["handlers"]["cpu.weight"] == "resources"
    assert any("plenty" in one for one in fields["skipped"])


def test_a_container_without_values_has_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says that there are none, and why."""
    (record,) = lines_about(
        "resources: {enabled: false}\nmemoryQoSLevel: {enabled: true}", {}, caplog
    )
    assert record.getMessage().startswith("created shop/web/app: no values")


def test_in_shadow_mode_a_line_has_what_was_decided(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And says that it was not set."""
    (record,) = lines_about(f"shadow: true\n{CONFIG}", {}, caplog)
    text = record.getMessage()
    assert text.startswith("created shop/web/app: shadow mode, not set: cpu.max.burst=")
    assert "cpu.max.burst=50000 (cpuBurst), cpu.weight=59 (resources)" in text
    fields = record.__dict__["fields"]
    assert fields["files"] == {}
    assert fields["shadow"]["cpu.weight"] == "59"


def test_the_source_of_a_memory_request_is_in_the_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A value that follows from a request is only as good as its source."""
    annotations = {"memory-request.cgroup2.nri.io": "64Mi"}
    (record,) = lines_about("memoryQoS: {enabled: true}", annotations, caplog)
    source = "request from annotation memory-request.cgroup2.nri.io"
    assert f"memory.low=67108864 (memoryQoS: {source})" in record.getMessage()


def test_a_flood_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Events that the ring has lost and lines above the limit are both numbered."""
    events = EventLog()
    lines = EventLogLines(events, lambda: 100.0)
    entry = ContainerEntry("c1", "app", PodEntry(name="web", namespace="shop"))
    for _ in range(KEPT + 3):
        events.note(EventKind.CREATED, entry)
    with caplog.at_level(logging.DEBUG, LOGGER):
        lines.look()
    assert caplog.messages[0] == "decision log: 3 events came too fast and were lost"
    assert len(caplog.messages) == LINES_AT_ONCE + 1
    assert lines._limited._left_out == KEPT - LINES_AT_ONCE


def test_events_about_no_container_have_lines_of_their_own_elsewhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The connection and the configuration are logged where they change."""
    events = EventLog()
    lines = EventLogLines(events)
    events.note(EventKind.CONNECTED)
    with caplog.at_level(logging.DEBUG, LOGGER):
        lines.look()
    assert caplog.messages == []


def test_the_thread_logs_the_last_events_too(caplog: pytest.LogCaptureFixture) -> None:
    """Without `-v` there is no thread and no line."""
    entry = ContainerEntry("c1", "app", PodEntry(name="web", namespace="shop"))
    for on in (False, True):
        events = EventLog()
        with caplog.at_level(logging.DEBUG, LOGGER), logging_decisions(events, on=on):
            events.note(EventKind.UPDATED, entry)
        assert caplog.messages == (["updated shop/web/app: no values"] if on else [])


def test_a_process_logs_decisions_as_json(tmp_path: Path) -> None:
    """Every line is an object, and those of decisions have fields."""
    place = Place(tmp_path)
    with (
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        place.daemon("-v", "--log-format", "json") as daemon,
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        runtime.create_container(pod(), container(shares=512))
        wait_until(lambda: '"container_id": "c1"' in daemon.log)
        assert daemon.end() == 0
    lines = [json.loads(line) for line in daemon.log.splitlines()]
    (one,) = [line for line in lines if line.get("container_id") == "c1"]
    assert one["level"] == "debug"
    assert one["files"] == {"cpu.weight": "59"}
    assert one["handlers"] == {"cpu.weight": "resources"}
    starts = [line["msg"] for line in lines]
    assert any(one.startswith("handlers on: resources; off: ") for one in starts)


def test_without_v_no_decision_is_logged(tmp_path: Path) -> None:
    """The lines about the process and its connection are all there is."""
    place = Place(tmp_path)
    with EmbeddedRuntime(place.socket, PATIENT) as runtime, place.daemon() as daemon:
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        runtime.create_container(pod(), container(shares=512))
        assert daemon.end() == 0
    assert "created default" not in daemon.log
    assert "handlers on: resources; off: " in daemon.log
