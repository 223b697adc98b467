"""What a daemon says about itself at its start, and while it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.nodes import FACTS, configure, plugin_on

from nriplugin.daemon import serving
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.health import live, ready
from nriplugin.daemon.instance_lock import InstanceLock
from nriplugin.daemon.process import DaemonProcess
from nriplugin.daemon.start_lines import start_lines
from nriplugin.daemon.status import status_of
from nriplugin.daemon.systemd_notify import SystemdNotifier
from nriplugin.stopping import StopFlag

if TYPE_CHECKING:
    from pathlib import Path

RULES = """
memoryQoS: {enabled: true}
curve: kep
adopt: {enabled: true}
rules: [{name: batch, match: {namespace: batch}, cpuQoS: {enabled: true}}]
"""


def process_with(config: str = "", **settings: Any) -> DaemonProcess:
    plugin = plugin_on(FACTS._replace(cgroup_evidence="by its type"))
    process = DaemonProcess("nri", plugin.lifecycle, BackgroundThread(), **settings)
    process.driver_evidence = "kubelet says so"
    process.addresses = {"control API": "unix:///run/c.sock", "HTTP": "off"}
    if config:
        configure(plugin, config)
    return process


def test_what_is_on_and_off_and_why() -> None:
    """One line for each part, with the evidence."""
    process = process_with(RULES, read_only=True, unwritable_because="--read-only")
    text = "\n".join(start_lines(process))
    assert "door nri" in text
    assert "cgroup v2 (by its type), driver cgroupfs (kubelet says so)" in text
    assert "direct writes: off: --read-only" in text
    assert "handlers on: memoryQoS, resources; off: " in text
    assert "1 rule changes that for some containers" in text
    assert "adopt on, repair off, verification " in text
    assert "curve: kep, set in the configuration" in text
    assert "configuration: the defaults" in text
    assert text.endswith("off: HTTP")


def test_the_defaults() -> None:
    """The file has its hash; the curve is not known before the containers are."""
    process = process_with(config_path="/etc/nriplugin/config.yaml")
    process.config.applied("{}\n", first=True)
    text = "\n".join(start_lines(process))
    assert "handlers on: resources; off: " in text
    assert "curve: " not in text
    hashed = process.config.hash
    assert f"configuration: /etc/nriplugin/config.yaml, SHA-256 {hashed}" in text
    assert "direct writes: off: nothing in the configuration needs them" in text


@pytest.mark.parametrize(
    ("unwritable", "mode"),
    [
        ("", "direct writes only: cgroup v1"),
        (
            "--read-only was given",
            "inactive: cgroup v1, and direct writes are off: --read-only was given",
        ),
    ],
)
def test_what_a_node_with_cgroup_v1_means(unwritable: str, mode: str) -> None:
    """The start and `status` say it in the same words; with cgroup v2 neither does."""
    assert process_with().direct_only_mode == ""
    plugin = plugin_on(FACTS._replace(cgroup_version=1, cgroup_evidence="by its type"))
    process = DaemonProcess(
        "nri", plugin.lifecycle, BackgroundThread(), unwritable_because=unwritable
    )
    assert mode in list(start_lines(process))
    assert status_of(process).node.cgroup_evidence == f"by its type; {mode}"


def test_what_has_no_effect_is_logged_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As `config check` shows it, and as a reload logs it."""
    plugin = plugin_on(FACTS)
    file = tmp_path / "config.yaml"
    file.write_text("repair: {enabled: true}\nverify: {enabled: false}\n")
    process = DaemonProcess(
        "nri", plugin.lifecycle, BackgroundThread(), config_path=str(file)
    )
    watch = serving._read_configuration(process, plugin, SystemdNotifier(process, {}))
    warning = "configuration: verify.enabled: false has no effect: "
    assert caplog.text.count(warning) == 1
    watch.check(always=True)
    assert caplog.text.count(warning) == 2


def test_a_process_that_waits_is_live_and_not_ready(tmp_path: Path) -> None:
    """The reason names the process that it waits for."""
    process, path = process_with(), str(tmp_path / "instance.lock")
    stopping = StopFlag()
    with InstanceLock(path) as other, InstanceLock(path) as lock:
        assert other.attempt()
        stopping.set()
        assert not serving._may_serve(process, lock, stopping, launched=False)
    assert live(process) == []
    (reason,) = ready(process)
    assert "still serves: waits for process " in reason
    with InstanceLock(path) as lock:
        assert serving._may_serve(process, lock, StopFlag(), launched=False)
    assert ready(process) == ["not connected to the runtime: not connected yet"]


def test_the_time_of_a_process_does_not_follow_the_wall_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An operator, or NTP, may set the clock to any time."""
    process = process_with()
    monkeypatch.setattr("nriplugin.daemon.process.time", lambda: 0.0)
    monkeypatch.setattr(process, "started_at", 4e9)
    assert 0 <= process.uptime_s < 3600
