"""Pods, containers, nodes and configurations to decide about."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nriplugin.convert import Resources
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.engine.handlers.cpu_qos import CPUQoSSettings
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.handlers.unified_annotations import UnifiedAnnotationsSettings
from nriplugin.engine.model import CORE_FILES, Container, NodeFacts, Pod
from nriplugin.engine.settings import EngineConfig, Settings

if TYPE_CHECKING:
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.handler import HandlerSettings

MIB, GIB = 1 << 20, 1 << 30

# An upstream kernel of today.
FILES = CORE_FILES | {
    "cpu.idle",
    "cpu.max.burst",
    "memory.high",
    "memory.low",
    "memory.min",
    "memory.oom.group",
    "memory.swap.max",
    "pids.max",
}
NODE = NodeFacts(
    driver="cgroupfs",
    files=FILES,
    kernel=(6, 1),
    memory_capacity_bytes=64 * GIB,
    memory_allocatable_bytes=60 * GIB,
    runtime="containerd",
    runtime_version="v2.1.0",
    oci_runtime="runc",
    writable=True,
)
LEVELS = NODE._replace(files=FILES | {"cpu.qos_level", "memory.qos_level"})

POD = Pod(
    uid="7b0f",
    name="web",
    namespace="shop",
    cgroup_parent="/kubepods/burstable/pod7b0f",
)
TYPICAL = Resources(
    shares=512,
    quota_us=100_000,
    period_us=100_000,
    memory_limit_bytes=GIB,
)
APP = Container(name="app", id="c1", resources=TYPICAL)

SUFFIX = ".cgroup2.nri.io"

EVERYTHING_ON = Settings(
    MemoryQoSSettings(enabled=True, swap="0", oom_group=True),
    CPUBurstSettings(enabled=True, percent=50),
    CPUQoSSettings(enabled=True),
    MemoryQoSLevelSettings(enabled=True),
    UnifiedAnnotationsSettings(
        enabled=True, allowed=frozenset({"pids.max", "memory.high", "cpu.max"})
    ),
)


def config(*settings: HandlerSettings) -> EngineConfig:
    """Return a configuration with these settings of handlers."""
    return EngineConfig(base=Settings(*settings))


def refusals(decision: Decision) -> Counter[tuple[str, str]]:
    """Return how many refusals a decision has by handler and reason."""
    return Counter((one.handler, one.reason.value) for one in decision.refused)


def annotated(**annotations: str) -> Pod:
    """Return a pod with annotations of ours, by key with `_` for `-`."""
    return POD._replace(
        annotations={
            f"{key.replace('_', '-')}{SUFFIX}": value
            for key, value in annotations.items()
        }
    )
