"""The table of the kernel's files: one row per resource type and cgroup version.

The bounds come from `convert.validate` and `convert.curves`, so that a mistake is named
before the kernel answers EINVAL. A row says what a kernel needs to have the file, if
not every kernel has it; a missing file makes its type unsupported, which is no error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.types import contents, formats
from nriplugin.cgroup.types.registry import Resource, Type
from nriplugin.convert.curves import MAX_SHARES, MAX_WEIGHT, MIN_SHARES, MIN_WEIGHT
from nriplugin.convert.validate import (
    MAX_BFQ_WEIGHT,
    MAX_IO_WEIGHT,
    MAX_NUMBER,
    MAX_PERIOD_US,
    MAX_PIDS,
    MAX_QUOTA_US,
    MAX_V1_IO_WEIGHT,
    MIN_BFQ_WEIGHT,
    MIN_IO_WEIGHT,
    MIN_PERIOD_US,
    MIN_QUOTA_US,
    MIN_V1_IO_WEIGHT,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.cgroup.types.contents import Content

_QUOTA = (MIN_QUOTA_US, MAX_QUOTA_US)
_PERIOD = (MIN_PERIOD_US, MAX_PERIOD_US)
# The kernel takes larger numbers and treats them as no limit; a caller who means that
# says so.
_MAX_BYTES = (1 << 63) - 1

_BURST_SINCE = "Linux 5.14 or later"
_IDLE_SINCE = "Linux 5.15 or later"
_ANOLIS = "an Anolis kernel, or cgroup v2"
_OPENEULER = "an openEuler kernel"
_BFQ = "the BFQ scheduler"
_PSI = "pressure stall information (CONFIG_PSI, psi=1)"

_BYTES_V1 = contents.limit(0, _MAX_BYTES, "-1")
_BYTES_V2 = contents.limit(0, _MAX_BYTES)
_SWITCH = contents.number(0, 1)
# Huawei's kernels have more levels of memory than openEuler's -1 and 0.
_CPU_LEVEL = contents.number(-2, 2)
_MEMORY_LEVEL = contents.number(-1024, 1023)
_COUNT = contents.reading(formats.parse_number)
_COUNTERS = contents.reading(formats.parse_counters)
_PRESSURE = contents.reading(formats.parse_pressure)
_CPUS = contents.cpu_list()
_RATE_V1 = contents.device_rate_v1(MAX_NUMBER)
_OPERATIONS_V1 = contents.device_rate_v1(contents.MAX_OPERATIONS_V1)
_IDS = contents.reading(formats.parse_ids)
_BLKIO = contents.reading(formats.parse_blkio)


def _acct_v2(text: str) -> dict[str, int]:
    counters = formats.parse_counters(text)
    return {
        "user": counters["user_usec"] * formats.USER_HZ // 1_000_000,
        "system": counters["system_usec"] * formats.USER_HZ // 1_000_000,
    }


def _usage_v2(text: str) -> int:
    return formats.parse_counters(text)["usage_usec"] * 1000


def _reads_and_writes(text: str, read: str, write: str) -> dict[str, dict[str, int]]:
    return {
        device: {"read": fields.get(read, 0), "write": fields.get(write, 0)}
        for device, fields in formats.parse_devices(text).items()
    }


# Type, controller, file, content, what the kernel needs.
_V1: tuple[tuple[Type, str, str, Content, str], ...] = (
    (Type.CPU_SHARES, "cpu", "cpu.shares", contents.number(MIN_SHARES, MAX_SHARES), ""),
    (Type.CPU_IDLE, "cpu", "cpu.idle", _SWITCH, _IDLE_SINCE),
    (Type.CPU_QUOTA, "cpu", "cpu.cfs_quota_us", contents.limit(*_QUOTA, "-1"), ""),
    (Type.CPU_PERIOD, "cpu", "cpu.cfs_period_us", contents.number(*_PERIOD), ""),
    (
        Type.CPU_BURST,
        "cpu",
        "cpu.cfs_burst_us",
        contents.number(0, MAX_QUOTA_US),
        _BURST_SINCE,
    ),
    (Type.CPU_STAT, "cpu", "cpu.stat", _COUNTERS, ""),
    (Type.CPU_USAGE, "cpuacct", "cpuacct.usage", _COUNT, ""),
    (Type.CPU_ACCT, "cpuacct", "cpuacct.stat", _COUNTERS, ""),
    (Type.CPU_PRESSURE, "cpuacct", "cpu.pressure", _PRESSURE, _ANOLIS),
    (Type.CPU_QOS_LEVEL, "cpu", "cpu.qos_level", _CPU_LEVEL, _OPENEULER),
    (
        Type.CPU_BVT,
        "cpu",
        "cpu.bvt_warp_ns",
        contents.number(-1, 2),
        "an Anolis kernel",
    ),
    (Type.CPUSET_CPUS, "cpuset", "cpuset.cpus", _CPUS, ""),
    (Type.CPUSET_MEMS, "cpuset", "cpuset.mems", _CPUS, ""),
    (
        Type.CPUSET_CPUS_EFFECTIVE,
        "cpuset",
        "cpuset.effective_cpus",
        contents.reading(_CPUS.parse),
        "",
    ),
    (
        Type.CPUSET_MEMS_EFFECTIVE,
        "cpuset",
        "cpuset.effective_mems",
        contents.reading(_CPUS.parse),
        "",
    ),
    (Type.MEMORY_LIMIT, "memory", "memory.limit_in_bytes", _BYTES_V1, ""),
    (Type.MEMORY_USAGE, "memory", "memory.usage_in_bytes", _COUNT, ""),
    (
        Type.MEMORY_MEMSW,
        "memory",
        "memory.memsw.limit_in_bytes",
        _BYTES_V1,
        "swap accounting (swapaccount=1)",
    ),
    (Type.MEMORY_MIN, "memory", "memory.min", _BYTES_V1, _ANOLIS),
    (Type.MEMORY_LOW, "memory", "memory.low", _BYTES_V1, _ANOLIS),
    (Type.MEMORY_HIGH, "memory", "memory.high", _BYTES_V1, _ANOLIS),
    (Type.MEMORY_OOM_GROUP, "memory", "memory.oom.group", _SWITCH, _ANOLIS),
    (Type.MEMORY_STAT, "memory", "memory.stat", _COUNTERS, ""),
    (Type.MEMORY_EVENTS, "memory", "memory.oom_control", _COUNTERS, ""),
    (Type.MEMORY_FAILCNT, "memory", "memory.failcnt", _COUNT, ""),
    (Type.MEMORY_PRESSURE, "cpuacct", "memory.pressure", _PRESSURE, _ANOLIS),
    (Type.MEMORY_QOS_LEVEL, "memory", "memory.qos_level", _MEMORY_LEVEL, _OPENEULER),
    (Type.PIDS_MAX, "pids", "pids.max", contents.limit(0, MAX_PIDS), ""),
    (Type.PIDS_CURRENT, "pids", "pids.current", _COUNT, ""),
    (
        Type.BLKIO_WEIGHT,
        "blkio",
        "blkio.weight",
        contents.number(MIN_V1_IO_WEIGHT, MAX_V1_IO_WEIGHT),
        "the CFQ scheduler, Linux before 5.0",
    ),
    (
        Type.IO_BFQ_WEIGHT,
        "blkio",
        "blkio.bfq.weight",
        contents.device_weight(MIN_BFQ_WEIGHT, MAX_BFQ_WEIGHT),
        _BFQ,
    ),
    (Type.IO_READ_BPS, "blkio", "blkio.throttle.read_bps_device", _RATE_V1, ""),
    (Type.IO_WRITE_BPS, "blkio", "blkio.throttle.write_bps_device", _RATE_V1, ""),
    (Type.IO_READ_IOPS, "blkio", "blkio.throttle.read_iops_device", _OPERATIONS_V1, ""),
    (
        Type.IO_WRITE_IOPS,
        "blkio",
        "blkio.throttle.write_iops_device",
        _OPERATIONS_V1,
        "",
    ),
    # On v1 only the recursive files count the cgroups below; on v2 every file does.
    (Type.IO_BYTES, "blkio", "blkio.throttle.io_service_bytes_recursive", _BLKIO, ""),
    (Type.IO_OPERATIONS, "blkio", "blkio.throttle.io_serviced_recursive", _BLKIO, ""),
    (Type.IO_PRESSURE, "cpuacct", "io.pressure", _PRESSURE, _ANOLIS),
    # Every hierarchy has these two files; every node has the hierarchy of cpu.
    (Type.CGROUP_PROCS, "cpu", "cgroup.procs", _IDS, ""),
    (Type.CGROUP_THREADS, "cpu", "tasks", _IDS, ""),
)

_V2: tuple[tuple[Type, str, str, Content, str], ...] = (
    (Type.CPU_WEIGHT, "cpu", "cpu.weight", contents.number(MIN_WEIGHT, MAX_WEIGHT), ""),
    (Type.CPU_IDLE, "cpu", "cpu.idle", _SWITCH, _IDLE_SINCE),
    (Type.CPU_QUOTA, "cpu", "cpu.max", contents.cpu_max_quota(*_QUOTA), ""),
    (Type.CPU_PERIOD, "cpu", "cpu.max", contents.cpu_max_period(*_PERIOD), ""),
    (
        Type.CPU_BURST,
        "cpu",
        "cpu.max.burst",
        contents.number(0, MAX_QUOTA_US),
        _BURST_SINCE,
    ),
    (Type.CPU_STAT, "", "cpu.stat", _COUNTERS, ""),
    (Type.CPU_USAGE, "", "cpu.stat", contents.reading(_usage_v2), ""),
    (Type.CPU_ACCT, "", "cpu.stat", contents.reading(_acct_v2), ""),
    (Type.CPU_PRESSURE, "", "cpu.pressure", _PRESSURE, _PSI),
    (Type.CPU_QOS_LEVEL, "cpu", "cpu.qos_level", _CPU_LEVEL, _OPENEULER),
    (
        Type.CPU_BVT,
        "cpu",
        "cpu.bvt_warp_ns",
        contents.number(-1, 2),
        "an Anolis kernel",
    ),
    (Type.CPUSET_CPUS, "cpuset", "cpuset.cpus", _CPUS, ""),
    (Type.CPUSET_MEMS, "cpuset", "cpuset.mems", _CPUS, ""),
    (
        Type.CPUSET_CPUS_EFFECTIVE,
        "cpuset",
        "cpuset.cpus.effective",
        contents.reading(_CPUS.parse),
        "",
    ),
    (
        Type.CPUSET_MEMS_EFFECTIVE,
        "cpuset",
        "cpuset.mems.effective",
        contents.reading(_CPUS.parse),
        "",
    ),
    (Type.MEMORY_LIMIT, "memory", "memory.max", _BYTES_V2, ""),
    (Type.MEMORY_USAGE, "memory", "memory.current", _COUNT, ""),
    (Type.MEMORY_SWAP, "memory", "memory.swap.max", _BYTES_V2, "CONFIG_SWAP"),
    (Type.MEMORY_MIN, "memory", "memory.min", _BYTES_V2, ""),
    (Type.MEMORY_LOW, "memory", "memory.low", _BYTES_V2, ""),
    (Type.MEMORY_HIGH, "memory", "memory.high", _BYTES_V2, ""),
    (
        Type.MEMORY_OOM_GROUP,
        "memory",
        "memory.oom.group",
        _SWITCH,
        "Linux 4.19 or later",
    ),
    (Type.MEMORY_STAT, "memory", "memory.stat", _COUNTERS, ""),
    (Type.MEMORY_EVENTS, "memory", "memory.events", _COUNTERS, ""),
    (Type.MEMORY_PRESSURE, "", "memory.pressure", _PRESSURE, _PSI),
    (Type.MEMORY_QOS_LEVEL, "memory", "memory.qos_level", _MEMORY_LEVEL, _OPENEULER),
    (Type.PIDS_MAX, "pids", "pids.max", contents.limit(0, MAX_PIDS), ""),
    (Type.PIDS_CURRENT, "pids", "pids.current", _COUNT, ""),
    (
        Type.IO_WEIGHT,
        "io",
        "io.weight",
        contents.device_weight(MIN_IO_WEIGHT, MAX_IO_WEIGHT),
        "CONFIG_BLK_CGROUP_IOCOST",
    ),
    (
        Type.IO_BFQ_WEIGHT,
        "io",
        "io.bfq.weight",
        contents.device_weight(MIN_BFQ_WEIGHT, MAX_BFQ_WEIGHT),
        _BFQ,
    ),
    (Type.IO_READ_BPS, "io", "io.max", contents.device_rate_v2("rbps"), ""),
    (Type.IO_WRITE_BPS, "io", "io.max", contents.device_rate_v2("wbps"), ""),
    (Type.IO_READ_IOPS, "io", "io.max", contents.device_rate_v2("riops"), ""),
    (Type.IO_WRITE_IOPS, "io", "io.max", contents.device_rate_v2("wiops"), ""),
    (Type.IO_MAX, "io", "io.max", contents.io_max(), ""),
    (Type.IO_STAT, "io", "io.stat", contents.reading(formats.parse_devices), ""),
    (
        Type.IO_BYTES,
        "io",
        "io.stat",
        contents.reading(lambda text: _reads_and_writes(text, "rbytes", "wbytes")),
        "",
    ),
    (
        Type.IO_OPERATIONS,
        "io",
        "io.stat",
        contents.reading(lambda text: _reads_and_writes(text, "rios", "wios")),
        "",
    ),
    (Type.IO_PRESSURE, "", "io.pressure", _PRESSURE, _PSI),
    (Type.CGROUP_PROCS, "", "cgroup.procs", _IDS, ""),
    (Type.CGROUP_THREADS, "", "cgroup.threads", _IDS, ""),
)

_HUGE_PAGES = {
    "64KB": Type.HUGETLB_64KB,
    "2MB": Type.HUGETLB_2MB,
    "32MB": Type.HUGETLB_32MB,
    "1GB": Type.HUGETLB_1GB,
}


def known_resources(version: int) -> Iterator[Resource]:
    """Yield the resources that a version of cgroups has."""
    for row in _V1 if version == 1 else _V2:
        type_, controller, file, content, needs = row
        yield Resource(type_, version, controller, file, content, needs)
    for size, type_ in _HUGE_PAGES.items():
        file, content = f"hugetlb.{size}.max", _BYTES_V2
        if version == 1:
            file, content = f"hugetlb.{size}.limit_in_bytes", _BYTES_V1
        needs = f"huge pages of {size}"
        yield Resource(type_, version, "hugetlb", file, content, needs)
