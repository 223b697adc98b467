"""Shadow mode: decisions are made, shown and compared; nothing is sent or written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from cgroup.kernels import Kernel
from doors.nri.messages import (
    FILES,
    GIB,
    OURS,
    asking,
    container_at,
    creation,
    pod_at,
    seen,
)
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import FACTS, Node, configure, plugin_on
from doors.nri.runtimes import ModelRuntime
from support.harness import PATIENCE_S, PATIENT, running
from support.trees import CONTAINER, POD

from nriplugin.api import view_pb2 as view
from nriplugin.cli.main import main
from nriplugin.config import parse_config
from nriplugin.convert import Curve, Resources, convert
from nriplugin.doors.nri.dry_run import DryRunPlugin
from nriplugin.engine.decision import HandlerFailed
from nriplugin.nri.testing.runtime import EmbeddedRuntime
from nriplugin.policy import FailurePolicy
from nriplugin.state.inventory import ContainerEntry, EntryState

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.api import nri_pb2 as nri

HANDLERS = (
    "cpuBurst: {enabled: true, percent: 50}\n"
    "memoryQoS: {enabled: true}\n"
    "cpuQoS: {enabled: true}\n"
)
SHADOW = f"{HANDLERS}shadow: true"
RULE = "rules:\n- match: {namespace: other}\n  shadow: true"


def entry_of(node: Node, container_id: str = "c1") -> ContainerEntry:
    entry = node.plugin.lifecycle.inventory.get(container_id)
    assert entry is not None
    return entry


def write(kernel: Kernel, files: Any, cgroup: str = CONTAINER) -> None:
    for file, value in files.items():
        kernel.files[f"{cgroup}/{file}"] = value


# Creation


@pytest.mark.parametrize("config", ["shadow: true", SHADOW, f"{SHADOW}\nadopt: {{}}"])
def test_nothing_is_sent_and_nothing_is_written(config: str) -> None:
    """The entry has what would be sent, and none of it counts as nriplugin's."""
    node = Node(config)
    assert node.create() is None
    node.start()
    node.verify()
    node.background.work()
    entry = entry_of(node)
    assert entry.state is EntryState.SHADOWED
    assert entry.reason == "shadow mode: its values are shown and not set"
    assert FILES.items() <= entry.shadow.items()
    assert (entry.files, entry.ours, entry.managed.files) == ({}, {}, {})
    assert entry.decision is not None
    why = entry.decision.why("cpu.max")
    assert why is not None
    assert why.handler == "resources"
    assert node.written() == {}
    assert not node.plugin.lifecycle.pending.directly_written


def test_the_same_with_a_runtime(tmp_path: Path) -> None:
    """Over a socket, with the option of the command in place of the file."""
    plugin = plugin_on(FACTS, Kernel(2).tree, shadow=True)
    configure(plugin, HANDLERS)
    path = str(tmp_path / "nri.sock")
    with EmbeddedRuntime(path, PATIENT) as runtime, running(plugin, path):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        result = runtime.create_container(pod_at(), container_at())
        assert not result.adjust.HasField("linux")
        assert not result.adjust.annotations
        assert plugin.lifecycle.shadow.enabled
    assert plugin.failure_policy is FailurePolicy.IGNORE


def test_only_containers_of_the_rule_are_shadowed() -> None:
    """Others get their values; the decision cache keeps the two apart."""
    node = Node(RULE)
    other, app = pod_at(id="p2", namespace="other"), container_at(number=2, pod_id="p2")
    for _ in range(2):
        assert files_of(node.create()) == FILES
        assert node.create(app, other) is None
    assert entry_of(node).state is EntryState.MANAGED
    assert entry_of(node, "c2").state is EntryState.SHADOWED
    counts = node.plugin.lifecycle.shadow
    assert (counts.enabled, counts.rules) == (False, ("rules[0]",))


def test_a_rule_can_enforce_where_the_file_does_not() -> None:
    """So that a few namespaces can go first."""
    node = Node("shadow: true\nrules:\n- match: {namespace: shop}\n  shadow: false")
    assert files_of(node.create()) == FILES
    other = pod_at(id="p2", namespace="other")
    assert node.create(container_at(number=2, pod_id="p2"), other) is None


def test_the_option_wins_over_the_file() -> None:
    """With `--shadow` no rule enforces anything."""
    plugin = plugin_on(FACTS, shadow=True)
    configure(plugin, "rules:\n- match: {namespace: shop}\n  shadow: false")
    assert plugin.create_container(creation(pod_at(), container_at())) is None
    plugin = plugin_on(FACTS, shadow=True)  # without a configuration
    assert plugin.create_container(creation(pod_at(), container_at())) is None


def test_shadow_mode_fails_no_request() -> None:
    """Numbers without a valid value fail a container only if they are enforced."""
    text = "resources: {failurePolicy: fail}\nshadow: true"
    enforcing = Node(text.partition("\n")[0])
    with pytest.raises(HandlerFailed):
        enforcing.create(container_at(quota_us=7))
    assert Node(text).create(container_at(quota_us=7)) is None
    assert parse_config(text, "x").failure_policy is FailurePolicy.IGNORE


def test_a_dry_run_answers_as_the_live_plugin_does() -> None:
    """It is empty in shadow mode."""
    node = Node(SHADOW)
    dry = DryRunPlugin(node.plugin.lifecycle)
    assert dry.create_container(creation(pod_at(), container_at())) is None


# What enforcing would change


def natively(app: nri.Container) -> dict[str, str]:
    """Return what a runtime writes for a container by itself."""
    given = app.linux.resources
    numbers = Resources(
        shares=given.cpu.shares.value or None,
        quota_us=given.cpu.quota.value or None,
        period_us=given.cpu.period.value or None,
        memory_limit_bytes=given.memory.limit.value or None,
    )
    return dict(convert(numbers, Curve.QUADRATIC).files)


PODS: dict[int, tuple[dict[str, Any], dict[str, str]]] = {
    1: ({"shares": 512, "quota_us": 100_000, "limit_bytes": GIB}, {}),
    2: ({"shares": 2}, {}),
    3: ({"shares": 1024, "limit_bytes": GIB}, {f"memory-request{OURS}": "256Mi"}),
    4: ({"shares": 256, "quota_us": 20_000}, {f"qos-level{OURS}": "BE"}),
}


def run_all(config: str) -> tuple[Node, dict[str, dict[str, str]]]:
    """Run all pods; return the node, and per container what the kernel held before."""
    node, before = Node(config), {}
    for number, (numbers, notes) in PODS.items():
        path = f"{POD}/{number:064x}"
        pod = pod_at(annotations=notes, id=f"p{number}")
        app = container_at(path, number, pod_id=pod.id, oom_score=900, **numbers)
        node.kernel.add(path)
        answer = node.create(app, pod)
        write(node.kernel, natively(app), path)
        before[app.id] = {
            file.rpartition("/")[2]: value
            for file, value in node.kernel.files.items()
            if file.startswith(f"{path}/")
        }
        write(node.kernel, files_of(answer), path)
        node.plugin.start_container(b"", seen(view.Container, app))
    node.verify()
    return node, before


@pytest.mark.parametrize("config", ["", "curve: kep", HANDLERS])
def test_the_figures_are_what_enforcing_then_changes(config: str) -> None:
    """Per container and file, with the same values."""
    shadow, before = run_all(f"{config}\nshadow: true")
    enforced, _ = run_all(config)
    changed: dict[str, int] = {}
    containers = 0
    for number in PODS:
        path, old = f"{POD}/{number:064x}", before[f"c{number}"]
        now = {f: enforced.kernel.files[f"{path}/{f}"] for f in old}
        different = {f: v for f, v in now.items() if v != old[f]}
        shown = entry_of(shadow, f"c{number}").shadow
        assert different.items() <= shown.items()
        assert shown == entry_of(enforced, f"c{number}").files
        containers += bool(different)
        for file in different:
            changed[file] = changed.get(file, 0) + 1
    counts = shadow.plugin.lifecycle.shadow
    assert (counts.containers, counts.files) == (containers, changed)
    assert bool(changed) is bool(config)
    assert enforced.plugin.lifecycle.shadow.containers == 0


def test_the_figures_are_of_the_containers_that_exist() -> None:
    """They fall when a container ends, or holds the values for another reason."""
    node, _ = run_all(f"{HANDLERS}shadow: true")
    counts = node.plugin.lifecycle.shadow
    first = counts.containers
    node.remove(container_at())
    node.verify()
    assert counts.containers == first - 1
    shown = entry_of(node, "c3").shadow
    write(node.kernel, shown, f"{POD}/{3:064x}")
    node.verify()
    assert counts.containers == first - 2
    assert node.plugin.lifecycle.verification.drift == {}


# Updates


def test_an_update_of_a_shadowed_container_passes_unchanged() -> None:
    """The values that are shown follow it."""
    node = Node(SHADOW)
    node.create()
    node.start()
    assert node.update(asking(limit_bytes=2 * GIB)) is None
    node.post_update()
    entry = entry_of(node)
    assert entry.state is EntryState.SHADOWED
    assert entry.shadow["memory.max"] == str(2 * GIB)
    assert entry.shadow["cpu.weight"] == FILES["cpu.weight"]
    assert entry.ours == {}
    node.background.work()
    assert node.written() == {}


@pytest.mark.parametrize("config", ["", HANDLERS])
@pytest.mark.parametrize("restarted", [True, False])
def test_a_resize_of_a_container_with_earlier_values_is_not_lost(
    tmp_path: Path, config: str, restarted: bool
) -> None:
    """The files that nriplugin once set follow the request, and no other is set."""
    runtime = ModelRuntime(str(tmp_path))
    runtime.connect(config)
    runtime.create({"shares": 512, "quota_us": 100_000, "limit_bytes": GIB})
    shadow = f"{config}\nshadow: true"
    if restarted:
        runtime.connect(shadow)
    else:
        runtime.reload(shadow)
    runtime.update({"shares": 1024, "quota_us": 50_000, "limit_bytes": 2 * GIB})
    files = runtime.files()
    assert files["memory.max"] == str(2 * GIB)
    assert files["cpu.max"] == "50000 100000"
    assert files["cpu.weight"] == "100"
    assert files["cpu.max.burst"] == "0"
    assert files["memory.high"] == "max"


@pytest.mark.parametrize("config", ["", HANDLERS])
def test_a_resize_in_the_absence_of_nriplugin_is_put_right_in_shadow_mode_too(
    tmp_path: Path, config: str
) -> None:
    """The runtime has written the old values over it. Nothing but that is put right."""
    runtime = ModelRuntime(str(tmp_path))
    runtime.connect(config)
    runtime.create({"shares": 512, "quota_us": 100_000, "limit_bytes": GIB})
    runtime.disconnect()
    runtime.update({"limit_bytes": 2 * GIB})
    assert runtime.files()["memory.max"] == str(GIB)
    runtime.connect(f"{config}\nshadow: true")
    files = runtime.files()
    assert files["memory.max"] == str(2 * GIB)
    assert (files["memory.high"], files["memory.low"]) == ("max", "0")


# Existing containers


@pytest.mark.parametrize("config", ["shadow: true", SHADOW])
def test_existing_containers_are_shadowed_and_neither_missed_nor_adopted(
    config: str,
) -> None:
    """Nothing of a whole Synchronize is sent."""
    node = Node(f"{config}\nadopt: {{enabled: true}}")
    assert not node.synchronize([container_at()])
    node.background.work()
    node.background.work_later()
    node.verify()
    entry = entry_of(node)
    assert entry.state is EntryState.SHADOWED
    assert FILES.items() <= entry.shadow.items()
    assert node.written() == {}
    assert [gap.missed for gap in node.plugin.lifecycle.connection.gaps] == [0]
    assert node.plugin.lifecycle.shadow.files.keys() >= FILES.keys()


def test_values_from_before_are_not_repaired() -> None:
    """Shadow mode writes nothing, also not what was once enforced."""
    node = Node("repair: {enabled: true}")
    write(node.kernel, files_of(node.create()))
    node.start()
    node.verify()
    configure(node.plugin, "repair: {enabled: true}\nshadow: true")
    node.kernel.files[f"{CONTAINER}/memory.max"] = "max"
    node.verify()
    assert node.written() == {}
    assert node.plugin.lifecycle.inventory.drift_of("c1") == ("memory.max",)


# Explain


def test_explain_says_that_a_rule_is_in_shadow_mode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The values are those that enforcing would set."""
    config, pod = tmp_path / "config.yaml", tmp_path / "pod.yaml"
    config.write_text(RULE)
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: other}\n"
        "spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}\n"
    )
    assert main(["explain", "--config", str(config), str(pod)]) == 0
    shown = capsys.readouterr().out
    assert "shadow mode" in shown
    assert "cpu.weight = " in shown
    assert main(["explain", str(pod)]) == 0
    assert "shadow mode" not in capsys.readouterr().out
