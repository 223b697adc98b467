"""Whose value is it, on real runtimes: after restarts, reloads and in our absence."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from support.bed import on_nodes
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet, Pod

pytestmark = [
    on_nodes("containerd-2", "containerd-1.7", "crio", "systemd"),
    pytest.mark.timeout(600),
]

MIB = 1 << 20
PATIENCE_S = 60
RESOURCES = {
    "cpu_shares": 512,
    "cpu_quota": 50_000,
    "cpu_period": 100_000,
    "memory_limit_in_bytes": 128 * MIB,
}
RESIZE = {"cpu_quota": 20_000, "cpu_period": 100_000, "memory": 256 * MIB}
RESIZED = {"cpu.max": "20000 100000", "memory.max": str(256 * MIB)}
HANDLERS = """
memoryQoS: {enabled: true}
cpuBurst: {enabled: true, percent: 90}
"""
ANNOTATIONS = {"memory-request.cgroup2.nri.io": "64Mi"}


@pytest.fixture
def pod(kubelet: Kubelet) -> Iterator[Pod]:
    with kubelet.sandbox("Burstable", annotations=ANNOTATIONS) as pod:
        yield pod


def held(kubelet: Kubelet, container: Container, *files: str) -> dict[str, str]:
    settings = kubelet.settings(container)
    return {file: settings[file] for file in files}


def wait_for(kubelet: Kubelet, container: Container, files: dict[str, str]) -> None:
    """Wait until a container has what it should."""
    deadline = time.monotonic() + PATIENCE_S
    while held(kubelet, container, *files) != files:
        assert time.monotonic() < deadline, held(kubelet, container, *files)
        time.sleep(0.5)


def test_a_resize_in_our_absence_is_put_right(
    node: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """When the plugin is back, and for good: the runtime keeps the new values."""
    with running(node) as plugin:
        app = kubelet.start(pod, "app", RESOURCES)
        plugin.end(signal.SIGKILL)
    assert kubelet.update(app, **RESIZE).code == 0
    with running(node) as plugin:
        plugin.wait_for("synchronized:")
        wait_for(kubelet, app, RESIZED)
        assert kubelet.crictl("update", "--cpuset-cpus", "0", app.id).code == 0
        assert held(kubelet, app, *RESIZED) == RESIZED
        assert "resized while the plugin was away" in plugin.log()


def test_a_handler_turned_off_with_a_restart_leaves_nothing_behind(
    node: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """Neither a burst that the kernel would refuse the quota for, nor a throttle."""
    node.write("/tmp/ownership.yaml", HANDLERS)
    with running(node, "--config", "/tmp/ownership.yaml"):
        app = kubelet.start(pod, "app", RESOURCES)
        assert held(kubelet, app, "cpu.max.burst") == {"cpu.max.burst": "45000"}
        assert held(kubelet, app, "memory.high") != {"memory.high": "max"}
    with running(node):
        result = kubelet.update(app, **RESIZE)
        assert result.code == 0, result.stderr
        bare = {"cpu.max.burst": "0", "memory.high": "max", "memory.low": "0"}
        assert held(kubelet, app, *bare, *RESIZED) == {**bare, **RESIZED}


def test_nothing_of_ours_outlives_us_if_only_what_differs_is_sent(
    node: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """The runtime's specification is as without us, and so is a later resize."""
    node.write("/tmp/ownership.yaml", "resources: {send: different}")
    with running(node, "--config", "/tmp/ownership.yaml"):
        app = kubelet.start(pod, "app", RESOURCES)
    spec = kubelet.inspect(app)["info"]["runtimeSpec"]
    assert not spec["linux"]["resources"].get("unified")
    assert "managed.cgroup2.nri.io" not in spec["annotations"]
    assert kubelet.update(app, **RESIZE).code == 0
    assert held(kubelet, app, *RESIZED) == RESIZED


def test_a_container_that_is_being_made_is_not_repaired(
    node: Machine, kubelet: Kubelet, pod: Pod
) -> None:
    """Its runtime is yet to write its files; one that has started is repaired."""
    node.write(
        "/tmp/ownership.yaml", f"{HANDLERS}\nrepair: {{enabled: true, everySeconds: 1}}"
    )
    with running(node, "--config", "/tmp/ownership.yaml") as plugin:
        apps = [kubelet.start(pod, f"app{number}", RESOURCES) for number in range(3)]
        assert "repair:" not in plugin.log()
        (path,) = apps[0].cgroups
        node.write(f"{path}/memory.high", "max")
        log = plugin.wait_for("repair:")
    assert log.count("repair:") == 1
