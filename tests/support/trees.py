"""Fake cgroup trees: plain directories with the files that kernels have.

They are not kernels: a plain file takes any text, and a lone quota written to cpu.max
stays a lone quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.types.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

UID = "7b0f0a2e-5d6c-4c1f-9c39-1f5a2a0f4b11"
CONTAINER_ID = "0123456789abcdef" * 4

QOS = "/kubepods/burstable"
POD = f"{QOS}/pod{UID}"
CONTAINER = f"{POD}/{CONTAINER_ID}"
# From the top to the bottom, as cgroupfs and containerd name them.
CGROUPS = ("/kubepods", QOS, POD, CONTAINER)

_PRESSURE = (
    "some avg10=0.00 avg60=0.50 avg300=1.25 total=4711\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=42\n"
)

# What a fresh cgroup below the root shows, and a little use of it.
V2_FILES: Mapping[str, str] = {
    "cgroup.controllers": "cpuset cpu io memory hugetlb pids\n",
    "cgroup.subtree_control": "cpuset cpu io memory hugetlb pids\n",
    "cgroup.procs": "",
    "cgroup.threads": "",
    "cpu.weight": "100\n",
    "cpu.idle": "0\n",
    "cpu.max": "max 100000\n",
    "cpu.max.burst": "0\n",
    "cpu.stat": (
        "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\n"
        "nr_periods 10\nnr_throttled 2\nthrottled_usec 5000\n"
        "nr_bursts 1\nburst_usec 7\n"
    ),
    "cpu.pressure": _PRESSURE,
    "cpuset.cpus": "\n",
    "cpuset.mems": "\n",
    "cpuset.cpus.effective": "0-7\n",
    "cpuset.mems.effective": "0\n",
    "memory.max": "max\n",
    "memory.high": "max\n",
    "memory.low": "0\n",
    "memory.min": "0\n",
    "memory.swap.max": "max\n",
    "memory.oom.group": "0\n",
    "memory.current": "1048576\n",
    "memory.stat": (
        "anon 4096\nfile 8192\nshmem 0\nfile_mapped 4096\nfile_dirty 0\n"
        "file_writeback 0\ninactive_anon 0\nactive_anon 4096\ninactive_file 4096\n"
        "active_file 4096\nunevictable 0\npgfault 12\npgmajfault 1\n"
    ),
    "memory.events": "low 0\nhigh 3\nmax 2\noom 1\noom_kill 1\noom_group_kill 0\n",
    "memory.pressure": _PRESSURE,
    "pids.max": "max\n",
    "pids.current": "3\n",
    "io.weight": "default 100\n",
    "io.max": "",
    "io.stat": "8:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
    "io.pressure": _PRESSURE,
    "hugetlb.2MB.max": "max\n",
}

_V1_UNLIMITED = "9223372036854771712\n"

# Controller -> file -> content.
V1_FILES: Mapping[str, Mapping[str, str]] = {
    "cpu": {
        "cgroup.procs": "",
        "tasks": "",
        "cpu.shares": "1024\n",
        "cpu.cfs_quota_us": "-1\n",
        "cpu.cfs_period_us": "100000\n",
        "cpu.cfs_burst_us": "0\n",
        "cpu.stat": (
            "nr_periods 10\nnr_throttled 2\nthrottled_time 5000000\n"
            "nr_bursts 1\nburst_time 7000\n"
        ),
    },
    "cpuacct": {
        "cpuacct.usage": "3000000000\n",
        "cpuacct.stat": "user 200\nsystem 100\n",
    },
    "cpuset": {
        "cpuset.cpus": "0-7\n",
        "cpuset.mems": "0\n",
        "cpuset.effective_cpus": "0-7\n",
        "cpuset.effective_mems": "0\n",
    },
    "memory": {
        "memory.limit_in_bytes": _V1_UNLIMITED,
        "memory.memsw.limit_in_bytes": _V1_UNLIMITED,
        "memory.usage_in_bytes": "1048576\n",
        "memory.failcnt": "2\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        "memory.stat": (
            "cache 0\nrss 0\ntotal_cache 8192\ntotal_rss 4096\ntotal_shmem 0\n"
            "total_mapped_file 4096\ntotal_dirty 0\ntotal_writeback 0\n"
            "total_pgfault 12\ntotal_pgmajfault 1\ntotal_inactive_anon 0\n"
            "total_active_anon 4096\ntotal_inactive_file 4096\n"
            "total_active_file 4096\ntotal_unevictable 0\n"
        ),
    },
    "pids": {"pids.max": "max\n", "pids.current": "3\n"},
    "blkio": {
        "blkio.throttle.read_bps_device": "",
        "blkio.throttle.write_bps_device": "",
        "blkio.throttle.read_iops_device": "",
        "blkio.throttle.write_iops_device": "",
        "blkio.throttle.io_service_bytes_recursive": (
            "8:0 Read 4096\n8:0 Write 8192\n8:0 Sync 12288\n8:0 Async 0\n"
            "8:0 Discard 0\n8:0 Total 12288\nTotal 12288\n"
        ),
        "blkio.throttle.io_serviced_recursive": (
            "8:0 Read 1\n8:0 Write 2\n8:0 Sync 3\n8:0 Async 0\n"
            "8:0 Discard 0\n8:0 Total 3\nTotal 3\n"
        ),
    },
    "hugetlb": {"hugetlb.2MB.limit_in_bytes": "9223372036852678656\n"},
}


def make_v2(root: Path, cgroups: Iterable[str] = CGROUPS) -> Tree:
    """Make a tree of version 2 with these cgroups, and open it."""
    root.mkdir(exist_ok=True)
    (root / "cgroup.controllers").write_text(V2_FILES["cgroup.controllers"])
    for cgroup in cgroups:
        add_v2(root, cgroup)
    return Tree(LocalFiles(str(root), magics=None), 2)


def add_v2(root: Path, cgroup: str) -> None:
    """Make one more cgroup of version 2."""
    _fill(root / cgroup.strip("/"), V2_FILES)


def make_v1(root: Path, cgroups: Iterable[str] = CGROUPS) -> Tree:
    """Make a tree of version 1, one directory per controller, and open it."""
    for controller in V1_FILES:
        (root / controller).mkdir(parents=True)
    for cgroup in cgroups:
        add_v1(root, cgroup)
    return Tree(LocalFiles(str(root), magics=None), 1)


def add_v1(root: Path, cgroup: str) -> None:
    """Make one more cgroup of version 1, in every hierarchy."""
    for controller, files in V1_FILES.items():
        _fill(root / controller / cgroup.strip("/"), files)


def make(version: int, root: Path, cgroups: Iterable[str] = CGROUPS) -> Tree:
    """Make a tree of either version."""
    return make_v2(root, cgroups) if version == 2 else make_v1(root, cgroups)


def _fill(directory: Path, files: Mapping[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_text(content)
