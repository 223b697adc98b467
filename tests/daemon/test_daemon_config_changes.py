"""What a reload changes, in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.harness import PATIENCE_S, PATIENT
from support.processes import Place

from nriplugin.config import parse_config
from nriplugin.daemon.config_changes import changes
from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from pathlib import Path

RULE = "rules: [{name: batch, match: {namespace: batch}, cpuQoS: {enabled: true}}]"


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("", "", "nothing changes"),
        ("", "memoryQoS: {enabled: true}", "turned on: memoryQoS"),
        ("cpuBurst: {enabled: true}", "", "turned off: cpuBurst"),
        (
            "cpuBurst: {enabled: true, percent: 10}",
            "cpuBurst: {enabled: true, percent: 20}",
            "changed: cpuBurst",
        ),
        ("", RULE, "rules: 0, now 1"),
        ("", "adopt: {enabled: true}", "adopt: on"),
        ("repair: {enabled: true}", "", "repair: off"),
        ("", "shadow: true", "shadow: on"),
        ("", "verify: {enabled: false}", "verify: off"),
        (
            "policies: {intervalSeconds: 9}",
            "policies: {intervalSeconds: 2}",
            "policies: intervalSeconds 2",
        ),
        (
            "",
            "directWrites: {refreshSeconds: 7}",
            "directWrites: refreshSeconds 7",
        ),
        ("", "curve: kep", "curve: kep"),
        ("curve: kep", "", "curve: auto"),
        ("", "failurePolicy: fail", "changed: resources; failurePolicy: fail"),
    ],
)
def test_a_change_is_named(before: str, after: str, line: str) -> None:
    """Handlers, rules, and the keys of the whole file."""
    was, now = (parse_config(text, "test") for text in (before, after))
    assert changes(was, now) == line


def test_the_first_file_is_compared_with_the_defaults() -> None:
    """A process that was configured by nobody has the defaults."""
    assert changes(None, parse_config(RULE, "test")) == "rules: 0, now 1"


def test_a_process_logs_what_a_reload_changes(tmp_path: Path) -> None:
    """The line comes with the one that names the file."""
    place = Place(tmp_path)
    config = tmp_path / "config.yaml"
    config.write_text("{}\n")
    with (
        EmbeddedRuntime(place.socket, PATIENT) as runtime,
        place.daemon("--config", str(config)) as daemon,
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        config.write_text("memoryQoS: {enabled: true}\n")
        daemon.wait_for("configuration: turned on: memoryQoS")
        assert daemon.end() == 0
