"""Settings of the kubelet that contradict each other, so that the kubelet refuses them.

Each value is a valid one by itself. A field that only has no effect beside another one
is named, too, because it does not do what it was written for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nriplugin.kube.kubelet_values import CUSTOM_PERIOD, MEMORY_QOS, QOS_RESERVED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ENFORCE = "enforceNodeAllocatable"
# kubelet passes over a factor of 0.9 with the gate off: it was the default once.
_FORMER_FACTOR = 0.9


def contradictions(found: Mapping[str, Any], places: Mapping[str, str]) -> list[str]:
    """Return one line, with the place, for each field that does not fit the others.

    Args:
        found: the merged values by the names of the configuration file.
        places: where each of them was written.
    """
    lines = [*_enforcement(found), *_cgroups(found), *_gates(found)]
    return [f"{places[field]}: {field}: {text}" for field, text in lines]


def _enforcement(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    levels = found.get(ENFORCE, ())
    for kind in ("system", "kube"):
        plain, part = f"{kind}-reserved", f"{kind}-reserved-compressible"
        cgroup = f"{kind}ReservedCgroup"
        used = [level for level in levels if level in (plain, part)]
        if used and not found.get(cgroup):
            yield ENFORCE, f"{used[0]!r}, expected only together with {cgroup}"
        if len(used) > 1:
            yield ENFORCE, f"{plain!r} and {part!r}, expected one of them"
    if "none" in levels and len(levels) > 1:
        yield ENFORCE, "'none' with others, expected it alone"
    if found.get("cgroupsPerQOS") is False and {*found.get(ENFORCE, ["pods"])} - {
        "none"
    }:
        yield "cgroupsPerQOS", f"False, expected True unless {ENFORCE} is empty or none"


def _cgroups(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if found.get("systemCgroups") and not found.get("cgroupRoot"):
        text = f"{found['systemCgroups']!r}, expected only together with cgroupRoot"
        yield "systemCgroups", text
    cgroups = ("systemReservedCgroup", "kubeReservedCgroup")
    used = [name for name in cgroups if found.get(name)]
    if found.get("reservedSystemCPUs") and used:
        text = f"{found['reservedSystemCPUs']!r}, expected no {used[0]} beside it"
        yield "reservedSystemCPUs", text


def _gates(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    gates = found.get("featureGates", {})
    if found.get("qosReserved") and not gates.get(QOS_RESERVED):
        yield "qosReserved", "no effect, expected the feature gate QOSReserved on"
    period = found.get("cpuCFSQuotaPeriod", 100_000)
    if period != 100_000 and not gates.get(CUSTOM_PERIOD):
        text = f"{period}us, expected the feature gate CustomCPUCFSQuotaPeriod on"
        yield "cpuCFSQuotaPeriod", text
    if gates.get(MEMORY_QOS) is not False:
        return
    factor = found.get("memoryThrottlingFactor")
    if factor not in (None, _FORMER_FACTOR):
        text = f"{factor}, expected none with the feature gate MemoryQoS off"
        yield "memoryThrottlingFactor", text
    if found.get("memoryReservationPolicy") == "TieredReservation":
        text = "'TieredReservation', expected the feature gate MemoryQoS on"
        yield "memoryReservationPolicy", text
