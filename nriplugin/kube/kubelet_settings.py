"""The kubelet's settings that decide about capacity, merged, with its defaults.

The defaults are those of Kubernetes 1.37. Where earlier releases differ: before 1.37
the gate MemoryQoS is off by default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# The thresholds of a kubelet whose configuration file has no `evictionHard`.
EVICTION_HARD = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


@dataclass(frozen=True)
class KubeletCapacitySettings:
    """What the kubelet is told about capacity; every value is a valid one.

    Amounts are kept as they were written: quantities in the reservations, quantities or
    percentages in `eviction_hard`.
    """

    cgroup_root: str = "/"
    cgroups_per_qos: bool = True
    driver: str | None = None  # None: not configured, so the runtime's
    kubelet_cgroups: str = ""
    system_cgroups: str = ""
    # The CPUs in `reserved_cpus` have replaced the amounts of `cpu` in both already, as
    # they do in the kubelet.
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    # In percent; empty unless the gate QOSReserved is on.
    qos_reserved: Mapping[str, int] = field(default_factory=dict)
    reserved_cpus: str = ""
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    eviction_hard: Mapping[str, str] = field(
        default_factory=lambda: dict(EVICTION_HARD)
    )
    memory_throttling_factor: float | None = None
    memory_reservation_policy: str = "None"
    memory_qos: bool = True  # the feature gate
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period_us: int = 100_000
    pod_pids_limit: int = -1
    swap_behavior: str = "NoSwap"
    feature_gates: Mapping[str, bool] = field(default_factory=dict)  # as configured
