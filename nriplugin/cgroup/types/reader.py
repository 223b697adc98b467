"""What a cgroup uses and what limits it: the same answers from cgroup v1 and v2.

Times are in nanoseconds and amounts in bytes; -1 is no limit. A number that one version
does not count is None, never zero. Counters include all cgroups below the one asked.
"""

from __future__ import annotations

from errno import ENOENT, EOPNOTSUPP
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.types.formats import USER_HZ
from nriplugin.cgroup.types.registry import Type
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from nriplugin.cgroup.types.formats import Pressure
    from nriplugin.cgroup.types.tree import Tree

_NS_PER_US = 1000
_NS_PER_TICK = 1_000_000_000 // USER_HZ


class CpuUsage(NamedTuple):
    """Time on CPUs. v1 counts user and system in ticks of 10 ms."""

    total_ns: int
    user_ns: int
    system_ns: int


class CpuStat(NamedTuple):
    """How often and how long the quota held back; bursts from Linux 5.14 on."""

    periods: int
    throttled: int
    throttled_ns: int
    bursts: int | None
    burst_ns: int | None


class MemoryStat(NamedTuple):
    """What the memory is used for."""

    anon: int
    file: int
    shmem: int
    mapped: int
    dirty: int
    writeback: int
    inactive_anon: int
    active_anon: int
    inactive_file: int
    active_file: int
    unevictable: int
    page_faults: int
    major_page_faults: int


class MemoryEvents(NamedTuple):
    """How often memory ran short; v1 counts only reaching the limit, and kills."""

    low: int | None
    high: int | None
    max: int
    oom: int | None
    oom_kill: int


class IoStat(NamedTuple):
    """Traffic with one block device."""

    device: str  # MAJOR:MINOR
    read_bytes: int
    written_bytes: int
    reads: int
    writes: int


class Pids(NamedTuple):
    """Tasks, and how many are allowed."""

    current: int
    limit: int


# v1's name -> v2's; v1 has each a second time, for this cgroup alone.
_MEMORY_NAMES_V1 = (
    ("total_rss", "anon"),
    ("total_cache", "file"),
    ("total_shmem", "shmem"),
    ("total_mapped_file", "file_mapped"),
    ("total_dirty", "file_dirty"),
    ("total_writeback", "file_writeback"),
    ("total_inactive_anon", "inactive_anon"),
    ("total_active_anon", "active_anon"),
    ("total_inactive_file", "inactive_file"),
    ("total_active_file", "active_file"),
    ("total_unevictable", "unevictable"),
    ("total_pgfault", "pgfault"),
    ("total_pgmajfault", "pgmajfault"),
)


class Reader:
    """Reads through a tree; every method raises CgroupError."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._v1 = tree.version == 1

    def cpu_quota(self, cgroup: str) -> int:
        """Return the quota in microseconds per period; -1 is none."""
        return int(self._tree.get(Type.CPU_QUOTA, cgroup))

    def cpu_period(self, cgroup: str) -> int:
        """Return the period in microseconds."""
        return int(self._tree.get(Type.CPU_PERIOD, cgroup))

    def cpu_usage(self, cgroup: str) -> CpuUsage:
        """Return the time on CPUs."""
        if self._v1:
            ticks = self._tree.get(Type.CPU_ACCT, cgroup)
            return CpuUsage(
                self._tree.get(Type.CPU_USAGE, cgroup),
                ticks.get("user", 0) * _NS_PER_TICK,
                ticks.get("system", 0) * _NS_PER_TICK,
            )
        stat = self._tree.get(Type.CPU_STAT, cgroup)
        names = ("usage_usec", "user_usec", "system_usec")
        return CpuUsage(*(stat.get(name, 0) * _NS_PER_US for name in names))

    def cpu_stat(self, cgroup: str) -> CpuStat:
        """Return how the quota held back; zeros while the cpu controller is off."""
        stat = self._tree.get(Type.CPU_STAT, cgroup)
        throttled, burst, unit = "throttled_usec", "burst_usec", _NS_PER_US
        if self._v1:
            throttled, burst, unit = "throttled_time", "burst_time", 1
        burst_time = stat.get(burst)
        return CpuStat(
            stat.get("nr_periods", 0),
            stat.get("nr_throttled", 0),
            stat.get(throttled, 0) * unit,
            stat.get("nr_bursts"),
            None if burst_time is None else burst_time * unit,
        )

    def memory_limit(self, cgroup: str) -> int:
        """Return the limit in bytes; -1 is none."""
        return int(self._tree.get(Type.MEMORY_LIMIT, cgroup))

    def memory_usage(self, cgroup: str) -> int:
        """Return what is used, with caches."""
        return int(self._tree.get(Type.MEMORY_USAGE, cgroup))

    def memory_stat(self, cgroup: str) -> MemoryStat:
        """Return what the memory is used for."""
        stat = self._tree.get(Type.MEMORY_STAT, cgroup)
        return MemoryStat(
            *(stat.get(v1 if self._v1 else v2, 0) for v1, v2 in _MEMORY_NAMES_V1)
        )

    def memory_events(self, cgroup: str) -> MemoryEvents:
        """Return how often memory ran short."""
        events = self._tree.get(Type.MEMORY_EVENTS, cgroup)
        if self._v1:
            reached = self._tree.get(Type.MEMORY_FAILCNT, cgroup)
            kills = events.get("oom_kill", 0)
            return MemoryEvents(None, None, reached, None, kills)
        names = ("low", "high", "max", "oom", "oom_kill")
        return MemoryEvents(*(events.get(name, 0) for name in names))

    def pressure(self, cgroup: str, resource: str) -> Pressure | None:
        """Return the pressure on cpu, memory or io; None where it is not measured."""
        types = {
            "cpu": Type.CPU_PRESSURE,
            "memory": Type.MEMORY_PRESSURE,
            "io": Type.IO_PRESSURE,
        }
        try:
            found: Pressure = self._tree.get(types[resource], cgroup)
        except CgroupError as exc:
            # Not there, or there while the kernel was started with psi=0.
            if exc.errno in (ENOENT, EOPNOTSUPP) and self._is_there(cgroup):
                return None
            raise
        return found

    def pids(self, cgroup: str) -> Pids:
        """Return how many tasks there are, and may be."""
        current = self._tree.get(Type.PIDS_CURRENT, cgroup)
        return Pids(current, self._tree.get(Type.PIDS_MAX, cgroup))

    def io_stat(self, cgroup: str) -> list[IoStat]:
        """Return the traffic with every device.

        v1 kernels may count only where a rate of the device is limited; elsewhere they
        show zeros.
        """
        if self._v1:
            amounts = self._tree.get(Type.IO_BYTES, cgroup)
            operations = self._tree.get(Type.IO_OPERATIONS, cgroup)
            return [
                IoStat(
                    device,
                    fields.get("read", 0),
                    fields.get("write", 0),
                    operations.get(device, {}).get("read", 0),
                    operations.get(device, {}).get("write", 0),
                )
                for device, fields in amounts.items()
            ]
        names = ("rbytes", "wbytes", "rios", "wios")
        return [
            IoStat(device, *(fields.get(name, 0) for name in names))
            for device, fields in self._tree.get(Type.IO_STAT, cgroup).items()
        ]

    def _is_there(self, cgroup: str) -> bool:
        path = self._tree.path(Type.CPU_STAT, cgroup)
        return self._tree.files.exists(path)
