"""Every handler on every kind of node: what leaves, what is written, and when."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest
from engine.cases import (
    APP,
    FILES,
    GIB,
    MIB,
    NODE,
    POD,
    SUFFIX,
    TYPICAL,
    config,
)

from nriplugin.convert import Resources
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.handlers import table
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.engine.handlers.cpu_qos import CPUQoSSettings
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.handlers.unified_annotations import UnifiedAnnotationsSettings
from nriplugin.engine.qos_level import QoSLevel
from nriplugin.engine.settings import DEFAULT_CONFIG

if TYPE_CHECKING:
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container, NodeFacts

RUNTIMES = [
    ("containerd", "1.7.24"),
    ("containerd", "v2.1.0"),
    ("cri-o", "1.35.2"),
    ("cri-o", "1.36.0"),
]
OCI_RUNTIMES = ["runc", "crun", None]
DRIVERS = ["cgroupfs", "systemd"]

# (file, value, whose, when)
WriteRow = tuple[str, str, str, str]


class Row(NamedTuple):
    """What comes of a container, and of an update of it."""

    files: dict[str, str]
    writes: tuple[WriteRow, ...] = ()
    cleared: tuple[str, ...] = ()


CREATED = {
    "cpu.weight": "59",
    "cpu.max": "100000 100000",
    "memory.max": "1073741824",
}
UPDATED = {
    "cpu.weight": "100",
    "cpu.max": "120000 100000",
    "memory.max": "2147483648",
}
WITHOUT_WEIGHT = {file: CREATED[file] for file in ("cpu.max", "memory.max")}
UPDATED_WITHOUT_WEIGHT = {file: UPDATED[file] for file in ("cpu.max", "memory.max")}
ASKED = Resources(
    shares=1024, quota_us=120_000, period_us=100_000, memory_limit_bytes=2 * GIB
)

IDLE = "cpuQoS, idle by the door"
IDLE_OF_UNIT = "cpuQoS, idle by the door, with systemd"
BURST_OF_SCOPE = "cpuBurst of crun with systemd"
IDLE_AFTER = "cpuQoS, idle by the executor"

# The container is not idle while the runtime writes the weight of an update.
AWAKE_MEANWHILE: tuple[WriteRow, ...] = (
    ("cpu.idle", "0", "container", "before"),
    ("cpu.idle", "1", "container", "after"),
)

# What acts while containers run adds nothing to a decision.
POLICIES = {
    one.name: config(one.settings(enabled=True))
    for one in table.HANDLERS
    if one.at_run_time is not None
}
CONFIGS = {
    "resources": config(),
    "cpuBurst": config(CPUBurstSettings(enabled=True, percent=50)),
    "memoryQoS": config(
        MemoryQoSSettings(
            enabled=True, factor_ppm=500_000, raise_ancestors=True, swap="0"
        )
    ),
    "cpuQoS": config(CPUQoSSettings(enabled=True, level=QoSLevel.BE)),
    "memoryQoSLevel": config(MemoryQoSLevelSettings(enabled=True, level=QoSLevel.BE)),
    "unifiedAnnotations": config(
        UnifiedAnnotationsSettings(enabled=True, allowed=frozenset({"pids.max"}))
    ),
    **POLICIES,
}

MADE = {
    "resources": Row(CREATED),
    "cpuBurst": Row(
        {**CREATED, "cpu.max.burst": "50000"},
        (("cpu.max.burst", "50000", "pod", "before"),),
    ),
    "memoryQoS": Row(
        {
            **CREATED,
            "memory.high": "671088640",
            "memory.low": "268435456",
            "memory.swap.max": "0",
        },
        (("memory.low", "268435456", "ancestors", "before"),),
    ),
    BURST_OF_SCOPE: Row(
        {**CREATED, "cpu.max.burst": "50000"},
        (
            ("cpu.max.burst", "50000", "pod", "before"),
            ("cpu.max.burst", "50000", "container", "after"),
        ),
    ),
    IDLE: Row({**WITHOUT_WEIGHT, "cpu.idle": "1"}, (), ("cpu.shares",)),
    IDLE_OF_UNIT: Row({**WITHOUT_WEIGHT, "cpu.idle": "1"}, (), ("cpu.shares",)),
    IDLE_AFTER: Row(WITHOUT_WEIGHT, (("cpu.idle", "1", "container", "after"),)),
    "memoryQoSLevel": Row({**CREATED, "memory.high": "858992640"}),
    "unifiedAnnotations": Row({**CREATED, "pids.max": "7"}),
}
RESIZED = {
    "resources": Row(UPDATED),
    "cpuBurst": Row(
        {**UPDATED, "cpu.max.burst": "60000"},
        (("cpu.max.burst", "60000", "pod", "before"),),
    ),
    "memoryQoS": Row(
        {**UPDATED, "memory.high": "1207959552", "memory.low": "268435456"},
        (("memory.low", "268435456", "ancestors", "before"),),
    ),
    BURST_OF_SCOPE: Row(
        {**UPDATED, "cpu.max.burst": "60000"},
        (
            ("cpu.max.burst", "60000", "pod", "before"),
            ("cpu.max.burst", "60000", "container", "after"),
        ),
    ),
    IDLE: Row(UPDATED_WITHOUT_WEIGHT, AWAKE_MEANWHILE),
    IDLE_OF_UNIT: Row({**UPDATED_WITHOUT_WEIGHT, "cpu.idle": "0"}, AWAKE_MEANWHILE),
    IDLE_AFTER: Row(UPDATED_WITHOUT_WEIGHT, AWAKE_MEANWHILE),
    "memoryQoSLevel": Row({**UPDATED, "memory.high": "1717985280"}),
    "unifiedAnnotations": Row(UPDATED),
}
# Whoever is not known may be the one that fails.
IDLE_THROUGH_THE_DOOR = {
    ("runc", "cgroupfs"): IDLE,
    ("runc", "systemd"): IDLE_OF_UNIT,
    ("crun", "cgroupfs"): IDLE,
}
DROPS_AT_UPDATES = {("cri-o", "1.35.2")}

NODES = list(product(RUNTIMES, OCI_RUNTIMES, DRIVERS))
KINDS = [f"{' '.join(runtime)}-{oci}-{driver}" for runtime, oci, driver in NODES]
POD_WITH_ANNOTATION = POD._replace(annotations={f"pids.max{SUFFIX}": "7"})


def facts_of(
    runtime: tuple[str, str], oci: str | None, driver: str, **more: object
) -> NodeFacts:
    name, version = runtime
    facts = NODE._replace(runtime=name, runtime_version=version, files=FILES)
    return facts._replace(oci_runtime=oci, driver=driver, **more)  # type: ignore[arg-type] # by name


def row_of(decision: Decision) -> Row:
    assert decision.refused == []
    writes = [(w.file, w.value, str(w.level), str(w.when)) for w in decision.writes]
    return Row(decision.files, tuple(writes), decision.cleared)


def container_of(row: str) -> Container:
    """Return the container as its runtime has it once it is made."""
    shares = None if row in (IDLE, IDLE_OF_UNIT) else TYPICAL.shares
    resources = TYPICAL._replace(shares=shares)
    return APP._replace(resources=resources, memory_request_bytes=256 * MIB)


def row_name(handler: str, oci: str | None, driver: str) -> str:
    if handler in POLICIES:
        return "resources"
    if handler == "cpuBurst" and (oci, driver) == ("crun", "systemd"):
        return BURST_OF_SCOPE
    if handler != "cpuQoS":
        return handler
    return IDLE_THROUGH_THE_DOOR.get((oci or "", driver), IDLE_AFTER)


@pytest.mark.parametrize("handler", CONFIGS)
@pytest.mark.parametrize(("runtime", "oci", "driver"), NODES, ids=KINDS)
def test_a_container_is_made(
    handler: str, runtime: tuple[str, str], oci: str | None, driver: str
) -> None:
    """All runtimes take `unified` at creation; only the way of cpu.idle differs."""
    app = APP._replace(memory_request_bytes=256 * MIB)
    facts = facts_of(runtime, oci, driver)
    decision = decide(POD_WITH_ANNOTATION, app, facts, CONFIGS[handler])
    assert row_of(decision) == MADE[row_name(handler, oci, driver)]


@pytest.mark.parametrize("handler", CONFIGS)
@pytest.mark.parametrize(("runtime", "oci", "driver"), NODES, ids=KINDS)
def test_a_container_is_resized(
    handler: str, runtime: tuple[str, str], oci: str | None, driver: str
) -> None:
    """CRI-O before 1.36 drops the answer, and the executor writes it instead."""
    name = row_name(handler, oci, driver)
    app, facts = container_of(name), facts_of(runtime, oci, driver)
    decision = decide_update(POD_WITH_ANNOTATION, app, ASKED, facts, CONFIGS[handler])
    expected = RESIZED[name]
    if runtime in DROPS_AT_UPDATES:
        after = [
            (f, value, "container", "after")
            for f, value in expected.files.items()
            if f != "cpu.idle"  # which is written at its own time
        ]
        found = row_of(decision)
        assert sorted(found.writes) == sorted({*expected.writes, *after})
        assert (found.files, found.cleared) == ({}, expected.cleared)
    else:
        assert row_of(decision) == expected


@pytest.mark.parametrize("handler", CONFIGS)
@pytest.mark.parametrize(("runtime", "oci", "driver"), NODES, ids=KINDS)
def test_a_node_of_version_1_gets_nothing_through_the_door(
    handler: str, runtime: tuple[str, str], oci: str | None, driver: str
) -> None:
    """On cgroup v1, no runtime, driver or handler makes a difference."""
    facts = facts_of(runtime, oci, driver, cgroup_version=1)
    chosen = CONFIGS[handler]
    app = APP._replace(memory_request_bytes=256 * MIB)
    for decision in (
        decide(POD_WITH_ANNOTATION, app, facts, chosen),
        decide_update(POD_WITH_ANNOTATION, app, ASKED, facts, chosen),
    ):
        assert row_of(decision) == Row({})
        assert decision.left[0].what == "cgroup v2 files"


@pytest.mark.parametrize("handler", CONFIGS)
@pytest.mark.parametrize(("runtime", "oci", "driver"), NODES, ids=KINDS)
def test_without_an_executor_nothing_is_promised(
    handler: str, runtime: tuple[str, str], oci: str | None, driver: str
) -> None:
    """What leaves through the door is the same, but for a weight instead of idle.

    And but for the conversion, on a runtime whose updates could never change it.
    """
    name = row_name(handler, oci, driver)
    facts = facts_of(runtime, oci, driver, writable=False)
    app = APP._replace(memory_request_bytes=256 * MIB)
    made = row_of(decide(POD_WITH_ANNOTATION, app, facts, CONFIGS[handler]))
    expected = MADE[name]
    files = dict(expected.files)
    if runtime in DROPS_AT_UPDATES:
        files = {f: v for f, v in files.items() if converted().get(f) != v}
    if name == IDLE_AFTER:
        files["cpu.weight"] = "1"
    assert made == Row(files, (), expected.cleared)
    app = container_of(name)
    if runtime in DROPS_AT_UPDATES:
        app = app._replace(ours=files)
    decision = decide_update(POD_WITH_ANNOTATION, app, ASKED, facts, CONFIGS[handler])
    resized = row_of(decision)
    assert resized.writes == ()
    if runtime in DROPS_AT_UPDATES:
        assert resized.files == {}
    else:
        assert set(RESIZED[name].files) <= set(resized.files)
    if name in (IDLE, IDLE_OF_UNIT):
        assert resized.cleared == ("cpu.shares",)
        idle = None if runtime in DROPS_AT_UPDATES else "1"
        assert resized.files.get("cpu.idle") == idle


def converted() -> dict[str, str]:
    """Return what the conversion alone sends for the container."""
    return decide(POD, APP, NODE, DEFAULT_CONFIG).files


def test_the_matrix_has_every_handler() -> None:
    """The test fails for a handler that has no row here."""
    active = {name for chosen in CONFIGS.values() for name in chosen.base.active}
    assert set(CONFIGS) == active == {one.name for one in table.HANDLERS}
