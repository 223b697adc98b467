"""A node's capacity, what is reserved of it, and what is left for pods. Pure.

Allocatable = Capacity - KubeReserved - SystemReserved - HardEviction, which the kubelet
reports and the scheduler uses. The cgroup of all pods is larger: the kubelet does not
subtract the eviction threshold there (getNodeAllocatableAbsolute in
pkg/kubelet/cm/node_container_manager_linux.go), so that pods can use the memory of
which the eviction manager then finds too little.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.errors import ConfigError
from nriplugin.kube.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    from nriplugin.kube.amounts import Amounts
    from nriplugin.kube.kubelet_settings import KubeletCapacitySettings

PIDS = "pid"
HUGEPAGES = "hugepages-"

# The resources of which a threshold in evictionHard reserves something, and its signal.
EVICTION_SIGNALS = {
    "memory": "memory.available",
    "ephemeral-storage": "nodefs.available",
}


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """Amounts by resource: CPU in thousandths, all others in whole units, rounded up.

    `allocatable` is what the kubelet reports. `available_to_pods` is what it writes to
    the cgroup of all pods if it enforces that, with `pid` if the capacity has it.
    """

    capacity: dict[str, int]
    system_reserved: dict[str, int]
    kube_reserved: dict[str, int]
    eviction: dict[str, int]
    allocatable: dict[str, int]
    available_to_pods: dict[str, int]


def node_capacity(capacity: Amounts, settings: KubeletCapacitySettings) -> NodeCapacity:
    """Return what is left of a node's capacity, resource by resource.

    Raises:
        ConfigError: an amount is malformed, or more is reserved than there is, with
            which the kubelet does not start.
    """
    total = {
        name: parse(amount, f"capacity.{name}") for name, amount in capacity.items()
    }
    system = _reserved(settings.system_reserved, "systemReserved")
    kube = _reserved(settings.kube_reserved, "kubeReserved")
    eviction = _hard_eviction(settings.eviction_hard, total)
    enforced, reported = {}, {}
    for name, amount in total.items():
        left = amount - system.get(name, 0) - kube.get(name, 0)
        enforced[name] = max(left, parse(0))
        if name == PIDS:  # the kubelet reports no processes
            continue
        left -= eviction.get(name, 0)
        if left < 0:
            raise ConfigError(
                f"{name}: {_text(name, amount - left)} are reserved, "
                f"expected at most the capacity, {_text(name, amount)}"
            )
        reported[name] = left
    # Huge pages are taken from the node's memory when it boots.
    huge = sum(reported[name] for name in reported if name.startswith(HUGEPAGES))
    if huge and "memory" in reported:
        reported["memory"] = max(reported["memory"] - huge, parse(0))
    return NodeCapacity(
        capacity=_whole(total),
        system_reserved=_whole(system),
        kube_reserved=_whole(kube),
        eviction=_whole(eviction),
        allocatable=_whole(reported),
        available_to_pods=_whole(enforced),
    )


def hugepages_name(page_bytes: int) -> str:
    """Return the resource of huge pages of a size, such as hugepages-2Mi."""
    for power, suffix in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if page_bytes % (1 << power) == 0:
            return f"{HUGEPAGES}{page_bytes >> power}{suffix}"
    return f"{HUGEPAGES}{page_bytes}"


def hugepages_bytes(amounts: Mapping[str, int]) -> int:
    """Return the memory in huge pages of all sizes."""
    return sum(amounts[name] for name in amounts if name.startswith(HUGEPAGES))


def _reserved(given: Mapping[str, str], field: str) -> dict[str, Fraction]:
    return {name: parse(amount, f"{field}.{name}") for name, amount in given.items()}


def _hard_eviction(
    thresholds: Mapping[str, str], capacity: Mapping[str, Fraction]
) -> dict[str, Fraction]:
    """Return what the thresholds reserve; a share is one of the capacity."""
    result = {}
    for name, signal in EVICTION_SIGNALS.items():
        given = thresholds.get(signal)
        if given is None or name not in capacity:
            continue
        if given.endswith("%"):
            share = _share(given, f"evictionHard.{signal}")
            result[name] = parse(int(float(math.ceil(capacity[name])) * share))
        else:
            result[name] = parse(given, f"evictionHard.{signal}")
    return result


def _share(given: str, field: str) -> float:
    """Return a percentage as the kubelet keeps it, with the precision of 32 bits."""
    try:
        percent = float(given.rstrip("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent <= 100:
        raise ConfigError(f"{field}: {given!r}, expected a percentage such as 10%")
    return _to_32_bits(_to_32_bits(percent) / 100)


def _to_32_bits(number: float) -> float:
    (result,) = struct.unpack("f", struct.pack("f", number))
    return float(result)


def _whole(amounts: Mapping[str, Fraction]) -> dict[str, int]:
    return {
        name: math.ceil(amount * 1000 if name == "cpu" else amount)
        for name, amount in amounts.items()
    }


def _text(name: str, amount: Fraction) -> str:
    if name == "cpu":
        return f"{math.ceil(amount * 1000)}m"
    return str(math.ceil(amount))
