"""Values that nriplugin set and no handler asks for now, at an update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from engine.cases import APP, GIB, MIB, NODE, POD, TYPICAL, config

from nriplugin.convert import UNLIMITED, Resources
from nriplugin.engine.decide import decide_update
from nriplugin.engine.decision import Decision, HandlerFailed, Level, When
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.engine.handlers.cpu_qos import CPUQoSSettings, Equivalent
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.resources import ResourcesSettings
from nriplugin.engine.qos_level import QoSLevel
from nriplugin.engine.settings import DEFAULT_CONFIG

if TYPE_CHECKING:
    from nriplugin.convert.model import Amount
    from nriplugin.engine.model import Container, NodeFacts
    from nriplugin.engine.settings import EngineConfig

BURST = "cpu.max.burst"
READ_ONLY = NODE._replace(writable=False)
CRIO = NODE._replace(runtime="cri-o", runtime_version="1.35.2")
SYSTEMD_CRUN = NODE._replace(oci_runtime="crun", driver="systemd")

MEMORY = {"memory.high": "4096", "memory.low": "8192", "memory.min": "12288"}
NEUTRAL = {"memory.high": "max", "memory.low": "0", "memory.min": "0"}
RESIZE = Resources(
    shares=1024, quota_us=50_000, period_us=100_000, memory_limit_bytes=2 * GIB
)
RESIZED = {
    "cpu.weight": "100",
    "cpu.max": "50000 100000",
    "memory.max": str(2 * GIB),
}


def having(
    ours: dict[str, str], *, shown: bool = True, shares: int | None = 512
) -> Container:
    """Return a container that has files of ours; not every runtime shows them."""
    stored = TYPICAL._replace(unified=ours if shown else {}, shares=shares)
    return APP._replace(resources=stored, ours=ours)


def updated(
    container: Container,
    asked: Resources = RESIZE,
    facts: NodeFacts = NODE,
    chosen: EngineConfig = DEFAULT_CONFIG,
) -> Decision:
    return decide_update(POD, container, asked, facts, chosen)


def own_writes(decision: Decision) -> list[tuple[str, str, When]]:
    return [
        (write.file, write.value, write.when)
        for write in decision.writes
        if write.level is Level.CONTAINER
    ]


# Memory


@pytest.mark.parametrize("shown", [True, False])
def test_memory_is_neither_throttled_nor_protected_any_more(shown: bool) -> None:
    """A new memory limit ends the values that followed from the old one."""
    decision = updated(having(MEMORY, shown=shown))
    assert decision.files == {**RESIZED, **NEUTRAL}
    assert decision.why("memory.high").handler == "updates"
    assert decision.refused == []


def test_it_is_said_once() -> None:
    """A file that has its default value already is not sent again."""
    assert updated(having(NEUTRAL)).files == RESIZED


def test_a_runtime_that_still_sends_it_is_told_again() -> None:
    """The value that the runtime keeps counts, not the one in nriplugin's record."""
    app = having(MEMORY)._replace(ours=NEUTRAL)
    assert updated(app).files == {**RESIZED, **NEUTRAL}


def test_other_updates_leave_memory_alone() -> None:
    """An update without a memory limit does not show which values are still wanted."""
    assert updated(having(MEMORY), Resources(shares=1024)).files == {
        "cpu.weight": "100"
    }
    assert updated(having(MEMORY), Resources(cpus="0")).files == {}


def test_only_what_is_ours() -> None:
    """Values that kubelet set are not ended."""
    theirs = having(MEMORY)
    assert updated(theirs._replace(ours=None)).files == RESIZED
    assert updated(theirs._replace(ours={})).files == RESIZED
    asked = RESIZE._replace(unified={"memory.high": "4096"})
    assert "memory.high" not in updated(having(MEMORY), asked).files


def test_a_handler_that_has_nothing_to_say_leaves_nothing_behind() -> None:
    """Between the request and this limit there is no room for memory.high."""
    app = having({"memory.high": "4096"})._replace(memory_request_bytes=GIB)
    asked = Resources(memory_limit_bytes=GIB)
    chosen = config(MemoryQoSSettings(enabled=True))
    assert updated(app, asked, chosen=chosen).files == {
        "memory.max": str(GIB),
        "memory.high": "max",
        "memory.low": str(GIB),
    }


# Burst


def test_a_burst_above_the_new_quota_goes_first() -> None:
    """Else the kernel refuses the quota, and the resize fails for no reason."""
    decision = updated(having({BURST: "80000"}))
    assert decision.files == {**RESIZED, BURST: "0"}
    assert own_writes(decision) == [(BURST, "0", When.BEFORE)]
    pod = decision.writes[0]
    assert (pod.level, pod.value, pod.part) == (Level.POD, "0", True)


@pytest.mark.parametrize("quota", [90_000, UNLIMITED])
def test_a_burst_that_is_in_nobodys_way_is_sent_as_none(quota: Amount) -> None:
    """A burst below the new quota is ended too: a later quota may be lower."""
    asked = Resources(quota_us=quota, period_us=100_000)
    for chosen in (
        DEFAULT_CONFIG,
        # Without a quota, this one has nothing to say either.
        config(CPUBurstSettings(enabled=quota is UNLIMITED, percent=80)),
    ):
        decision = updated(having({BURST: "80000"}), asked, chosen=chosen)
        assert decision.files[BURST] == "0"
        assert own_writes(decision) == []
        assert decision.refused == []


def test_a_burst_in_the_way_is_said_where_nobody_can_lower_it() -> None:
    """Without the executor the update may fail, and a warning says so."""
    decision = updated(having({BURST: "80000"}), facts=READ_ONLY)
    assert decision.writes == []
    [warning] = decision.warnings
    assert "refuses the quota 50000 while cpu.max.burst is 80000" in warning


def test_without_a_new_quota_a_burst_stays() -> None:
    """Only an update with a quota shows whether the burst is still wanted."""
    assert BURST not in updated(having({BURST: "80000"}), Resources(shares=5)).files


BURSTING = config(CPUBurstSettings(enabled=True, percent=80))


def test_a_burst_that_only_we_know_of_counts() -> None:
    """A runtime that hides `unified` may keep a burst that only the record shows."""
    old = Resources(shares=512)
    app = APP._replace(resources=old, ours={BURST: "80000"})
    decision = updated(app, chosen=BURSTING)
    assert own_writes(decision) == [(BURST, "40000", When.BEFORE)]
    assert decision.files[BURST] == "40000"


def test_a_burst_that_was_raised_behind_the_runtimes_back_counts() -> None:
    """The runtime keeps a lower burst than nriplugin wrote after the last update."""
    stored = TYPICAL._replace(quota_us=400_000, unified={BURST: "50000"})
    app = APP._replace(resources=stored, ours={BURST: "320000"})
    asked = Resources(quota_us=200_000, period_us=100_000)
    decision = updated(app, asked, chosen=BURSTING)
    assert own_writes(decision) == [(BURST, "160000", When.BEFORE)]


# Idle

IDLE = {"cpu.idle": "1"}


@pytest.mark.parametrize("shown", [True, False])
def test_a_container_is_awake_before_it_gets_a_weight(shown: bool) -> None:
    """The kernel takes none beside idle; and the runtime is not to bring idle back."""
    decision = updated(having(IDLE, shown=shown, shares=None))
    assert own_writes(decision) == [("cpu.idle", "0", When.BEFORE)]
    assert decision.files == {**RESIZED, "cpu.idle": "0"}
    assert decision.cleared == ()


def test_a_runtime_that_was_never_told_of_idle_is_not_told_now() -> None:
    """crun with systemd fails on it beside shares."""
    decision = updated(having(IDLE, shown=False), facts=SYSTEMD_CRUN)
    assert own_writes(decision) == [("cpu.idle", "0", When.BEFORE)]
    assert decision.files == RESIZED


def test_where_nobody_can_wake_it_idle_ends_without_a_weight() -> None:
    """The next update brings the weight, as the container is not idle by then."""
    decision = updated(having(IDLE, shares=None), facts=READ_ONLY)
    assert decision.writes == []
    assert decision.cleared == ("cpu.shares",)
    awake = {f: v for f, v in RESIZED.items() if f != "cpu.weight"}
    assert decision.files == {**awake, "cpu.idle": "0"}
    [warning] = decision.warnings
    assert warning.startswith("cpu.weight: the container is idle")
    again = updated(having({"cpu.idle": "0"}, shares=None), facts=READ_ONLY)
    assert (again.files, again.cleared) == (RESIZED, ())


def test_a_runtime_that_drops_unified_gets_shares_when_the_container_is_awake() -> None:
    """It makes a weight of shares, and nriplugin writes its own afterwards."""
    decision = updated(having(IDLE, shares=None), facts=CRIO)
    assert decision.files == {}
    assert decision.cleared == ()
    assert own_writes(decision)[0] == ("cpu.idle", "0", When.BEFORE)
    assert ("cpu.weight", "100", When.AFTER) in own_writes(decision)
    decision = updated(having(IDLE, shares=None), facts=CRIO._replace(writable=False))
    assert (decision.files, decision.cleared) == ({}, ("cpu.shares",))


def test_an_update_without_a_weight_leaves_it_idle() -> None:
    """There is none that it could go back to: its shares were never the runtime's."""
    app = having(IDLE, shares=None)
    decision = updated(app, Resources(memory_limit_bytes=MIB))
    assert decision.files == {"memory.max": str(MIB)}
    assert decision.writes == []


def test_shares_that_the_runtime_has_are_written_at_every_update() -> None:
    """So the container must not be idle, although the update has no shares."""
    decision = updated(having(IDLE, shown=False), Resources(memory_limit_bytes=MIB))
    assert own_writes(decision) == [("cpu.idle", "0", When.BEFORE)]


@pytest.mark.parametrize("facts", [NODE, READ_ONLY])
def test_the_least_weight_may_take_the_place_of_idle(facts: NodeFacts) -> None:
    """A new configuration replaces idle by the least weight, never beside it."""
    level = CPUQoSSettings(
        enabled=True, level=QoSLevel.BE, equivalent=Equivalent.WEIGHT
    )
    decision = updated(having(IDLE, shares=None), facts=facts, chosen=config(level))
    assert decision.files["cpu.idle"] == "0"
    if facts.writable:
        assert decision.files["cpu.weight"] == "1"
    else:
        assert "cpu.weight" not in decision.files
    assert decision.refused == []


def test_an_idle_that_is_still_wanted_stays() -> None:
    """A value that a handler still asks for is not ended."""
    level = CPUQoSSettings(enabled=True, level=QoSLevel.BE)
    for facts in (NODE, NODE._replace(driver="systemd"), READ_ONLY):
        app = having(IDLE, shares=None)
        decision = updated(app, facts=facts, chosen=config(level))
        assert decision.expected()["cpu.idle"] == "1"
        assert bool(decision.cleared) is (facts is READ_ONLY)


# The conversion

OFF = config(
    ResourcesSettings(enabled=False),
    CPUBurstSettings(enabled=True),
)
CORE = {"cpu.weight": "59", "cpu.max": "100000 100000", "memory.max": str(GIB)}


@pytest.mark.parametrize("shown", [True, False])
def test_old_numbers_do_not_come_back(shown: bool) -> None:
    """Else the runtime would write the old values after the numbers of the request."""
    decision = updated(having(CORE, shown=shown), chosen=OFF)
    assert decision.files == RESIZED
    assert "although it is off" in decision.why("cpu.max").rule.text
    some = {"memory.max": CORE["memory.max"]}
    files = updated(having(some, shown=shown), chosen=OFF).files
    assert files == {"memory.max": str(2 * GIB)}


def test_they_follow_as_the_conversion_would() -> None:
    """Under systemd the quota is rounded to whole percents of a CPU."""
    facts = NODE._replace(driver="systemd")
    asked = Resources(quota_us=12_345)
    files = updated(having(CORE), asked, facts, OFF).files
    assert files == {"cpu.max": "13000 100000"}


@pytest.mark.parametrize("chosen", [OFF, DEFAULT_CONFIG])
def test_numbers_that_cannot_be_converted_fail_the_update_that_we_would_undo(
    chosen: EngineConfig,
) -> None:
    """The runtime would write our old value over them, and kubelet believe it done."""
    with pytest.raises(HandlerFailed, match=r"old cpu\.max"):
        updated(having(CORE), Resources(quota_us=5), chosen=chosen)


@pytest.mark.parametrize("enabled", [True, False])
def test_such_an_update_goes_on_if_the_user_wants_it_so(enabled: bool) -> None:
    """It also goes on if the runtime keeps no value of nriplugin for its files."""
    settings = ResourcesSettings(enabled=enabled, fail_lost_update=False)
    chosen = config(settings)
    decision = updated(having(CORE), Resources(quota_us=5), chosen=chosen)
    assert decision.files == {}
    strict = config(ResourcesSettings(enabled=enabled))
    decision = updated(having({}), Resources(quota_us=5), chosen=strict)
    assert decision.files == {}
