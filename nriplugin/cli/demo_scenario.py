"""The scenario of `nriplugin demo`: three pods, an update, a removal.

The plugin and its socket are the real ones. The runtime is the SDK's EmbeddedRuntime,
so the demo needs no root, no Kubernetes and no container.
"""

from __future__ import annotations

import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nriplugin.api import nri_pb2 as nri
from nriplugin.convert import convert
from nriplugin.convert.readers import from_nri
from nriplugin.daemon.background import BackgroundThread
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.doors.nri.responses import adjustment
from nriplugin.nri.launch import launch_from
from nriplugin.nri.runner import Runner
from nriplugin.nri.testing.runtime import EmbeddedRuntime
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the scenario: the runtime's message and the plugin's answer."""

    event: str
    subject: str
    came_in: dict[str, str] = field(default_factory=dict)
    went_out: dict[str, str] = field(default_factory=dict)
    rules: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Part:
    """A pod with one container, and the numbers that kubelet would send for it."""

    pod: str
    qos: str
    container: str
    resources: nri.LinuxResources


def _resources(
    shares: int, quota_us: int = 0, memory_mib: int = 0
) -> nri.LinuxResources:
    resources = nri.LinuxResources()
    resources.cpu.shares.value = shares
    resources.cpu.period.value = 100_000
    if quota_us:
        resources.cpu.quota.value = quota_us
    if memory_mib:
        resources.memory.limit.value = memory_mib * MIB
    return resources


# As kubelet computes them: shares from the request, quota and memory from the limit.
_PARTS = (
    _Part("db-0", "Guaranteed", "postgres", _resources(2048, 200_000, 1024)),
    _Part("web-7f9", "Burstable", "nginx", _resources(256, 50_000, 256)),
    _Part("batch-x2", "BestEffort", "worker", _resources(2)),
)


def play() -> Iterator[Step]:
    """Run the scenario; yield each step as it happens."""
    with tempfile.TemporaryDirectory(prefix="nriplugin-") as directory:
        path = f"{directory}/nri.sock"
        with EmbeddedRuntime(path) as runtime, _plugin(path):
            link = runtime.wait_for_plugin()
            yield Step("RegisterPlugin", f"{link.idx}-{link.name}")
            yield from _play(runtime)


def _play(runtime: EmbeddedRuntime) -> Iterator[Step]:
    actors = []
    for number, part in enumerate(_PARTS):
        pod = nri.PodSandbox(id=f"p{number}", name=part.pod, namespace="default")
        container = nri.Container(
            id=f"c{number}", pod_sandbox_id=pod.id, name=part.container
        )
        container.linux.resources.CopyFrom(part.resources)
        runtime.run_pod_sandbox(pod)
        created = runtime.create_container(pod, container)
        runtime.start_container(pod, container)
        yield Step(
            "CreateContainer",
            f"{part.pod}/{part.container} ({part.qos})",
            _numbers(part.resources),
            dict(created.adjust.linux.resources.unified),
            _rules(part.resources),
        )
        actors.append((pod, container))
    pod, container = actors[1]
    asked = _resources(512, 100_000, 512)
    updated = runtime.update_container(pod, container, asked)
    yield Step(
        "UpdateContainer",
        f"{pod.name}/{container.name}",
        _numbers(asked),
        dict(updated.resources.unified),
        _rules(asked),
    )
    pod, container = actors[2]
    runtime.stop_container(pod, container)
    runtime.remove_container(pod, container)
    runtime.stop_pod_sandbox(pod)
    runtime.remove_pod_sandbox(pod)
    yield Step("RemoveContainer", f"{pod.name}/{container.name}")


@contextmanager
def _plugin(path: str) -> Iterator[None]:
    """Run the plugin on a thread of its own within the `with` block."""
    lifecycle = Lifecycle(BackgroundThread(), render=adjustment)
    runner = Runner(NodePlugin(lifecycle), launch_from({}, socket_path=path))
    thread = threading.Thread(target=runner.run, name="nriplugin")
    thread.start()
    try:
        yield
    finally:
        runner.stop()
        thread.join()


def _rules(resources: nri.LinuxResources) -> dict[str, str]:
    """Return the text of the conversion rule that gave each file its value."""
    derived = convert(from_nri(resources)).derived
    return {file: rule.text for file, _, rule in derived}


def _numbers(resources: nri.LinuxResources) -> dict[str, str]:
    """Return the v1-style numbers that were given, by their usual names."""
    given = {
        "cpu.shares": resources.cpu.shares.value,
        "cpu.cfs_quota_us": resources.cpu.quota.value,
        "cpu.cfs_period_us": resources.cpu.period.value,
        "memory.limit_in_bytes": resources.memory.limit.value,
    }
    return {name: str(value) for name, value in given.items() if value}
