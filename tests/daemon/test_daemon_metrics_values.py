"""What /metrics says of a daemon that the embedded runtime has kept busy."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import (
    text_string_to_metric_families as plain_text_to_metric_families,
)
from support.daemons import daemon_on_runtime
from support.harness import container, pod, wait_until

from nriplugin.daemon.metrics import DaemonMetrics
from nriplugin.state.inventory import EntryState

if TYPE_CHECKING:
    from nriplugin.daemon.metric_encoding import Metric
    from nriplugin.daemon.process import DaemonProcess

DOCUMENT = Path(__file__).parents[2] / "docs/metrics.md"
OPENMETRICS = "application/openmetrics-text"


def families(process: DaemonProcess, pods: int = 0) -> dict[str, Metric]:
    """Return what is served, as a parser of the strict format reads it."""
    body, _ = DaemonMetrics(process, pods).text(OPENMETRICS)
    parse = openmetrics.text_string_to_metric_families
    parsed = parse(body.decode())  # type: ignore[no-untyped-call]
    return {one.name: one for one in parsed}


def samples(process: DaemonProcess) -> dict[str, float]:
    body, _ = DaemonMetrics(process).text("")
    lines = [line.rpartition(" ") for line in body.decode().splitlines()]
    return {name: float(value) for name, _, value in lines if name[0] != "#"}


def test_the_counters_are_what_the_runtime_did(tmp_path: Path) -> None:
    """Requests, their times and containers, of a real process."""
    with daemon_on_runtime(tmp_path) as daemon:
        runtime = daemon.runtime
        for number in range(3):
            runtime.run_pod_sandbox(pod(number))
            one = container(number, shares=512, limit_bytes=1 << 26)
            runtime.create_container(pod(number), one)
            runtime.start_container(pod(number), one)
        runtime.remove_container(pod(0), runtime.containers["c0"])
        found = daemon.samples()
    requests = 'nriplugin_requests_total{operation="CreateContainer",status='
    assert found[requests + '"ok"}'] == 3
    assert found[requests + '"failed"}'] == 0
    duration = "nriplugin_request_duration_seconds"
    create = 'operation="CreateContainer"}'
    assert found[f"{duration}_count{{{create}"] == 3
    assert found[f'{duration}_bucket{{le="+Inf",{create}'] == 3
    assert 0 < found[f"{duration}_sum{{{create}"] < 60
    assert found['nriplugin_containers{state="managed"}'] == 2
    assert found["nriplugin_connected"] == found["nriplugin_ready"] == 1
    assert found["nriplugin_healthy"] == 1
    assert found["nriplugin_connection_gaps_total"] == 1
    assert found["process_resident_memory_bytes"] > 1e6


def test_a_reload_is_counted(tmp_path: Path) -> None:
    """Both the ones that came into force and the refused ones."""
    file = tmp_path / "config.yaml"
    file.write_text("curve: kep\n")
    with daemon_on_runtime(tmp_path, "--config", str(file)) as daemon:
        found = daemon.samples()
        assert found['nriplugin_curve_info{curve="kep"}'] == 1
        before = found["nriplugin_config_last_reload_success_timestamp_seconds"]
        file.write_text("curve: bent\n")
        daemon.process.send_signal(1)
        reloads = 'nriplugin_config_reloads_total{status="'
        wait_until(lambda: daemon.samples()[reloads + 'failed"}'] >= 1)
        assert daemon.samples()["nriplugin_config_last_reload_successful"] == 0
        file.write_text("curve: proportional\n")
        daemon.process.send_signal(1)
        wait_until(lambda: daemon.samples()[reloads + 'ok"}'] >= 1)
        found = daemon.samples()
    assert found["nriplugin_config_last_reload_successful"] == 1
    after = found["nriplugin_config_last_reload_success_timestamp_seconds"]
    assert after > before
    assert found['nriplugin_curve_info{curve="proportional"}'] == 1


def test_counters_of_files(process: DaemonProcess) -> None:
    """Drift, repairs and shadow by file; a file that is not known is `other`."""
    lifecycle = process.lifecycle
    lifecycle.verification.drift.update({"cpu.weight": 2, "../../etc": 1, "x": 2})
    lifecycle.verification.repairs["cpu.weight"] = 1
    lifecycle.verification.failed_repairs["cpu.weight"] = 4
    lifecycle.shadow.enabled = True
    lifecycle.shadow.containers = 3
    lifecycle.shadow.files["memory.high"] = 3
    lifecycle.log.refusals["memoryQoS", "conflict"] = 5
    process.late_answers = lambda: 6
    found = samples(process)
    assert found['nriplugin_drift_total{file="cpu.weight"}'] == 2
    assert found['nriplugin_drift_total{file="other"}'] == 3
    repairs = 'nriplugin_repairs_total{file="cpu.weight",status='
    assert (found[repairs + '"ok"}'], found[repairs + '"failed"}']) == (1, 4)
    assert found["nriplugin_shadow_enabled"] == 1
    assert found["nriplugin_shadow_containers"] == 3
    assert found['nriplugin_shadow_files{file="memory.high"}'] == 3
    refused = 'nriplugin_decision_refused_total{handler="memoryQoS",reason="conflict"}'
    assert found[refused] == 5
    assert found["nriplugin_late_answers_total"] == 6


def test_every_state_has_a_sample(process: DaemonProcess) -> None:
    """Also those that no container is in: an alert needs the zero."""
    found = samples(process)
    for state in EntryState:
        assert found[f'nriplugin_containers{{state="{state.value}"}}'] == 0


def test_gaps_and_missed_containers(process: DaemonProcess) -> None:
    """Every Synchronize ends a time without a connection."""
    connection = process.lifecycle.connection
    connection.synchronized(2)
    connection.ended("the runtime went away")
    found = samples(process)
    assert found["nriplugin_connected"] == 0
    assert found["nriplugin_connection_gaps_total"] == 1
    connection.synchronized(3)
    found = samples(process)
    assert found["nriplugin_connection_gaps_total"] == 2
    assert found["nriplugin_missed_containers_total"] == 5


def test_both_formats_say_the_same(process: DaemonProcess) -> None:
    """Parsers of the library read either text."""
    process.lifecycle.log.refusals["cpuBurst", "annotation"] = 1
    body, _ = DaemonMetrics(process).text("")
    plain = {
        one.name: {(s.name, *s.labels.values()) for s in one.samples}
        for one in plain_text_to_metric_families(body.decode())
        if one.name.startswith("nriplugin_")
    }
    strict = {
        (s.name, *s.labels.values())
        for one in families(process).values()
        for s in one.samples
        if one.name.startswith("nriplugin_")
    }
    assert {sample for found in plain.values() for sample in found} == strict


def documented() -> dict[str, tuple[str, set[str]]]:
    """Return the rows of the tables: by name, the type and the labels."""
    rows = re.findall(
        r"^\| `(\w+)` \| (\w+) \|([^|]*)\| [^|]+ \|$", DOCUMENT.read_text(), re.M
    )
    return {
        name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows
    }


def test_every_metric_is_documented_and_every_documented_one_exists(
    process: DaemonProcess,
) -> None:
    """docs/metrics.md lists them with type and labels, and no others."""
    suffix = {"counter": "_total", "info": "_info"}
    served = {
        name + suffix.get(one.type, ""): "gauge" if one.type == "info" else one.type
        for name, one in families(process, pods=1).items()
    }
    assert {name: kind for name, (kind, _) in documented().items()} == served


def test_the_documented_labels_are_the_served_ones(process: DaemonProcess) -> None:
    """As far as there are samples."""
    lifecycle = process.lifecycle
    lifecycle.verification.drift["cpu.max"] = 1
    lifecycle.verification.repairs["cpu.max"] = 1
    lifecycle.shadow.files["cpu.max"] = 1
    lifecycle.log.refusals["cpuBurst", "annotation"] = 1
    listed = documented()
    compared = 0
    for one in families(process).values():
        for sample in one.samples:
            name = re.sub(r"_(bucket|sum|count)$", "", sample.name)
            if name in listed:
                assert set(sample.labels) - {"le"} == listed[name][1], name
                compared += 1
    assert compared > 20
