"""QoS levels for CPU and memory, by the kernel's own files or what is nearest."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from engine.cases import (
    APP,
    FILES,
    GIB,
    LEVELS,
    NODE,
    POD,
    TYPICAL,
    annotated,
    config,
    refusals,
)

from nriplugin.convert import Resources
from nriplugin.engine.cache_key import deciding_keys
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import Decision, Level, When
from nriplugin.engine.handlers.cpu_qos import CPUQoSSettings, Equivalent
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.qos_level import QoSLevel

if TYPE_CHECKING:
    from nriplugin.engine.model import NodeFacts, Pod

VOLCANO = "volcano.sh/qos-level"
BE = POD._replace(annotations={VOLCANO: "BE"})
WEIGHT = config(CPUQoSSettings(enabled=True, equivalent=Equivalent.WEIGHT))


def cpu(pod: Pod, facts: NodeFacts = NODE, **settings: Any) -> Decision:
    chosen = config(CPUQoSSettings(enabled=True, **settings))
    return decide(pod, APP, facts, chosen)


def memory(pod: Pod, facts: NodeFacts = NODE, **settings: Any) -> Decision:
    chosen = config(MemoryQoSLevelSettings(enabled=True, **settings))
    app = APP._replace(memory_request_bytes=GIB // 4)
    return decide(pod, app, facts, chosen)


@pytest.mark.parametrize(
    ("level", "value"), [("LC", "2"), ("HLS", "2"), ("LS", "1"), ("BE", "-1")]
)
def test_the_kernels_own_cpu_level(level: str, value: str) -> None:
    """In the container and the pod; only -1 is safe before the kernel is known."""
    decision = cpu(POD._replace(annotations={VOLCANO: level}), LEVELS)
    assert decision.files.get("cpu.qos_level") == ("-1" if level == "BE" else None)
    written = {(write.level, write.value) for write in decision.writes}
    expected = {(Level.POD, value)}
    if level != "BE":
        expected.add((Level.CONTAINER, value))
    assert written == expected
    assert "cpu.weight" in decision.files
    assert "cpu.idle" not in decision.files


RUNTIMES: list[tuple[str | None, str | None]] = [
    *product(["runc", "crun"], ["cgroupfs", "systemd"]),
    (None, "systemd"),
    ("runc", None),
    ("kata", "cgroupfs"),
]
THROUGH_THE_DOOR = {("runc", "cgroupfs"), ("runc", "systemd"), ("crun", "cgroupfs")}


@pytest.mark.parametrize(("runtime", "driver"), RUNTIMES)
@pytest.mark.parametrize("writable", [True, False])
def test_idle_never_collides_with_shares(
    runtime: str | None, driver: str | None, writable: bool
) -> None:
    """Through the door with shares cleared, else by the executor, else not at all."""
    facts = NODE._replace(oci_runtime=runtime, driver=driver, writable=writable)
    decision = cpu(BE, facts)
    if (runtime, driver) in THROUGH_THE_DOOR:
        assert decision.files["cpu.idle"] == "1"
        assert decision.cleared == ("cpu.shares",)
        assert decision.writes == []
        assert "cpu.weight" not in decision.files
    else:
        assert "cpu.idle" not in decision.files
        assert decision.cleared == ()
        assert [write.file for write in decision.writes] == ["cpu.idle"] * writable
        # Not idle after all, without an executor: then it has its weight.
        assert ("cpu.weight" in decision.files) is not writable


def test_nearest_is_said_to_be_nearest() -> None:
    """The rule's text says that the file is not the same as the level."""
    assert "nearest to BE" in cpu(BE).why("cpu.idle").rule.text


@pytest.mark.parametrize("level", ["LC", "HLS", "LS"])
def test_the_other_levels_keep_their_weight(level: str) -> None:
    """An upstream kernel has no file for these levels."""
    decision = cpu(annotated(qos_level=level))
    assert decision.files["cpu.weight"] == "59"
    assert "cpu.idle" not in decision.files
    assert f"QoS level {level}" in dict(decision.left)


@pytest.mark.parametrize(
    ("equivalent", "files", "weight"),
    [
        (Equivalent.WEIGHT, FILES, "1"),
        (Equivalent.IDLE, FILES - {"cpu.idle"}, "1"),  # before 5.15
        (Equivalent.NONE, FILES, "59"),
    ],
)
def test_other_equivalents(
    equivalent: Equivalent, files: frozenset[str], weight: str
) -> None:
    """BE becomes the least weight, or nothing."""
    decision = cpu(BE, NODE._replace(files=files), equivalent=equivalent)
    assert decision.files["cpu.weight"] == weight
    assert "cpu.idle" not in decision.files


CRUN = NODE._replace(oci_runtime="crun", driver="systemd")


@pytest.mark.parametrize(
    ("facts", "written"),
    [
        (CRUN, True),
        (CRUN._replace(oci_runtime="runc"), False),
        (CRUN._replace(driver="cgroupfs"), False),
        (CRUN._replace(writable=False), False),
    ],
)
def test_the_least_weight_counts_among_siblings(
    facts: NodeFacts, written: bool
) -> None:
    """crun with systemd makes the scope's weight of shares, so it has to be written."""
    for decision in (
        cpu(BE, facts, equivalent=Equivalent.WEIGHT),
        decide_update(BE, APP, Resources(shares=1024), facts, WEIGHT),
    ):
        assert decision.files["cpu.weight"] == "1"
        writes = [(w.file, w.value, w.level, w.when) for w in decision.writes]
        expected = ("cpu.weight", "1", Level.CONTAINER, When.AFTER)
        assert writes == [expected] * written
        left = dict(decision.left).get("cpu.weight of the scope", "")
        assert ("crun with systemd" in left) is not (facts.writable)


@pytest.mark.parametrize("explicit", [{"cpu.weight": "5"}, {"cpu.idle": "0"}])
def test_explicit_values_keep_a_container_awake(explicit: dict[str, str]) -> None:
    """An explicit weight wins over idle."""
    app = APP._replace(resources=TYPICAL._replace(unified=explicit))
    chosen = config(CPUQoSSettings(enabled=True))
    decision = decide(BE, app, NODE, chosen)
    assert "cpu.idle" not in decision.files
    assert decision.cleared == ()


def test_precedence_of_levels() -> None:
    """Container annotation, pod annotation, Volcano's, then what is configured."""
    ours, own = "qos-level.cgroup2.nri.io", "qos-level.cgroup2.nri.io/container.app"
    annotations = {ours: "LS", own: "BE", VOLCANO: "LC"}
    found = []
    for gone in (own, ours, VOLCANO, ""):
        pod = POD._replace(annotations=dict(annotations))
        decision = cpu(pod, LEVELS, level=QoSLevel.BE)
        found.append({write.value for write in decision.writes})
        annotations.pop(gone, None)
    assert found == [{"-1"}, {"1"}, {"2"}, {"-1"}]


@pytest.mark.parametrize(
    "value", ["", "be", "BE ", "XX", "BE\n", "B" * 300, "__class__"]
)
def test_an_unknown_level_is_ignored(value: str) -> None:
    """It is refused with a reason, and the container has no level."""
    for pod in (annotated(qos_level=value), POD._replace(annotations={VOLCANO: value})):
        decision = cpu(pod)
        assert decision.files["cpu.weight"] == "59"
        assert sum(refusals(decision).values()) == 1


@pytest.mark.parametrize(
    ("level", "value"), [("LC", "0"), ("HLS", "0"), ("LS", "0"), ("BE", "-1")]
)
def test_the_kernels_own_memory_level(level: str, value: str) -> None:
    """-1 or 0, in the container and the pod."""
    decision = memory(annotated(qos_level=level), LEVELS)
    assert decision.files["memory.qos_level"] == value
    assert [(write.level, write.value) for write in decision.writes] == [
        (Level.POD, value)
    ]
    assert "memory.high" not in decision.files


@pytest.mark.parametrize(
    ("level", "files"),
    [
        ("LC", {"memory.low": str(GIB // 4)}),
        ("HLS", {"memory.low": str(GIB // 4)}),
        ("LS", {}),
        ("BE", {"memory.high": str(GIB * 8 // 10 // 4096 * 4096)}),
    ],
)
def test_what_is_nearest_for_memory(level: str, files: dict[str, str]) -> None:
    """BE is throttled early, LC and HLS keep their request; the rule says so."""
    decision = memory(annotated(qos_level=level))
    found = {k: v for k, v in decision.files.items() if k.startswith("memory.")}
    assert found == {"memory.max": str(GIB), **files}
    assert all("nearest" in decision.why(file).rule.text for file in files)
    without = memory(annotated(qos_level=level), equivalent=False)
    assert not {"memory.low", "memory.high"} & set(without.files)


def test_no_throttling_of_be_on_an_old_kernel() -> None:
    """The same rule as for memoryQoS."""
    decision = memory(BE, NODE._replace(kernel=(5, 4)))
    assert "memory.high" not in decision.files


def test_memory_qos_comes_before_the_level() -> None:
    """Its value stays, and the note names it."""
    chosen = config(
        MemoryQoSSettings(enabled=True),
        MemoryQoSLevelSettings(enabled=True),
    )
    app = APP._replace(memory_request_bytes=0)
    decision = decide(BE, app, NODE, chosen)
    assert decision.why("memory.high").handler == "memoryQoS"
    assert dict(decision.left)["memory.high"] == "memoryQoSLevel: set by memoryQoS"


KEY = "volcano.sh/preemptable"


@pytest.mark.parametrize(
    ("labels", "annotations", "idle"),
    [
        ({}, {KEY: "true"}, True),
        ({KEY: "true"}, {}, True),
        ({KEY: "true"}, {KEY: "false"}, False),
        ({}, {KEY: "perhaps"}, False),
        ({}, {}, False),
        ({}, {KEY: "true", VOLCANO: "LS"}, False),
        ({}, {KEY: "false", VOLCANO: "BE"}, True),
    ],
)
def test_a_preemptable_pod_has_the_level_that_the_setting_names(
    labels: dict[str, str], annotations: dict[str, str], idle: bool
) -> None:
    """A stated level wins over it; without the setting, the key says nothing."""
    pod = POD._replace(labels=labels, annotations=annotations)
    decision = cpu(pod, preemptable=QoSLevel.BE)
    assert decision.files.get("cpu.idle") == ("1" if idle else None)
    if idle and VOLCANO not in annotations:
        assert decision.why("cpu.idle").source == f"{KEY} of the pod"
        assert "cpu.idle" not in cpu(pod).files


def test_equal_pods_that_differ_in_being_preemptable_are_decided_apart() -> None:
    """The decision cache has the key, as a label and as an annotation."""
    keys = deciding_keys(config(CPUQoSSettings(enabled=True)))
    assert KEY in keys.labels
    assert KEY in keys.annotations
