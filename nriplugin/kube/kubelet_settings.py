"""The kubelet's settings that decide which numbers it writes to cgroups. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletCapacitySettings:
    """What the kubelet was told about capacity; the defaults are the kubelet's own."""

    cgroup_root: str = ""
    cgroups_per_qos: bool = True
    driver: str = "cgroupfs"
    kubelet_cgroups: str = ""
    system_cgroups: str = ""
    system_reserved: dict[str, str] = field(default_factory=dict)
    kube_reserved: dict[str, str] = field(default_factory=dict)
    qos_reserved: dict[str, int] = field(default_factory=dict)
    reserved_cpus: str = ""
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    enforce_node_allocatable: tuple[str, ...] = ("pods",)
    eviction_hard: dict[str, str] = field(
        default_factory=lambda: {
            "memory.available": "100Mi",
            "nodefs.available": "10%",
            "nodefs.inodesFree": "5%",
            "imagefs.available": "15%",
            "imagefs.inodesFree": "5%",
        }
    )
    memory_throttling_factor: float | None = None
    memory_reservation_policy: str = "None"
    memory_qos: bool = False
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period_us: int = 100_000
    pod_pids_limit: int = -1
    swap_behavior: str = ""
    feature_gates: dict[str, bool] = field(default_factory=dict)
