"""Decisions about updates: what is asked for, what follows, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from engine.cases import (
    APP,
    EVERYTHING_ON,
    GIB,
    MIB,
    NODE,
    POD,
    SUFFIX,
    TYPICAL,
    config,
)

from nriplugin.convert import UNLIMITED, Resources
from nriplugin.engine.decide import decide, decide_update
from nriplugin.engine.decision import Decision, HandlerFailed, Level, When
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.engine.handlers.cpu_qos import CPUQoSSettings
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.handlers.resources import ResourcesSettings
from nriplugin.engine.handlers.unified_annotations import UnifiedAnnotationsSettings
from nriplugin.engine.idle import needs_cleared_shares
from nriplugin.engine.model import CORE_FILES, Container, NodeFacts, Pod, Use
from nriplugin.engine.qos_level import QoSLevel
from nriplugin.engine.settings import DEFAULT_CONFIG, EngineConfig

BURST = "cpu.max.burst"
READ_ONLY = NODE._replace(writable=False)
CRIO = NODE._replace(runtime="cri-o", runtime_version="1.35.2")


def updated(
    asked: Resources,
    container: Container = APP,
    facts: NodeFacts = NODE,
    chosen: EngineConfig = DEFAULT_CONFIG,
    pod: Pod = POD,
    **use: Any,
) -> Decision:
    return decide_update(
        pod, container, asked, facts, chosen, Use(**use) if use else None
    )


@pytest.mark.parametrize(
    ("asked", "files"),
    [
        (Resources(), {}),
        (Resources(cpus="0-1"), {}),
        (Resources(period_us=100_000), {}),  # alone, it must not lift a quota
        (Resources(shares=1024), {"cpu.weight": "100"}),
        (Resources(quota_us=5000), {"cpu.max": "5000 100000"}),
        (Resources(memory_limit_bytes=MIB), {"memory.max": str(MIB)}),
    ],
)
def test_only_what_is_asked_for(asked: Resources, files: dict[str, str]) -> None:
    """Zero is "not given", so there is no file for it."""
    assert updated(asked).files == files


def test_explicit_values_of_the_request_win() -> None:
    """cgroup v2 values that kubelet sends in an update are not overwritten."""
    asked = TYPICAL._replace(unified={"memory.max": "max"})
    assert set(updated(asked).files) == CORE_FILES - {"memory.max"}


def test_stored_values_count_if_they_are_not_ours() -> None:
    """A runtime keeps and shows earlier values; those of others count as explicit."""
    stored = TYPICAL._replace(unified={"cpu.weight": "7", "cpu.max": "1000 1000"})
    app = APP._replace(resources=stored)
    assert set(updated(TYPICAL, app).files) == CORE_FILES
    app = app._replace(ours={"cpu.max": "1000 1000"})
    assert set(updated(TYPICAL, app).files) == CORE_FILES - {"cpu.weight"}


def test_a_resize_derives_anew() -> None:
    """memory.high, memory.low and burst follow the new limits."""
    app = APP._replace(memory_request_bytes=256 * MIB)
    asked = Resources(quota_us=60_000, period_us=100_000, memory_limit_bytes=2 * GIB)
    files = updated(asked, app, chosen=EngineConfig(base=EVERYTHING_ON)).files
    factor_part = (2 * GIB - 256 * MIB) * 9 // 10
    assert files == {
        "cpu.max": "60000 100000",
        BURST: "30000",
        "memory.max": str(2 * GIB),
        "memory.high": str((256 * MIB + factor_part) // 4096 * 4096),
        "memory.low": str(256 * MIB),
    }


def test_a_cpuset_alone_derives_nothing() -> None:
    """kubelet's CPU manager sends these all the time."""
    app = APP._replace(resources=TYPICAL._replace(unified={BURST: "50000"}))
    app = app._replace(ours={BURST: "50000"})
    chosen = EngineConfig(base=EVERYTHING_ON)
    decision = updated(Resources(cpus="0"), app, chosen=chosen)
    assert (decision.files, decision.writes, decision.cleared) == ({}, [], ())


@pytest.mark.parametrize("stored", [{}, {BURST: "10000"}])
def test_a_burst_that_was_only_for_a_while_is_replaced(stored: dict[str, str]) -> None:
    """Runtimes write what they were once sent again at every update."""
    app = APP._replace(resources=TYPICAL._replace(unified=stored), ours=stored)
    chosen = EngineConfig(base=EVERYTHING_ON)
    decision = updated(Resources(cpus="0"), app, chosen=chosen)
    assert decision.files == {BURST: "50000"}
    assert not decision.writes


def test_raw_annotations_keep_their_files() -> None:
    """Set at creation, they are not overwritten by what a resize derives."""
    pod = POD._replace(annotations={f"memory.high{SUFFIX}": "8192"})
    app = APP._replace(memory_request_bytes=0)
    asked = Resources(memory_limit_bytes=2 * GIB)
    decision = updated(asked, app, pod=pod, chosen=EngineConfig(base=EVERYTHING_ON))
    assert "memory.high" not in decision.files
    assert decision.files["memory.max"] == str(2 * GIB)


@pytest.mark.parametrize(
    ("old_limit", "old_swap", "value"),
    [
        (GIB, 2 * GIB, str(GIB)),
        (GIB, UNLIMITED, "max"),
        (GIB, GIB, None),  # what the runtime does anyway
        (GIB, None, None),
        (UNLIMITED, UNLIMITED, "max"),
    ],
)
def test_swap_is_kept(old_limit: Any, old_swap: Any, value: str | None) -> None:
    """Runtimes answer a new memory limit with memory and swap together at the limit."""
    old = Resources(memory_limit_bytes=old_limit, memory_swap_bytes=old_swap)
    app = APP._replace(resources=old)
    files = updated(Resources(memory_limit_bytes=MIB), app).files
    assert files.get("memory.swap.max") == value
    assert "memory.swap.max" not in updated(Resources(shares=5), app).files


@pytest.mark.parametrize("answer", ["files", "cleared"])
def test_swap_is_kept_whoever_answers(answer: str) -> None:
    """Any answer to an update makes the runtime set swap, also without memory.max."""
    burst = CPUBurstSettings(enabled=True, percent=50)
    idle = CPUQoSSettings(enabled=True, level=QoSLevel.BE)
    chosen = config(
        ResourcesSettings(enabled=False),
        burst if answer == "files" else idle,
    )
    old = Resources(memory_limit_bytes=GIB, memory_swap_bytes=2 * GIB)
    asked = Resources(shares=5, quota_us=50_000, memory_limit_bytes=MIB)
    app = APP._replace(resources=old)
    decision = updated(asked, app, READ_ONLY, chosen)
    assert bool(decision.cleared) is (answer == "cleared")
    assert decision.files["memory.swap.max"] == str(GIB)
    asked = asked._replace(shares=None, quota_us=None)
    assert updated(asked, app, READ_ONLY, chosen).files == {}


@pytest.mark.parametrize("where", ["stored", "asked"])
def test_explicit_swap_is_left_alone(where: str) -> None:
    """The runtime writes an explicit memory.swap.max after its own."""
    unified = {"memory.swap.max": "4096"}
    old = Resources(memory_limit_bytes=GIB, memory_swap_bytes=2 * GIB)
    asked = Resources(memory_limit_bytes=MIB)
    if where == "stored":
        old = old._replace(unified=unified)
    else:
        asked = asked._replace(unified=unified)
    files = updated(asked, APP._replace(resources=old)).files
    assert "memory.swap.max" not in files


def test_a_limit_below_use_is_said() -> None:
    """The limit is kubelet's decision and is set; a warning names it."""
    asked = Resources(memory_limit_bytes=MIB)
    decision = updated(asked, memory_bytes=2 * MIB)
    assert decision.files == {"memory.max": str(MIB)}
    [warning] = decision.warnings
    assert f"memory.max {MIB}: {2 * MIB} bytes are in use" in warning
    assert updated(asked, memory_bytes=MIB).warnings == []
    assert updated(asked).warnings == []


THROTTLING = {
    "memoryQoS": config(MemoryQoSSettings(enabled=True)),
    "memoryQoSLevel": config(MemoryQoSLevelSettings(enabled=True, level=QoSLevel.BE)),
}


@pytest.mark.parametrize("handler", THROTTLING)
def test_throttling_below_use_is_said(handler: str) -> None:
    """A warning says that the container will be slowed down immediately."""
    app = APP._replace(memory_request_bytes=0)
    asked = Resources(memory_limit_bytes=GIB)
    chosen = THROTTLING[handler]
    decision = updated(asked, app, chosen=chosen, memory_bytes=GIB - MIB)
    assert [w.partition(" ")[0] for w in decision.warnings] == ["memory.high"]
    assert updated(asked, app, chosen=chosen, memory_bytes=GIB // 2).warnings == []
    assert updated(asked, app, chosen=chosen).warnings == []


def test_throttling_below_use_by_annotation_is_said() -> None:
    """It concerns containers that exist; `max` is never below the use."""
    for value, count in (("4096", 1), ("8192", 0), ("max", 0)):
        pod = POD._replace(annotations={f"memory.high{SUFFIX}": value})
        chosen = EngineConfig(base=EVERYTHING_ON.replace(MemoryQoSSettings()))
        decision = decide(pod, APP, NODE, chosen, Use(memory_bytes=8192))
        assert decision.files["memory.high"] == value
        assert len(decision.warnings) == count


def bursting(
    old_quota: int,
    new_quota: int,
    facts: NodeFacts = NODE,
    stored: dict[str, str] | None = None,
) -> Decision:
    old = TYPICAL._replace(quota_us=old_quota, unified=stored or {})
    chosen = config(CPUBurstSettings(enabled=True, percent=80))
    asked = Resources(quota_us=new_quota, period_us=100_000)
    return updated(asked, APP._replace(resources=old), facts, chosen)


def own_writes(decision: Decision) -> list[tuple[str, str, When]]:
    return [
        (write.file, write.value, write.when)
        for write in decision.writes
        if write.level is Level.CONTAINER
    ]


def test_a_small_change_of_quota_takes_one_answer() -> None:
    """Both orders of writing are valid."""
    for new in (90_000, 110_000):
        decision = bursting(100_000, new)
        assert decision.files[BURST] == str(new * 8 // 10)
        assert own_writes(decision) == []


def test_lowering_below_the_burst_lowers_the_burst_first() -> None:
    """The kernel refuses the new quota otherwise, and with it the resize."""
    decision = bursting(100_000, 50_000)
    assert own_writes(decision) == [(BURST, "40000", When.BEFORE)]
    assert decision.files[BURST] == "40000"


def test_raising_above_the_old_quota_raises_the_burst_last() -> None:
    """Until then, the old burst is what the answer says."""
    decision = bursting(100_000, 200_000)
    assert own_writes(decision) == [(BURST, "160000", When.AFTER)]
    assert decision.files[BURST] == "80000"


def test_without_an_executor_the_danger_is_said() -> None:
    """The update may fail by kubelet's own numbers, and a warning says so."""
    facts = NODE._replace(writable=False)
    decision = bursting(100_000, 50_000, facts)
    assert decision.writes == []
    [warning] = decision.warnings
    assert "refuses the quota 50000 while cpu.max.burst is 80000" in warning


def test_the_stored_burst_counts() -> None:
    """The burst of the container may come from an earlier configuration."""
    decision = bursting(100_000, 90_000, stored={BURST: "95000"})
    assert own_writes(decision) == [(BURST, "72000", When.BEFORE)]


def test_the_pods_burst_follows() -> None:
    """The pod's burst is written before the container's, as at creation."""
    first = bursting(100_000, 50_000).writes[0]
    assert (first.level, first.when) == (Level.POD, When.BEFORE)


IDLE = config(
    CPUQoSSettings(enabled=True, level=QoSLevel.BE),
    UnifiedAnnotationsSettings(
        enabled=True, allowed=frozenset({"cpu.idle", "cpu.weight"})
    ),
)
AWAKE = IDLE._replace(base=IDLE.base.replace(CPUQoSSettings()))
CLEARED = APP._replace(resources=TYPICAL._replace(shares=None))
BY_ANNOTATION = POD._replace(annotations={f"cpu.idle{SUFFIX}": "1"})
WHO = {"level": (POD, IDLE), "annotation": (BY_ANNOTATION, AWAKE)}


@pytest.fixture(params=WHO)
def idle_by(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Who wants a container to be idle: a level, or an annotation that says so."""
    pod, chosen = WHO[request.param]
    return {"pod": pod, "chosen": chosen}


AWAKE_MEANWHILE = [
    ("cpu.idle", "0", When.BEFORE),
    ("cpu.idle", "1", When.AFTER),
]


def test_the_shares_of_an_idle_container_reach_the_runtime(
    idle_by: dict[str, Any],
) -> None:
    """kubelet reports the shares that the runtime keeps as the CPU request."""
    decision = updated(Resources(shares=1024), CLEARED, **idle_by)
    assert (decision.files, decision.cleared) == ({}, ())
    assert own_writes(decision) == AWAKE_MEANWHILE
    assert decision.expected() == {"cpu.idle": "1"}


def test_without_an_executor_shares_are_cleared_again(idle_by: dict[str, Any]) -> None:
    """The runtime would fail on writing a weight to an idle container."""
    decision = updated(Resources(shares=1024), CLEARED, READ_ONLY, **idle_by)
    assert decision.files == {"cpu.idle": "1"}
    assert decision.cleared == ("cpu.shares",)
    assert decision.writes == []


@pytest.mark.parametrize(
    ("stored", "files"),
    [
        ({}, {"cpu.idle": "0"}),  # of a runtime that does not show what it keeps
        ({"cpu.idle": "1"}, {"cpu.idle": "0"}),
        ({"cpu.idle": "0"}, {}),
        ({"pids.max": "7"}, {}),
    ],
)
@pytest.mark.parametrize("shares", [None, 512])
def test_under_systemd_a_runtime_does_not_keep_idle_beside_shares(
    stored: dict[str, str],
    files: dict[str, str],
    shares: int | None,
    idle_by: dict[str, Any],
) -> None:
    """runc would make the unit idle first, and then fail on writing the weight."""
    resources = TYPICAL._replace(shares=shares, unified=stored)
    ours = {"cpu.idle": "1"}
    app = APP._replace(resources=resources, ours=ours, decided=ours)
    facts = NODE._replace(driver="systemd")
    decision = updated(Resources(shares=1024), app, facts, **idle_by)
    assert (decision.files, decision.cleared) == (files, ())
    assert own_writes(decision) == AWAKE_MEANWHILE
    assert decision.expected() == {"cpu.idle": "1"}


@pytest.mark.parametrize(
    ("unwritten", "shares", "again"),
    [
        ({"cpu.idle"}, None, True),
        ({"cpu.idle", BURST}, None, True),
        ({BURST}, None, False),
        (set(), None, False),
        ({"cpu.idle"}, 512, False),  # which no answer could take from the runtime
    ],
)
def test_when_idle_could_not_be_ended_shares_have_to_be_cleared(
    unwritten: set[str], shares: int | None, again: bool
) -> None:
    """Only for a container that stays idle, and only if that can help."""
    app = APP._replace(resources=TYPICAL._replace(shares=shares))
    asked = Resources(shares=1024)
    assert needs_cleared_shares(updated(asked, app, chosen=IDLE), app, unwritten) is (
        again
    )
    app = app._replace(ours={"cpu.idle": "1"})
    decision = updated(asked, app)  # which ends idle
    assert own_writes(decision) == AWAKE_MEANWHILE[:1]
    assert not needs_cleared_shares(decision, app, unwritten)


def test_an_update_without_shares_leaves_an_idle_container_alone(
    idle_by: dict[str, Any],
) -> None:
    """The runtime writes no weight then, so nothing has to be sent."""
    decision = updated(Resources(memory_limit_bytes=MIB), CLEARED, **idle_by)
    assert set(decision.files) == {"memory.max"}
    assert decision.writes == []


@pytest.mark.parametrize(
    ("container", "facts"),
    [
        (APP, NODE),  # made without us: the runtime still has its shares
        (APP, NODE._replace(oci_runtime="crun", driver="systemd")),
    ],
)
def test_shares_that_the_runtime_kept(
    container: Container, facts: NodeFacts, idle_by: dict[str, Any]
) -> None:
    """The container is not idle while the runtime writes the weight of kept shares."""
    decision = updated(Resources(shares=1024), container, facts, **idle_by)
    assert own_writes(decision) == AWAKE_MEANWHILE
    assert not {"cpu.idle", "cpu.weight"} & set(decision.files)


def test_two_who_want_the_same_container_idle_do_it_once() -> None:
    """A second pair of writes would end idle for a moment for no reason."""
    for app, facts, writes in (
        (CLEARED, READ_ONLY, []),
        (CLEARED, NODE, AWAKE_MEANWHILE),
        (CLEARED, NODE._replace(driver="systemd"), AWAKE_MEANWHILE),
        (APP, NODE._replace(oci_runtime="kata"), AWAKE_MEANWHILE),
    ):
        decision = updated(Resources(shares=5), app, facts, IDLE, BY_ANNOTATION)
        assert own_writes(decision) == writes
        assert "cpu.weight" not in decision.files


def test_a_node_without_idle_gives_the_weight_of_the_shares() -> None:
    """No container is idle there, so an annotation does not stop the weight."""
    facts = NODE._replace(files=NODE.files - {"cpu.idle"})
    decision = updated(Resources(shares=1024), APP, facts, AWAKE, BY_ANNOTATION)
    assert decision.files == {"cpu.weight": "100"}
    assert decision.writes == []


def test_crio_before_1_36_drops_unified() -> None:
    """So the executor writes the files after the update."""
    decision = updated(Resources(shares=1024), facts=CRIO)
    assert decision.files == {}
    assert own_writes(decision) == [("cpu.weight", "100", When.AFTER)]


@pytest.mark.parametrize(
    ("runtime", "version", "dropped"),
    [
        ("cri-o", "1.30.0", True),
        ("cri-o", "v1.35.9", True),
        ("cri-o", "1.36.0", False),
        ("cri-o", "1.36.0-dev", False),
        ("cri-o", "2.0.0", False),
        ("cri-o", "", True),
        ("containerd", "1.7.0", False),
        ("containerd", "v2.1.0", False),
        ("", "", False),
    ],
)
def test_runtimes_by_name_and_version(
    runtime: str, version: str, dropped: bool
) -> None:
    """Only CRI-O before 1.36 loses `unified` in the answer to an update."""
    facts = NODE._replace(runtime=runtime, runtime_version=version)
    decision = updated(Resources(shares=1024), facts=facts)
    assert (decision.files == {}) is dropped
    created = decide(POD, APP, facts, DEFAULT_CONFIG)
    assert set(created.files) == CORE_FILES


def test_what_is_dropped_without_an_executor_is_said() -> None:
    """Such an update fails, unless nriplugin never sent the file before."""
    read_only = CRIO._replace(writable=False)
    decision = updated(Resources(shares=1024), facts=read_only)
    assert (decision.files, decision.writes) == ({}, [])
    assert "no update could change it" in dict(decision.left)["cpu.weight"]
    stored = {"cpu.weight": "59", "cpu.max": "100000 100000"}
    app = APP._replace(resources=TYPICAL._replace(unified=stored), ours=stored)
    with pytest.raises(HandlerFailed, match=r"cri-o 1\.35\.2 drops unified"):
        decide_update(POD, app, Resources(shares=1024), read_only, DEFAULT_CONFIG)


def test_dropped_files_are_written_once() -> None:
    """A file that a handler writes at its own time is not written a second time."""
    decision = bursting(100_000, 50_000, CRIO)
    assert [file for file, _, _ in own_writes(decision)].count(BURST) == 1


def test_switched_off_it_answers_nothing() -> None:
    """Not even memory.swap.max is sent then."""
    off = config(ResourcesSettings(enabled=False))
    old = Resources(memory_limit_bytes=GIB, memory_swap_bytes=2 * GIB)
    asked = Resources(shares=5, memory_limit_bytes=MIB)
    assert updated(asked, APP._replace(resources=old), chosen=off).files == {}
