"""Memory guard, shown by what the kernel does to containers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from support.bed import on_nodes
from support.looking import keep_looking
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet

pytestmark = pytest.mark.timeout(1800)

each_node = on_nodes("containerd-2.4", "systemd")

MIB = 1 << 20

CONFIG = """
policies: {intervalSeconds: 2}
unifiedAnnotations: {enabled: true, allowed: [memory.high]}
memoryGuard: {enabled: true, stepPercent: 100, stallPercent: 10, cooldownSeconds: 4}
"""
HIGH = 32 * MIB
NEEDS = 96 * MIB  # more than memory.high, less than the limit
LIMIT = {"memory_limit_in_bytes": 192 * MIB}
ANNOTATIONS = {
    "memory.high.cgroup2.nri.io/container.guarded": str(HIGH),
    "memory.high.cgroup2.nri.io/container.alone": str(HIGH),
    "memory-guard.cgroup2.nri.io/container.alone": "off",
}


class Group:
    """A container's cgroup, and a process that a test starts in it."""

    def __init__(self, node: Machine, container: Container) -> None:
        (self.path,) = container.cgroups
        self._node = node
        inner = f"{self.path}/container"  # crun's, under systemd
        has_inner = node.read([f"{inner}/cgroup.procs"])[f"{inner}/cgroup.procs"]
        self._processes = inner if has_inner else self.path

    def spawn(self, command: str) -> int:
        """Start a command in the container's cgroup; return its pid."""
        enter = f"echo $$ > {self._processes}/cgroup.procs"
        log = "/var/log/memory-policies.log"
        return self._node.spawn("sh", "-c", f"{enter} && exec {command}", log=log)

    def read(self, file: str) -> str:
        path = f"{self.path}/{file}"
        return (self._node.read([path])[path] or "").strip()

    @property
    def used(self) -> int:
        return int(self.read("memory.current"))

    @property
    def high_events(self) -> int:
        lines = (line.split() for line in self.read("memory.events").splitlines())
        return next(int(count) for name, count in lines if name == "high")


@pytest.fixture(scope="module")
def plugin(node: Machine) -> Iterator[None]:
    node.write("/tmp/memory.yaml", CONFIG)
    with running(node, "--config", "/tmp/memory.yaml"):
        yield


def until(condition: Callable[[], bool]) -> bool:
    """Return whether a condition comes true."""
    return keep_looking(condition, bool)


def why(node: Machine, container: Container) -> Any:
    answer = node.check("nriplugin", "why", container.id, "-o", "json")
    (found,) = json.loads(answer)["containers"]
    return found


@each_node
@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("handler", ["runc", "crun"])
def test_an_allocator_at_memory_high_resumes_with_the_guard(
    node: Machine, kubelet: Kubelet, handler: str
) -> None:
    """Of two that need more than memory.high, only the guarded one gets it."""
    with kubelet.sandbox("Burstable", handler, ANNOTATIONS) as pod:
        containers = [kubelet.start(pod, name, LIMIT) for name in ("guarded", "alone")]
        guarded, alone = (Group(node, container) for container in containers)
        # dd keeps its buffer while it runs; one that got all of it copies for ever.
        command = f"dd if=/dev/zero of=/dev/null bs={NEEDS}"
        pids = [group.spawn(command) for group in (guarded, alone)]
        try:
            assert until(lambda: guarded.used >= NEEDS), why(node, containers[0])
            assert until(lambda: alone.high_events > 0)
            assert alone.used < NEEDS
            assert int(guarded.read("memory.high")) > HIGH
            assert int(alone.read("memory.high")) == HIGH
            held = {
                one["file"]: one["hold"] for one in why(node, containers[0])["files"]
            }
            assert held["memory.high"]["policy"] == "memoryGuard"
            assert held["memory.high"]["original"] == str(HIGH)
        finally:
            for pid in pids:
                node.stop(pid, 9)
        # Step by step, while the container runs.
        assert until(lambda: guarded.read("memory.high") == str(HIGH))
