"""Values that other agents of nodes would set (tests/data/vectors.json)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.cases import APP, NODE, POD, annotated, config
from support.vectors import Exceptions, Vector, each

from nriplugin.convert import Resources
from nriplugin.engine.decide import decide
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.engine.handlers.memory_qos_level import MemoryQoSLevelSettings
from nriplugin.engine.handlers.quota_burst import (
    QuotaBurstSettings,
    QuotaBurstState,
    quota_to_hold,
)
from nriplugin.engine.policies import ContainerSample, NodeSample
from nriplugin.engine.qos_level import QoSLevel
from nriplugin.kube.kubelet import milli_cpu_to_quota

if TYPE_CHECKING:
    from nriplugin.engine.model import Pod

BURST = "cpu.max.burst"
DIFFERENCES = Exceptions(
    {
        "koordlet/cpuBurst/250m,1000%": "the kernel refuses a burst above the quota, "
        "so the percentage is refused",
        "volcano/memoryqosv2/high/90%of1000": "memory.high is in whole pages, and this "
        "is less than one",
        "volcano/memoryqosv2/high/80%of0": "without a limit it is a share of what the "
        "node can give away",
        "volcano/memoryqosv2/high/100%of1073741824": "the limit itself, beyond which "
        "the container does not come anyway",
    }
)
PERIOD_US = 100_000


def burst_of(pod: Pod, quota_us: int | None) -> str | None:
    """Return the burst of a container that has a quota, or has none."""
    given = Resources(quota_us=quota_us, period_us=quota_us and 100_000)
    chosen = config(CPUBurstSettings(enabled=True))
    return decide(pod, APP._replace(resources=given), NODE, chosen).files.get(BURST)


@each("volcano/cpu-burst/")
def test_volcanos_burst(vector: Vector) -> None:
    """Volcano's annotations give its burst, and none to a container without a quota."""
    given = vector.input
    quota = given["container cpu.max"].split()[0]
    keys = ("volcano.sh/enable-quota-burst", "volcano.sh/quota-burst-time")
    annotations = {key: str(given[key]) for key in keys if given[key] is not None}
    pod = POD._replace(annotations=annotations)
    ours = burst_of(pod, None if quota == "max" else int(quota))
    assert ours == vector.expect[BURST]


@each("koordlet/cpuBurst/")
def test_koordlets_burst(vector: Vector) -> None:
    """A percentage of the quota is Koordlet's percentage of the limit."""
    quota = milli_cpu_to_quota(vector.input["cpu limit milli"])
    pod = annotated(cpu_burst=f"{vector.input['cpuBurstPercent']}%")
    DIFFERENCES.compare(vector.id, burst_of(pod, quota), vector.expect[BURST])


@each("koordlet/cfsQuotaBurst/")
def test_koordlets_quota_burst(vector: Vector) -> None:
    """One step of the policy is one step of Koordlet's."""
    given = vector.input
    base, percent = given["base"], given.get("cfsQuotaBurstPercent", 300)
    current = given.get("current", base)
    original = {"cpu.max": f"{base} {PERIOD_US}"}
    throttled = 5 if given["op"] == "scaleUp" else 0
    before = ContainerSample(0.0, original, cpu_usage_ns=0, periods=0, throttled=0)
    now = before._replace(at_s=10.0, periods=100, throttled=throttled)
    answer = quota_to_hold(
        QuotaBurstSettings(True, percent=percent, period_seconds=None),
        QuotaBurstState(original["cpu.max"], current, 0.0),
        before,
        now,
        NodeSample(),
    )
    assert answer.state.quota_us == vector.expect["quota"]


@each("volcano/memoryqosv2/")
def test_volcanos_memory_high(vector: Vector) -> None:
    """A share of the limit throttles a container of the lowest level."""
    limit = vector.input["limits.memory"] or None
    app = APP._replace(resources=Resources(memory_limit_bytes=limit))
    chosen = config(
        MemoryQoSLevelSettings(
            enabled=True,
            level=QoSLevel.BE,
            factor_ppm=vector.input["highRatio"] * 10_000,
        )
    )
    ours = decide(POD, app, NODE, chosen).files.get("memory.high", "max")
    DIFFERENCES.compare(vector.id, ours, vector.expect["memory.high"])
