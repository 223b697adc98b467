"""Status over the control API, of a daemon with a real connection to a runtime."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from cgroup.kernels import Kernel
from daemon.control_clients import controlled, daemon_of
from doors.nri.messages import container_at, pod_at
from doors.nri.nodes import FACTS, Node, configure, plugin_on
from node.writing import writer_on
from support.harness import connected, wait_until
from support.trees import UID

from nriplugin import __version__
from nriplugin.api import control_pb2 as control
from nriplugin.daemon.container_counts import GROUPINGS
from nriplugin.daemon.plain import plain
from nriplugin.daemon.start_lines import start_lines
from nriplugin.daemon.status import status_of
from nriplugin.errors import ConfigError, JournalError
from nriplugin.request_stats import RequestStats
from nriplugin.state.inventory import EntryState

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.node.direct_writes import DirectWriter

GROUP = {
    "scheduling.k8s.io/group-name": "train",
    "volcano.sh/job-name": "job-1",
    "volcano.sh/queue-name": "batch",
}


def test_a_daemon_with_a_runtime(tmp_path: Path) -> None:
    """Versions, connection, requests, node, handlers, containers, the process."""
    node = Node("cpuBurst: {enabled: true, percent: 50}")
    process = daemon_of(node.plugin.lifecycle)
    with connected(node.plugin, tmp_path) as (runtime, runner):
        process.nri_stats, process.requests = runner.stats, runner.stats.by_operation
        connection = node.plugin.lifecycle.connection
        wait_until(lambda: connection.since is not None)
        runtime.run_pod_sandbox(pod_at())
        runtime.create_container(pod_at(), container_at())
        wait_until(lambda: process.requests and process.requests.operations)
        with controlled(process, tmp_path) as client:
            found = client.status()
    assert (found.version, found.door, found.pid) == (__version__, "nri", os.getpid())
    assert (found.healthy, found.ready, list(found.problems)) == (True, True, [])
    assert found.runtime.connected
    assert found.runtime.name
    assert found.runtime.nri_release == "0.12.5"
    assert found.runtime.since >= process.started_at - 60
    assert found.containers == control.ContainerCounts(managed=1)
    (create,) = [one for one in found.operations if one.name == "CreateContainer"]
    assert (create.ok, create.failed) == (1, 0)
    assert 0 < create.mean_seconds <= create.p50_seconds <= create.p99_seconds
    assert (found.node.cgroup_version, found.node.driver) == (2, "cgroupfs")
    assert (found.node.curve, found.node.direct_writes) == ("quadratic", True)
    assert found.node.kernel == os.uname().release
    handlers = {one.name: one for one in found.handlers}
    assert handlers["cpuBurst"].enabled
    assert handlers["cpuBurst"].containers == 1
    assert not handlers["memoryQoS"].enabled
    assert found.process.resident_bytes > 1 << 20
    assert found.process.threads > 1
    assert found.process.open_files > 3


def test_a_daemon_without_a_runtime(tmp_path: Path) -> None:
    """It is not ready, and says why, and names the gaps."""
    plugin = plugin_on()
    connection = plugin.lifecycle.connection
    connection.configured("containerd", "v2.4.2", "0.12.3")
    connection.synchronized(2)
    connection.ended("the runtime has left")
    with controlled(daemon_of(plugin.lifecycle), tmp_path) as client:
        found = client.status()
    assert (found.healthy, found.ready) == (True, False)
    problem = "not connected to the runtime: the runtime has left"
    assert list(found.problems) == [problem]
    runtime = found.runtime
    assert (runtime.connected, runtime.reason) == (False, "the runtime has left")
    assert runtime.since == connection.began
    assert (runtime.gap_count, [gap.missed for gap in runtime.gaps]) == (1, [2])


def node_with_groups() -> Node:
    node = Node("cpuBurst: {enabled: true, percent: 50}")
    node.create()
    grouped = pod_at(annotations=GROUP, id="p2", name="worker", namespace="ml")
    node.create(container_at("/elsewhere/c2", 2, pod_id="p2", shares=100), grouped)
    return node


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("namespace", ["ml", "shop"]),
        ("pod", ["ml/worker", "shop/web"]),
        ("qos", ["Burstable"]),
        ("group", ["(none)", "ml/train"]),
        ("job", ["(none)", "ml/job-1"]),
        ("queue", ["(none)", "batch"]),
        ("handler", ["cpuBurst", "resources"]),
    ],
)
def test_containers_are_counted_by(by: str, expected: list[str]) -> None:
    """Each grouping names its groups; the sums are those of all containers."""
    process = daemon_of(node_with_groups().plugin.lifecycle)
    groups = status_of(process, by).groups
    assert [group.name for group in groups] == expected
    total = sum(group.containers.managed for group in groups)
    assert total == (3 if by == "handler" else 2)


def test_every_grouping_is_tested() -> None:
    """A grouping that is added needs a line above."""
    assert GROUPINGS == ("namespace", "pod", "qos", "group", "job", "queue", "handler")


def test_another_grouping_is_an_error(tmp_path: Path) -> None:
    """One line that names the field, the value and what was expected."""
    with controlled(daemon_of(plugin_on().lifecycle), tmp_path) as client:
        with pytest.raises(grpc.RpcError) as raised:
            client.status("colour")
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        expected = f"by: 'colour', expected {', '.join(GROUPINGS)}"
        assert raised.value.details() == expected


def test_every_state_has_a_count() -> None:
    """A state without a field would make Status fail."""
    fields = {field.name for field in control.ContainerCounts.DESCRIPTOR.fields}
    assert fields >= {state.value for state in EntryState}


def test_rules_and_refusals_of_handlers() -> None:
    """A rule is named at the handlers that it turns on or off, and at no other."""
    node = Node(
        "resources: {enabled: true}\n"
        "rules:\n"
        "- {name: batch, match: {namespace: ml}, cpuBurst: {enabled: true}}\n"
        "- {match: {namespace: shop}, resources: {enabled: true}}\n"
    )
    odd = pod_at(annotations={"nonsense.cgroup2.nri.io": "1"}, namespace="ml")
    node.create(pod=odd)
    found = status_of(daemon_of(node.plugin.lifecycle))
    handlers = {one.name: one for one in found.handlers}
    assert list(handlers["cpuBurst"].rules) == ["rules[0] (batch)"]
    assert list(handlers["resources"].rules) == []
    (refusal,) = handlers["annotations"].refusals
    assert (refusal.reason, refusal.count) == ("annotation", 1)


def refusing_writer() -> DirectWriter:
    raise JournalError("/var/lib/nriplugin: disk full")


def because(parts: dict[str, Any], config: str = "{}", **of_process: Any) -> str:
    plugin = plugin_on(FACTS, Kernel(2).tree, **parts)
    configure(plugin, config)
    node = status_of(daemon_of(plugin.lifecycle, **of_process)).node
    assert not node.direct_writes
    return node.direct_writes_because


def test_why_direct_writes_are_off() -> None:
    """Nobody needs them, the user forbids them, or they cannot be opened."""
    burst = "cpuBurst: {enabled: true, percent: 50}"
    opening = {"open_writer": refusing_writer}
    assert because(opening) == "nothing in the configuration needs them"
    assert because(opening, burst) == "/var/lib/nriplugin: disk full"
    forbidden = "--read-only was given"
    assert because({}, burst, unwritable_because=forbidden) == forbidden


@pytest.mark.parametrize(
    ("config", "facts", "expected"),
    [
        ("cpuBurst: {enabled: true}", {}, "handlers or rules of the configuration"),
        ("adopt: {enabled: true}", {}, "adopt is on"),
        ("repair: {enabled: true}", {}, "repair is on"),
        ("curve: kep", {"driver": "systemd"}, "under systemd, crun may need them"),
        ("{}", {"ignores_unified": True}, "this runtime drops cgroup v2 files"),
        ("{}", {}, "an earlier process or configuration may have needed them"),
    ],
)
def test_why_direct_writes_are_on(
    config: str, facts: dict[str, Any], expected: str
) -> None:
    """The configuration in force comes first."""
    kernel = Kernel(2)
    plugin = plugin_on(
        FACTS._replace(**facts), kernel.tree, open_writer=lambda: writer_on(kernel)
    )
    plugin.lifecycle.writer_opening.open()
    configure(plugin, config)
    process = daemon_of(plugin.lifecycle)
    node = status_of(process).node
    assert node.direct_writes
    assert node.direct_writes_because.startswith(expected)
    on = f"direct writes: on: {node.direct_writes_because}"
    assert on in list(start_lines(process))


def test_a_chosen_curve() -> None:
    """Its evidence is the configuration."""
    plugin = plugin_on(FACTS)
    configure(plugin, "curve: kep")
    node = status_of(daemon_of(plugin.lifecycle)).node
    assert (node.curve, node.curve_evidence) == ("kep", "set in the configuration")


def test_names_that_are_not_utf8() -> None:
    """A path from the command line may be any bytes."""
    process = daemon_of(plugin_on().lifecycle, config_path="/etc/\udcff.yaml")
    assert status_of(process).configuration.path == "/etc/\\udcff.yaml"


def test_the_path_of_the_configuration_is_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command may ask from another directory than the daemon's."""
    monkeypatch.chdir(tmp_path)
    process = daemon_of(plugin_on().lifecycle, config_path="config.yaml")
    assert status_of(process).configuration.path == str(tmp_path / "config.yaml")


def test_plain_values_have_every_field() -> None:
    """Numbers are numbers, and what is empty is there."""
    process = daemon_of(node_with_groups().plugin.lifecycle)
    found = plain(status_of(process, "pod"))
    assert json.loads(json.dumps(found)) == found
    assert found["containers"] == {
        "managed": 2,
        "skipped": 0,
        "adopted": 0,
        "missed": 0,
        "drifted": 0,
        "shadowed": 0,
    }
    assert found["writes"] == []
    assert found["shadow"]["files"] == []
    assert set(found) == {one.name for one in control.StatusResponse.DESCRIPTOR.fields}
    event = plain(control.Event(files={"b": "2", "a": "1"}))
    assert list(event["files"]) == ["a", "b"]


def test_what_is_absent_is_not_taken_for_zero() -> None:
    """A number that is not known, and a message that is not there."""
    numbers = plain(control.ContainerNumbers(shares=0))
    assert (numbers["shares"], numbers["memory_request_bytes"]) == (0, None)
    assert plain(control.FileWhy())["hold"] is None
    assert plain(control.FileWhy(hold=control.PolicyHold()))["hold"]["changes"] == 0


def test_very_slow_requests_have_a_finite_bound() -> None:
    """Infinity is not JSON."""
    plugin = plugin_on()
    process = daemon_of(plugin.lifecycle)
    process.requests = RequestStats()
    process.requests.note("UpdateContainer", 3.5, failed=True)
    (one,) = status_of(process).operations
    assert (one.ok, one.failed, one.p50_seconds) == (0, 1, 3.5)


def test_by_is_checked_without_grpc() -> None:
    """/statusz uses the same function."""
    with pytest.raises(ConfigError, match="by: 'colour', expected"):
        status_of(daemon_of(plugin_on().lifecycle), "colour")


def test_the_pod_uid_is_no_group() -> None:
    """Groups have names that an operator knows."""
    process = daemon_of(node_with_groups().plugin.lifecycle)
    for by in GROUPINGS:
        assert UID not in str(status_of(process, by).groups)
