"""cpu.max.burst at create time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from engine.cases import APP, FILES, NODE, POD, TYPICAL, annotated, config, refusals

from nriplugin.convert import UNLIMITED, Resources
from nriplugin.convert.validate import MAX_QUOTA_US
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import Decision, Level, When
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings

if TYPE_CHECKING:
    from nriplugin.engine.model import NodeFacts, Pod

BURST = "cpu.max.burst"
SWITCH, TIME = "volcano.sh/enable-quota-burst", "volcano.sh/quota-burst-time"


def decided(
    pod: Pod = POD,
    given: Resources = TYPICAL,
    facts: NodeFacts = NODE,
    **settings: Any,
) -> Decision:
    chosen = config(CPUBurstSettings(enabled=True, **settings))
    return decide(pod, APP._replace(resources=given), facts, chosen)


def volcano(**annotations: str) -> Pod:
    keys = {"switch": SWITCH, "time": TIME}
    return POD._replace(annotations={keys[k]: v for k, v in annotations.items()})


@pytest.mark.parametrize(
    ("settings", "burst"),
    [
        ({"percent": 50}, "50000"),
        ({"percent": 100}, "100000"),
        ({"percent": 1}, "1000"),
        ({"microseconds": 30_000}, "30000"),
        ({"microseconds": 1_000_000}, "100000"),  # clamped to the quota
    ],
)
def test_a_configured_burst(settings: dict[str, Any], burst: str) -> None:
    """For every container with a quota, and never above it."""
    assert decided(**settings).files[BURST] == burst


@pytest.mark.parametrize(
    ("pod", "burst"),
    [
        (volcano(switch="true"), "100000"),
        (volcano(switch="true", time="20000"), "20000"),
        (volcano(switch="true", time="900000"), "100000"),
        (volcano(switch="true", time="0"), "100000"),
        (volcano(switch="true", time="-5"), "100000"),
        (volcano(switch="true", time="soon"), "100000"),
        (volcano(switch="false", time="20000"), None),
        (volcano(time="20000"), None),
        (volcano(switch="yes"), None),
        (annotated(cpu_burst="30%"), "30000"),
        (annotated(cpu_burst="12345"), "12345"),
        (annotated(cpu_burst="off"), None),
    ],
)
def test_annotations(pod: Pod, burst: str | None) -> None:
    """Volcano's switch without a valid time stands for the whole quota."""
    assert decided(pod).files.get(BURST) == burst


def test_ours_beat_volcanos_and_both_the_file() -> None:
    """The most specific source wins: container, pod, Volcano, file."""
    both = {
        "cpu-burst.cgroup2.nri.io": "10%",
        "cpu-burst.cgroup2.nri.io/container.app": "20%",
        SWITCH: "true",
    }
    steps = ["20000", "10000", "100000", "50000"]
    order = ["cpu-burst.cgroup2.nri.io/container.app", "cpu-burst.cgroup2.nri.io"]
    for expected, gone in zip(steps, [*order, SWITCH, ""], strict=True):
        decision = decided(POD._replace(annotations=dict(both)), percent=50)
        assert decision.files[BURST] == expected
        both.pop(gone, None)


@pytest.mark.parametrize("switch", ["off", "false"])
def test_a_pod_can_opt_out(switch: str) -> None:
    """An annotation switches the handler off for its pod alone."""
    pod = annotated(cpu_burst="off") if switch == "off" else volcano(switch="false")
    assert BURST not in decided(pod, percent=50).files


@pytest.mark.parametrize(
    "given",
    [
        TYPICAL._replace(quota_us=None),
        TYPICAL._replace(quota_us=UNLIMITED),
        TYPICAL._replace(unified={"cpu.max": "max 100000"}),
        TYPICAL._replace(unified={"cpu.max": "nonsense"}),
    ],
)
def test_without_a_quota_there_is_no_burst(given: Resources) -> None:
    """A burst stored while unlimited would block every later quota."""
    decision = decided(given=given, percent=50)
    assert BURST not in decision.files
    assert "no quota" in dict(decision.left)[BURST]


@pytest.mark.parametrize("quota", [1000, 100_000, MAX_QUOTA_US // 2, MAX_QUOTA_US - 5])
def test_the_kernels_bounds(quota: int) -> None:
    """At most the quota, and within 44 bits together with it."""
    given = TYPICAL._replace(quota_us=quota)
    burst = int(decided(given=given, percent=100).files[BURST])
    assert burst <= quota
    assert burst + quota <= MAX_QUOTA_US


def test_koordlets_thousand_percent_is_refused() -> None:
    """Upstream kernels answer EINVAL to a burst above the quota."""
    decision = decided(annotated(cpu_burst="1000%"), percent=50)
    assert decision.files[BURST] == "50000"
    assert refusals(decision) == {("cpuBurst", "annotation"): 1}


@pytest.mark.parametrize(
    "value", ["", "0", "0%", "101%", "-1", "1.5", "max", "9" * 99, "5\n", "5%%", "５"]
)
def test_a_hostile_burst_is_ignored(value: str) -> None:
    """It is refused with a reason, and the next source counts."""
    decision = decided(annotated(cpu_burst=value))
    assert BURST not in decision.files
    assert sum(refusals(decision).values()) == 1


def test_volcanos_time_may_be_hostile_too() -> None:
    """Volcano's annotations are checked like nriplugin's."""
    for time in ("1" * 300, "5\n5", "٣"):
        decision = decided(volcano(switch="true", time=time))
        assert decision.files[BURST] == "100000"
        assert len(decision.refused) == 1


def test_the_order_of_writing_does_not_matter() -> None:
    """The burst is at most the smaller of the quota and that in cpu.max."""
    for explicit, burst in (("40000 100000", "40000"), ("300000 100000", "100000")):
        given = TYPICAL._replace(unified={"cpu.max": explicit})
        assert decided(given=given, percent=100).files[BURST] == burst


def test_the_pods_burst_comes_first() -> None:
    """The pod gets the sum over its containers before the container exists."""
    [write] = decided(percent=50).writes
    assert (write.file, write.value, write.part) == (BURST, "50000", True)
    assert (write.level, write.when) == (Level.POD, When.BEFORE)


def test_an_explicit_burst_wins() -> None:
    """The pod's burst is not written then either."""
    given = TYPICAL._replace(unified={BURST: "1"})
    decision = decided(given=given, percent=50)
    assert BURST not in decision.files
    assert decision.writes == []


def test_an_old_kernel_has_no_burst() -> None:
    """Before 5.14 there is no such file."""
    decision = decided(facts=NODE._replace(files=FILES - {BURST}), percent=50)
    assert BURST not in decision.files
    assert decision.writes == []


def test_switched_off_is_off() -> None:
    """Annotations count only where the handler is on."""
    pod = volcano(switch="true")
    assert BURST not in decide(pod, APP, NODE, config()).files
