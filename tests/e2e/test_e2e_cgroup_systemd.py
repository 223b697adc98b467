"""Writes that go through a real systemd, and what its `daemon-reload` does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest
from support.guestcases import Script, check, run_cases

if TYPE_CHECKING:
    from nodes.machine import Machine
    from support.kubelet import Kubelet

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.parametrize("node", ["systemd"], indirect=True),
]

MIB = 1 << 20
C, P, Q = "container", "pod", "qos"
RELOAD = (("command", "systemctl", "daemon-reload"), "")
LIMITS = {
    "cpu_period": 100000,
    "cpu_quota": 50000,
    "cpu_shares": 512,
    "memory_limit_in_bytes": 128 * MIB,
}


def by_systemd(held: str, **also: str) -> list[Any]:
    changed = {f"{C} {file.replace('_', '.')}": text for file, text in also.items()}
    return ["written by systemd", "", held, changed]


def directly(held: str) -> list[Any]:
    return ["written", "", held, {}]


CASES: dict[str, Script] = {
    # First: the reloads of the others would undo what the runtime wrote.
    "memory: what the runtime wrote directly is put back, until a reload": [
        (("read", C, "memory.swap.max"), "0"),
        (("write", C, "memory.oom.group", "1"), ""),
        (("update", "memory.high", C, 100 * MIB), by_systemd(str(100 * MIB))),
        (("read", C, "memory.swap.max"), "0"),
        (("read", C, "memory.oom.group"), "1"),
        RELOAD,
        (("read", C, "memory.swap.max"), "max"),
        (("read", C, "memory.oom.group"), "0"),
    ],
    "a quota is rounded once and stays": [
        (("update", "cpu.cfs_quota_us", C, 12345), by_systemd("13000 100000")),
        (
            ("why", "cpu.cfs_quota_us", C, 12345),
            "systemd keeps quotas in steps of 1 %: '12345 100000' is '13000 100000'",
        ),
        RELOAD,
        (("read", C, "cpu.max"), "13000 100000"),
        (("property", C, "CPUQuotaPerSecUSec"), "130ms"),
        (("update", "cpu.cfs_quota_us", C, "max"), by_systemd("max 100000")),
        (("update", "cpu.cfs_quota_us", C, 50000), by_systemd("50000 100000")),
        (("update", "cpu.cfs_period_us", C, 50000), by_systemd("50000 50000")),
        RELOAD,
        (("read", C, "cpu.max"), "50000 50000"),
    ],
    "idle is a weight": [
        (("update", "cpu.weight", C, 77), by_systemd("77")),
        (("update", "cpu.idle", C, 1), by_systemd("1", cpu_weight="1")),
        (("property", C, "CPUWeight"), "idle"),
        RELOAD,
        (("read", C, "cpu.idle"), "1"),
        (("update", "cpu.idle", C, 0), by_systemd("0", cpu_weight="100")),
        (("update", "cpu.weight", C, 59), by_systemd("59")),
        RELOAD,
        (("read", C, "cpu.weight"), "59"),
    ],
    "a burst is written directly, and a reload leaves it": [
        (("update", "cpu.cfs_burst_us", C, 20000), directly("20000")),
        (("update", "cpu.cfs_quota_us", C, 60000), by_systemd("60000 50000")),
        (("read", C, "cpu.max.burst"), "20000"),
        RELOAD,
        (("read", C, "cpu.max.burst"), "20000"),
    ],
    "cpusets of slices and scopes": [
        (("update", "cpuset.cpus", C, "1"), by_systemd("1")),
        (("property", C, "AllowedCPUs"), "1"),
        (
            (
                "leveled",
                [("cpuset.cpus", Q, "0-1")],
                [("cpuset.cpus", P, "0")],
                [("cpuset.cpus", C, "0")],
            ),
            [["written by systemd", ""]] * 3,
        ),
        RELOAD,
        (("read", P, "cpuset.cpus"), "0"),
        (("read", C, "cpuset.cpus"), "0"),
        (("update", "cpuset.cpus", C, ""), by_systemd("")),
        (("property", C, "AllowedCPUs"), ""),
    ],
    "pids": [
        (("update", "pids.max", C, 99), by_systemd("99")),
        (("property", C, "TasksMax"), "99"),
        RELOAD,
        (("read", C, "pids.max"), "99"),
        (("update", "pids.max", C, "max"), by_systemd("max")),
    ],
    "devices are named by number": [
        (
            ("update", "io.max", C, "254:0 rbps=1000000 wiops=100"),
            by_systemd("254:0 rbps=1000000 wbps=max riops=max wiops=100"),
        ),
        (("property", C, "IOReadBandwidthMax"), "/dev/block/254:0 1000000"),
        (
            ("update", "blkio.throttle.write_bps_device", C, "254:0 2000000"),
            by_systemd("254:0 rbps=1000000 wbps=2000000 riops=max wiops=100"),
        ),
        RELOAD,
        (
            ("read", C, "io.max"),
            "254:0 rbps=1000000 wbps=2000000 riops=max wiops=100",
        ),
        (
            ("update", "io.max", C, "240:9 rbps=5"),
            [
                "failed",
                "ENODEV",
                "254:0 rbps=1000000 wbps=2000000 riops=max wiops=100",
                {},
            ],
        ),
        (
            ("update", "io.max", C, "254:0 rbps=max wbps=max wiops=max"),
            by_systemd(""),
        ),
        (("property", C, "IOReadBandwidthMax"), ""),
        # systemd sets BFQ's weight along with the other one.
        (("update", "io.bfq.weight", C, 300), directly("default 300")),
        (
            ("update", "io.weight", C, 200),
            by_systemd("default 200", io_bfq_weight="default 109"),
        ),
    ],
    "memory: every amount survives a reload": [
        (("update", "memory.min", C, 10 * MIB), by_systemd(str(10 * MIB))),
        (("update", "memory.low", C, 20 * MIB), by_systemd(str(20 * MIB))),
        (("update", "memory.high", C, 90 * MIB), by_systemd(str(90 * MIB))),
        (("update", "memory.limit_in_bytes", C, 200 * MIB), by_systemd(str(200 * MIB))),
        (("update", "memory.swap.max", C, 50 * MIB), by_systemd(str(50 * MIB))),
        (("update", "memory.oom.group", C, 1), directly("1")),
        RELOAD,
        (("read", C, "memory.min"), str(10 * MIB)),
        (("read", C, "memory.low"), str(20 * MIB)),
        (("read", C, "memory.high"), str(90 * MIB)),
        (("read", C, "memory.max"), str(200 * MIB)),
        (("read", C, "memory.swap.max"), str(50 * MIB)),
        (("read", C, "memory.oom.group"), "0"),  # it has no property
    ],
    "huge pages are written directly, and a reload leaves them": [
        (("update", "hugetlb.2MB.limit_in_bytes", C, 4 * MIB), directly(str(4 * MIB))),
        RELOAD,
        (("read", C, "hugetlb.2MB.max"), str(4 * MIB)),
    ],
    "slices": [
        (("update", "cpu.weight", P, 150), by_systemd("150")),
        (("update", "memory.min", Q, 30 * MIB), by_systemd(str(30 * MIB))),
        RELOAD,
        (("read", P, "cpu.weight"), "150"),
        (("read", Q, "memory.min"), str(30 * MIB)),
        (("property", Q, "MemoryMin"), str(30 * MIB)),
    ],
    "what was set is there when we come back": [
        (("update", "cpu.weight", C, weight), by_systemd(str(weight)))
        for weight in range(100, 120)
    ],
    "a command says that it went through systemd": [
        (
            ("command", "nriplugin", "cgroup", "set", "pids.max", "{container}", "77"),
            ANY,
        ),
        (("read", C, "pids.max"), "77"),
        (("command", "nriplugin", "restore", "--json"), ANY),
        (("read", C, "pids.max"), "max"),
        (("property", C, "TasksMax"), "infinity"),
    ],
}


@pytest.fixture(scope="session")
def units(node: Machine, kubelet: Kubelet) -> dict[str, list[Any]]:
    """The answers, about a container that containerd made under systemd."""
    with kubelet.sandbox("Burstable") as pod:
        container = kubelet.start(pod, "one", LIMITS)
        (directory,) = container.cgroups
        cgroup = directory.removeprefix("/sys/fs/cgroup")
        above = cgroup.rpartition("/")[0]
        branch = {Q: above.rpartition("/")[0], P: above, C: cgroup}
        return run_cases(node, CASES, dict.fromkeys(CASES, branch))


@pytest.mark.parametrize("case", CASES)
def test_systemd_does_as_we_think(
    node: Machine, units: dict[str, list[Any]], case: str
) -> None:
    """Each write: whether systemd did it, and what is left of it after a reload."""
    check(CASES[case], units[case])
