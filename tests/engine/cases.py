"""Pods, containers, nodes and configurations to decide about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nriplugin.convert import Resources
from nriplugin.engine.model import CORE_FILES, Container, NodeFacts, Pod
from nriplugin.engine.settings import (
    CPUBurstSettings,
    CPUQoSSettings,
    EngineConfig,
    MemoryQoSLevelSettings,
    MemoryQoSSettings,
    Settings,
    UnifiedAnnotationsSettings,
)

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
LEVELS = replace(NODE, files=FILES | {"cpu.qos_level", "memory.qos_level"})

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
    memory_qos=MemoryQoSSettings(enabled=True, swap="0", oom_group=True),
    cpu_burst=CPUBurstSettings(enabled=True, percent=50),
    cpu_qos=CPUQoSSettings(enabled=True),
    memory_qos_level=MemoryQoSLevelSettings(enabled=True),
    unified_annotations=UnifiedAnnotationsSettings(
        enabled=True, allowed=frozenset({"pids.max", "memory.high", "cpu.max"})
    ),
)


def config(**settings: Any) -> EngineConfig:
    """Return a configuration with these settings of handlers."""
    return EngineConfig(base=Settings(**settings))


def annotated(**annotations: str) -> Pod:
    """Return a pod with annotations of ours, by key with `_` for `-`."""
    return POD._replace(
        annotations={
            f"{key.replace('_', '-')}{SUFFIX}": value
            for key, value in annotations.items()
        }
    )
