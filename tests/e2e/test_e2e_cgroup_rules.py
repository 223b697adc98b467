"""The kernel's rules that quirks.py and leveled.py rely on, checked on kernels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from unittest.mock import ANY

import pytest
from support.guestcases import Script, check, run_cases

if TYPE_CHECKING:
    from nodes.machine import Machine

pytestmark = pytest.mark.timeout(1800)

MIB = 1 << 20
C, P, Q = "container", "pod", "qos"
DONE = ["written", ""]
BURN = (
    "t=process_time(); exec('while process_time()-t<0.3: pass'); "
    "print('burnt', flush=True); sleep(1000)"
)
READ = (
    "import mmap; f=os.open('/dev/vda', os.O_RDONLY|os.O_DIRECT); "
    "os.readv(f, [mmap.mmap(-1, 1<<20)]); print('read', flush=True); sleep(1000)"
)
# The parent waits in vfork: its child opens a pipe that has no writer.
VFORK = (
    "name=f'/tmp/fifo{os.getpid()}'; os.mkfifo(name); "
    "action=(os.POSIX_SPAWN_OPEN, 0, name, os.O_RDONLY, 0); "
    "os.posix_spawn('/bin/true', ['true'], {}, file_actions=[action])"
)


def levels(kind: str, qos: Any, pod: Any, container: Any) -> list[list[Any]]:
    return [[(kind, Q, qos)], [(kind, P, pod)], [(kind, C, container)]]


LOAD: Script = [
    (("task", C), ""),
    (("becomes", "S"), ""),
    (("task", C), ""),
    (("becomes", "S"), ""),
    (("task", C), ""),
    (("becomes", "S"), ""),
    (("task", C, "\nwhile True: pass"), ""),
    (("becomes", "R"), ""),
    (("task", C), ""),
    (("stop",), ""),
    (("task", C, VFORK), ""),
    (("becomes", "D"), ""),
    (("command", "nriplugin", "load", "{pod}", "--json"), ANY),
]
# Of the steps above; the fourth sleeper is the child of vfork.
STATES = {
    "running": 1,
    "sleeping": 4,
    "stopped": 1,
    "uninterruptible": 1,
    "io_wait": 0,
    "unseen": 0,
}

V2: dict[str, Script] = {
    "load": LOAD,
    "a burst is at most the quota, in either order": [
        (("write", C, "cpu.max", "50000 100000"), ""),
        (("write", C, "cpu.max.burst", "50001"), "EINVAL"),
        (("write", C, "cpu.max.burst", "50000"), ""),
        (("write", C, "cpu.max", "40000 100000"), "EINVAL"),
        (("write", C, "cpu.max", "60000 100000"), ""),
        (("read", C, "cpu.max.burst"), "50000"),
        (
            ("batch", ("cpu.cfs_burst_us", C, 90000), ("cpu.cfs_quota_us", C, 90000)),
            [DONE, DONE],
        ),
        (("trace",), [[C, "cpu.max", "90000 100000"], [C, "cpu.max.burst", "90000"]]),
        (
            ("batch", ("cpu.cfs_quota_us", C, 9000), ("cpu.cfs_burst_us", C, 9000)),
            [DONE, DONE],
        ),
        (("trace",), [[C, "cpu.max.burst", "9000"], [C, "cpu.max", "9000 100000"]]),
        (("update", "cpu.cfs_burst_us", C, 9001), ["failed", "EINVAL", "9000", {}]),
    ],
    "an idle cgroup has no weight": [
        (("write", C, "cpu.weight", "50"), ""),
        (("write", C, "cpu.idle", "1"), ""),
        (("write", C, "cpu.weight", "50"), "EINVAL"),
        (("write", C, "cpu.idle", "0"), ""),
        (("read", C, "cpu.weight"), "100"),
        (("batch", ("cpu.idle", C, 1), ("cpu.weight", C, 70)), [DONE, DONE]),
        (("trace",), [[C, "cpu.weight", "70"], [C, "cpu.idle", "1"]]),
        (("batch", ("cpu.weight", C, 80), ("cpu.idle", C, 0)), [DONE, DONE]),
        (("read", C, "cpu.weight"), "80"),
    ],
    "a cpuset may have nothing of the parent's, and has no effect then": [
        (("task", C), ""),
        (("write", P, "cpuset.cpus", "0"), ""),
        (
            ("why", "cpuset.cpus", C, "1"),
            "the parent has none of it, so '0' is in effect",
        ),
        (("read", C, "cpuset.cpus.effective"), "0"),
        (("why", "cpuset.cpus", C, "0"), ""),
    ],
    "a branch of cpusets moves with a task in it": [
        (("task", C), ""),
        (("leveled", *levels("cpuset.cpus", "0-1", "0", "0")), [DONE, DONE, DONE]),
        (("leveled", *levels("cpuset.cpus", "1", "1", "1")), [DONE, DONE, DONE]),
        (
            ("trace",),
            [
                [P, "cpuset.cpus", "0-1"],
                [C, "cpuset.cpus", "1"],
                [P, "cpuset.cpus", "1"],
                [Q, "cpuset.cpus", "1"],
            ],
        ),
        (("read", C, "cpuset.cpus.effective"), "1"),
    ],
    "protected memory grows from the top and shrinks from the bottom": [
        (("leveled", *levels("memory.min", MIB, MIB, MIB)), [DONE, DONE, DONE]),
        (("trace",), [[name, "memory.min", str(MIB)] for name in (Q, P, C)]),
        (("leveled", *levels("memory.min", 4096, 4096, 4096)), [DONE, DONE, DONE]),
        (("trace",), [[name, "memory.min", "4096"] for name in (C, P, Q)]),
        (("leveled", *levels("memory.low", MIB, MIB, MIB)), [DONE, DONE, DONE]),
        (("read", C, "memory.low"), str(MIB)),
    ],
    "a limit below the use is taken, kills, and we say so": [
        (("use", C, 40 * MIB), "y"),
        (("why", "memory.limit_in_bytes", C, 20 * MIB), ANY),
        (("wait",), -9),
        (("read", C, "memory.max"), str(20 * MIB)),
        (("reader", "memory_events", C), ANY),
    ],
    "one write has one device": [
        (("write", C, "io.max", "254:0 rbps=9\n254:16 rbps=9"), "EINVAL"),
        (
            ("batch", ("io.max", C, "254:0 rbps=9"), ("io.max", C, "254:16 rbps=8")),
            [DONE, DONE],
        ),
        (
            ("get", "blkio.throttle.read_bps_device", C),
            {"254:0": 9, "254:16": 8},
        ),
    ],
    "a device without a scheduler of weights has none": [
        (
            ("update", "io.weight", C, "254:0 60"),
            ["unsupported", "ENOTSUP", "default 100", {}],
        ),
    ],
    "what the reader says of CPU time": [
        (("write", C, "cpu.max", "20000 100000"), ""),
        (("task", C, BURN), ""),
        (("printed",), "burnt"),
        (("reader", "cpu_usage", C), ANY),
        (("reader", "cpu_stat", C), ANY),
        (("reader", "cpu_quota", C), "20000"),
        (("reader", "cpu_period", C), "100000"),
        (("reader", "pids", C), "Pids(current=1, limit=-1)"),
        (("reader", "pressure", C, "cpu"), ANY),
        (("reader", "pressure", C, "memory"), ANY),
    ],
    "what the reader says of a kill": [
        (("write", C, "memory.max", str(20 * MIB)), ""),
        (("task", C, f"b'x' * {60 * MIB}"), ""),
        (("wait",), -9),
        (("reader", "memory_events", C), ANY),
    ],
    "what the reader says of disks": [
        (("task", C, READ), ""),
        (("printed",), "read"),
        (("reader", "io_stat", C), ANY),
    ],
}

V1: dict[str, Script] = {
    "load": LOAD,
    "a burst is at most the quota, in either order": [
        (("write", C, "cpu.cfs_quota_us", "50000"), ""),
        (("write", C, "cpu.cfs_burst_us", "50001"), "EINVAL"),
        (("write", C, "cpu.cfs_burst_us", "50000"), ""),
        (("write", C, "cpu.cfs_quota_us", "40000"), "EINVAL"),
        (
            ("batch", ("cpu.cfs_quota_us", C, 9000), ("cpu.cfs_burst_us", C, 9000)),
            [DONE, DONE],
        ),
        (
            ("trace",),
            [[C, "cpu.cfs_burst_us", "9000"], [C, "cpu.cfs_quota_us", "9000"]],
        ),
        (
            ("batch", ("cpu.cfs_burst_us", C, 90000), ("cpu.cfs_quota_us", C, 90000)),
            [DONE, DONE],
        ),
    ],
    "an idle cgroup has no shares": [
        (("write", C, "cpu.shares", "50"), ""),
        (("write", C, "cpu.idle", "1"), ""),
        (("write", C, "cpu.shares", "50"), "EINVAL"),
        (("write", C, "cpu.idle", "0"), ""),
        (("read", C, "cpu.shares"), "1024"),
        (("batch", ("cpu.idle", C, 1), ("cpu.shares", C, 70)), [DONE, DONE]),
        (("batch", ("cpu.shares", C, 80), ("cpu.idle", C, 0)), [DONE, DONE]),
        (("read", C, "cpu.shares"), "80"),
    ],
    "a quota per period fits between parent and child": [
        (("write", P, "cpu.cfs_quota_us", "50000"), ""),
        (("write", C, "cpu.cfs_quota_us", "60000"), "EINVAL"),
        (("write", C, "cpu.cfs_quota_us", "50000"), ""),
        (("write", P, "cpu.cfs_quota_us", "40000"), "EINVAL"),
        (("write", P, "cpu.cfs_period_us", "200000"), "EINVAL"),
        (("write", C, "cpu.cfs_period_us", "50000"), "EINVAL"),
        (("why", "cpu.cfs_quota_us", C, 60000), ANY),
        (("why", "cpu.cfs_quota_us", P, 20000), ANY),
        (("write", C, "cpu.cfs_quota_us", "-1"), ""),
    ],
    "a branch of quotas changes its periods as well": [
        *[(("write", name, "cpu.cfs_quota_us", "50000"), "") for name in (Q, P, C)],
        (
            (
                "leveled",
                *[
                    [("cpu.cfs_quota_us", n, 90000), ("cpu.cfs_period_us", n, 200000)]
                    for n in (Q, P, C)
                ],
            ),
            [DONE] * 6,
        ),
        (
            ("trace",),
            [
                [Q, "cpu.cfs_quota_us", "-1"],
                [Q, "cpu.cfs_period_us", "200000"],
                [P, "cpu.cfs_quota_us", "-1"],
                [P, "cpu.cfs_period_us", "200000"],
                [C, "cpu.cfs_period_us", "200000"],
                [C, "cpu.cfs_quota_us", "90000"],
                [P, "cpu.cfs_quota_us", "90000"],
                [Q, "cpu.cfs_quota_us", "90000"],
            ],
        ),
        (
            (
                "leveled",
                *[
                    [("cpu.cfs_quota_us", n, 90000), ("cpu.cfs_period_us", n, 50000)]
                    for n in (Q, P, C)
                ],
            ),
            [["skipped", ""], DONE] * 3,
        ),
        (("read", C, "cpu.cfs_quota_us"), "90000"),
        (("read", Q, "cpu.cfs_period_us"), "50000"),
    ],
    "memory is at most memory and swap, in either order": [
        (("write", C, "memory.memsw.limit_in_bytes", str(64 * MIB)), "EINVAL"),
        (
            (
                "batch",
                ("memory.memsw.limit_in_bytes", C, 64 * MIB),
                ("memory.limit_in_bytes", C, 64 * MIB),
            ),
            [DONE, DONE],
        ),
        (("write", C, "memory.limit_in_bytes", str(128 * MIB)), "EINVAL"),
        (
            (
                "batch",
                ("memory.limit_in_bytes", C, 128 * MIB),
                ("memory.memsw.limit_in_bytes", C, 128 * MIB),
            ),
            [DONE, DONE],
        ),
    ],
    "a cpuset needs its parents filled, and holds its children": [
        (("write", C, "cpuset.cpus", "0"), "EACCES"),
        (("batch", ("cpuset.cpus", C, "0-1")), [DONE]),
        (("read", Q, "cpuset.cpus"), "0-1"),
        (("batch", ("cpuset.mems", C, "0")), [DONE]),
        (("task", C), ""),
        (("write", P, "cpuset.cpus", "0"), "EBUSY"),
        (("write", C, "cpuset.cpus", "\n"), "ENOSPC"),
        (("leveled", *levels("cpuset.cpus", "1", "1", "1")), [DONE, DONE, DONE]),
        (("trace",), [[name, "cpuset.cpus", "1"] for name in (C, P, Q)]),
        (("leveled", *levels("cpuset.cpus", "0", "0", "0")), [DONE, DONE, DONE]),
        (
            ("trace",),
            [
                [Q, "cpuset.cpus", "0-1"],
                [P, "cpuset.cpus", "0-1"],
                [C, "cpuset.cpus", "0"],
                [P, "cpuset.cpus", "0"],
                [Q, "cpuset.cpus", "0"],
            ],
        ),
    ],
    "a limit below the use is refused": [
        (("use", C, 40 * MIB), "y"),
        (
            ("update", "memory.limit_in_bytes", C, 20 * MIB),
            ["failed", "EBUSY", "9223372036854771712", {}],
        ),
    ],
    "operations per second have 32 bits": [
        (("write", C, "blkio.throttle.read_iops_device", f"254:0 {1 << 32}"), ""),
        (("read", C, "blkio.throttle.read_iops_device"), "254:0 0"),
    ],
    "what the reader says of CPU time": [
        (("write", C, "cpu.cfs_quota_us", "20000"), ""),
        (("task", C, BURN), ""),
        (("printed",), "burnt"),
        (("reader", "cpu_usage", C), ANY),
        (("reader", "cpu_stat", C), ANY),
        (("reader", "cpu_quota", C), "20000"),
        (("reader", "cpu_period", C), "100000"),
        (("reader", "pids", C), "Pids(current=1, limit=-1)"),
        (("reader", "pressure", C, "cpu"), "None"),
    ],
    "what the reader says of a kill": [
        (("write", C, "memory.limit_in_bytes", str(20 * MIB)), ""),
        (("task", C, f"b'x' * {60 * MIB}"), ""),
        (("wait",), -9),
        (("reader", "memory_events", C), ANY),
    ],
    "what the reader says of disks": [
        (("write", C, "blkio.throttle.read_iops_device", "254:0 100000"), ""),
        (("task", C, READ), ""),
        (("printed",), "read"),
        (("reader", "io_stat", C), ANY),
    ],
}
CASES = {"containerd-2": V2, "v1": V1}
BOTH = pytest.mark.parametrize("node", CASES, indirect=True)

Answers = dict[str, list[Any]]


@pytest.fixture(scope="session")
def rules(node: Machine) -> Answers:
    """The answers of a node."""
    return run_cases(node, CASES[node.node.name])


@pytest.mark.parametrize("case", V2)
@pytest.mark.parametrize("node", ["containerd-2"], indirect=True)
def test_rule_of_v2(node: Machine, rules: Answers, case: str) -> None:
    """The kernel has the rule in the case's name, and the executor complies with it."""
    check(V2[case], rules[case])


@pytest.mark.parametrize("case", V1)
@pytest.mark.parametrize("node", ["v1"], indirect=True)
def test_rule_of_v1(node: Machine, rules: Answers, case: str) -> None:
    """The same on cgroup v1."""
    check(V1[case], rules[case])


def fields(text: str) -> dict[str, Any]:
    """Return the numbers of what a dataclass shows."""
    words = text.partition("(")[2].rstrip(")]").split(", ")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


@BOTH
def test_known_tasks_are_counted(node: Machine, rules: Answers) -> None:
    """The same tasks are the same numbers on both versions."""
    (row,) = json.loads(rules["load"][-1])["cgroups"]
    assert row["tasks"] == STATES


@BOTH
def test_burnt_time_is_seen(node: Machine, rules: Answers) -> None:
    """User and system time are all of it, and the quota was met."""
    usage, stat = (fields(a) for a in rules["what the reader says of CPU time"][3:5])
    total = int(usage["total_ns"])
    assert total > 300_000_000
    parts = int(usage["user_ns"]) + int(usage["system_ns"])
    assert abs(total - parts) < 100_000_000
    assert int(stat["periods"]) >= int(stat["throttled"]) > 0
    assert int(stat["throttled_ns"]) > 0


@BOTH
def test_a_kill_is_seen(node: Machine, rules: Answers) -> None:
    """One process was killed, after the limit had been met."""
    events = fields(rules["what the reader says of a kill"][-1])
    assert int(events["oom_kill"]) == 1
    assert int(events["max"]) > 0


@BOTH
def test_a_read_is_seen(node: Machine, rules: Answers) -> None:
    """The MiB that was read is there, and nothing written."""
    stat = rules["what the reader says of disks"][-1]
    assert stat.startswith("[IoStat(device='254:0', ")
    seen = fields(stat)
    assert int(seen["read_bytes"]) >= MIB
    assert (int(seen["reads"]) > 0, int(seen["written_bytes"])) == (True, 0)


@pytest.mark.parametrize("node", ["containerd-2"], indirect=True)
def test_pressure_of_a_throttled_cgroup(node: Machine, rules: Answers) -> None:
    """Its one task had to wait for the CPU."""
    pressure = rules["what the reader says of CPU time"][8]
    assert int(pressure.partition("total_us=")[2].partition(")")[0]) > 0


@pytest.mark.parametrize("node", ["containerd-2"], indirect=True)
def test_a_deadly_limit_is_told(node: Machine, rules: Answers) -> None:
    """The outcome says how much was in use, and the kernel that it killed."""
    answers = rules["a limit below the use is taken, kills, and we say so"]
    assert answers[1].endswith(
        "are in use: the kernel reclaims, and kills if it has to"
    )
    assert int(answers[1].split()[0]) > 40 * MIB
    assert int(fields(answers[-1])["oom_kill"]) == 1


@pytest.mark.parametrize("node", ["v1"], indirect=True)
def test_who_is_in_the_way_of_a_quota(node: Machine, rules: Answers) -> None:
    """The reason names the parent, or the child."""
    answers = rules["a quota per period fits between parent and child"]
    assert "; expected at most the 0.5 CPUs of /kubepods/" in answers[6]
    assert "; expected at least the 0.5 CPUs of " in answers[7]
