"""The plugin and the runtime are restarted, also while containers are being made."""

from __future__ import annotations

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

pytestmark = pytest.mark.timeout(1800)
# The oldest and the newest NRI of containerd, and CRI-O's.
each_node = on_nodes("containerd-2.4", "containerd-1.7", "crio")

RESOURCES = {"cpu_shares": 2048, "cpu_quota": 30_000, "cpu_period": 100_000}


@pytest.fixture(scope="module")
def pod(kubelet: Kubelet) -> Iterator[Pod]:
    """One for all tests; each leaves the containers that it made to the next."""
    with kubelet.sandbox("Burstable") as pod:
        yield pod


def came_past(kubelet: Kubelet, container: Container) -> bool:
    """Return whether the plugin was asked about a container when it was created."""
    spec = kubelet.inspect(container)["info"]["runtimeSpec"]
    return "unified" in spec["linux"]["resources"]


@each_node
def test_plugin_killed_and_runtime_restarted(
    node: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """Containers keep their values, and after either the plugin knows all of them.

    A plugin that was killed is told at Synchronize what was made in between. When the
    runtime restarts, the plugin registers again by itself and answers as before.
    """
    with running(node) as plugin:
        before = kubelet.start(pod, "before", RESOURCES)
        settings = kubelet.settings(before)
        plugin.end(signal.SIGKILL)
        between = kubelet.start(pod, "between", RESOURCES)
        assert kubelet.settings(before) == settings
    with running(node) as plugin:
        pods, containers = kubelet.alive()
        assert f"synchronized: {pods} pods, {containers} containers" in plugin.log()
        after = kubelet.start(pod, "after", RESOURCES)
        assert kubelet.settings(before) == settings
        # The container in between shows the runtime's curve, which the plugin follows.
        assert kubelet.settings(after) == kubelet.settings(between)

        node.check("/node/bin/runtime", "restart")
        log = plugin.wait_for("synchronized:", times=2)
        pods, containers = kubelet.alive()
        last = log.rpartition("synchronized:")[2]
        assert last.startswith(f" {pods} pods, {containers} containers\n")
        assert kubelet.settings(before) == settings
        again = kubelet.start(pod, "again", RESOURCES)
        assert kubelet.settings(again) == kubelet.settings(after)
    found = [came_past(kubelet, one) for one in (before, between, after, again)]
    assert found == [True, False, True, True]


# pip takes long under emulation, hence one node.
@on_nodes("containerd-1.7")
def test_upgrade_under_load(node: Machine, kubelet: Kubelet, pod: Pod) -> None:
    """The next version is installed and started; no creation fails meanwhile."""
    plugin = Plugin(node)
    plugin.wait_for("synchronized:")
    with creating(kubelet, pod, RESOURCES, pause_s=2) as load:
        load.wait_for(2)
        node.check(
            *("/opt/nriplugin/bin/pip", "-q", "install", "--no-index", "--no-deps"),
            # Python compiles what the plugin needs when it starts, which is less.
            *("--no-compile", "--find-links", "/node/wheels"),
            f"nriplugin=={NEXT_VERSION}",
        )
        plugin.end()
        with running(node):
            load.wait_for(load.count() + 3)
            assert f"nriplugin {NEXT_VERSION}" in node.check("nriplugin", "version")
            served = load.results()
        results = load.results()
    assert [result for result in results if result.code != 0] == []
    assert results[0].unified
    assert served[-1].unified


@each_node
def test_plugin_coming_and_going_under_load(
    node: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """Whether the plugin is killed or stopped, no creation of a container fails."""
    with creating(kubelet, pod, RESOURCES, pause_s=1) as load:
        for number in (signal.SIGKILL, signal.SIGTERM) * 2:
            plugin = Plugin(node)
            plugin.wait_for("synchronized:")
            load.wait_for(load.count() + 1)
            plugin.end(number)
        results = load.results()
    assert [result for result in results if result.code != 0] == []
