"""Bursts that other agents of nodes would set (tests/data/vectors.json)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.cases import APP, NODE, POD, annotated, config
from support.vectors import Exceptions, Vector, each

from nriplugin.convert import Resources
from nriplugin.engine.decide import decide
from nriplugin.engine.handlers.cpu_burst import CPUBurstSettings
from nriplugin.kube.kubelet import milli_cpu_to_quota

if TYPE_CHECKING:
    from nriplugin.engine.model import Pod

BURST = "cpu.max.burst"
DIFFERENCES = Exceptions(
    {
        "koordlet/cpuBurst/250m,1000%": "the kernel refuses a burst above the quota, "
        "so the percentage is refused"
    }
)


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
