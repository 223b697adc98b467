from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest
from nodes.payload import NEXT_VERSION
from support.bed import on_nodes
from support.load import creating
from support.plugins import Plugin, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet, Pod

pytestmark = [
    on_nodes("containerd-2", "containerd-1.7", "crio"),
    pytest.mark.timeout(600),
]

RESOURCES = {"cpu_shares": 2048, "cpu_quota": 30_000, "cpu_period": 100_000}


@pytest.fixture
def pod(kubelet: Kubelet) -> Iterator[Pod]:
    with kubelet.sandbox("Burstable") as pod:
        yield pod


def is_ours(kubelet: Kubelet, container: Container) -> bool:
    """Say whether the container came past the plugin."""
    spec = kubelet.inspect(container)["info"]["runtimeSpec"]
    return "unified" in spec["linux"]["resources"]


def listed(kubelet: Kubelet) -> tuple[int, int]:
    """Return how many pods and containers the runtime has."""
    pods = json.loads(kubelet.machine.check("crictl", "pods", "-o", "json"))
    containers = json.loads(kubelet.machine.check("crictl", "ps", "-a", "-o", "json"))
    return len(pods["items"]), len(containers["containers"])


def test_plugin_killed_and_started_again(
    node: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """Containers keep their values; those made in between are found at Synchronize."""
    with running(node) as plugin:
        before = kubelet.start(pod, "before", RESOURCES)
        settings = kubelet.settings(before)
        plugin.end(signal.SIGKILL)
        between = kubelet.start(pod, "between", RESOURCES)
        assert kubelet.settings(before) == settings
    with running(node) as plugin:
        pods, containers = listed(kubelet)
        assert f"synchronized: {pods} pods, {containers} containers" in plugin.log()
        after = kubelet.start(pod, "after", RESOURCES)
        assert kubelet.settings(before) == settings
        # On the curve that the container in between shows to be the runtime's.
        assert kubelet.settings(after) == kubelet.settings(between)
    found = [is_ours(kubelet, container) for container in (before, between, after)]
    assert found == [True, False, True]


def test_runtime_restarted(node: Machine, kubelet: Kubelet, pod: Pod) -> None:
    """The plugin registers again by itself, is told what runs, and answers."""
    with running(node) as plugin:
        before = kubelet.start(pod, "before", RESOURCES)
        settings = kubelet.settings(before)
        node.check("/node/bin/runtime", "restart")
        log = plugin.wait_for("synchronized:", times=2)
        pods, containers = listed(kubelet)
        last = log.rpartition("synchronized:")[2]
        assert last.startswith(f" {pods} pods, {containers} containers\n")
        assert kubelet.settings(before) == settings
        after = kubelet.start(pod, "after", RESOURCES)
        assert is_ours(kubelet, after)
        assert kubelet.settings(after) == settings


def test_upgrade_under_load(node: Machine, kubelet: Kubelet, pod: Pod) -> None:
    """The next version installed and started while containers are made: none fails."""
    plugin = Plugin(node)
    plugin.wait_for("synchronized:")
    with creating(kubelet, pod, RESOURCES) as load:
        load.wait_for(2)
        node.check(
            *("/opt/nriplugin/bin/pip", "-q", "install", "--no-index", "--no-deps"),
            *("--find-links", "/node/wheels", f"nriplugin=={NEXT_VERSION}"),
        )
        plugin.end()
        with running(node):
            load.wait_for(load.count() + 3)
            assert f"nriplugin {NEXT_VERSION}" in node.check("nriplugin", "version")
        results = load.results()
    assert [result for result in results if result.code != 0] == []
    assert results[0].unified
    assert results[-1].unified


def test_plugin_coming_and_going_under_load(
    node: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """Killed or stopped at any moment, the plugin takes no container with it."""
    with creating(kubelet, pod, RESOURCES) as load:
        for number in (signal.SIGKILL, signal.SIGTERM) * 2:
            plugin = Plugin(node)
            plugin.wait_for("synchronized:")
            load.wait_for(load.count() + 1)
            plugin.end(number)
        results = load.results()
    assert [result for result in results if result.code != 0] == []
