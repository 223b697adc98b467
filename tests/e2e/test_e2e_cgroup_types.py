"""Every settable type against the kernels of a v2 and a v1 node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.guestcases import Script, check, run_cases

from nriplugin.cgroup.types.registry import Registry

if TYPE_CHECKING:
    from nodes.machine import Machine

pytestmark = pytest.mark.timeout(1800)

MIB = 1 << 20
C = "container"

# Type -> what is set, what the file then holds, what we read.
V2: dict[str, tuple[Any, str, Any]] = {
    "cpu.weight": (250, "250", 250),
    "cpu.idle": (1, "1", 1),
    "cpu.cfs_quota_us": (30000, "30000 100000", 30000),
    "cpu.cfs_period_us": (50000, "max 50000", 50000),
    "cpu.cfs_burst_us": (1000, "1000", 1000),
    "cpuset.cpus": ("1", "1", "1"),
    "cpuset.mems": ("0", "0", "0"),
    "memory.limit_in_bytes": (64 * MIB + 1, str(64 * MIB), 64 * MIB),
    "memory.swap.max": (0, "0", 0),
    "memory.min": (MIB + 4095, str(MIB), MIB),
    "memory.low": (2 * MIB, str(2 * MIB), 2 * MIB),
    "memory.high": (128 * MIB, str(128 * MIB), 128 * MIB),
    "memory.oom.group": (1, "1", 1),
    "pids.max": (55, "55", 55),
    "io.weight": (77, "default 77", {"default": 77}),
    "io.bfq.weight": (66, "default 66", {"default": 66}),
    "blkio.throttle.read_bps_device": (
        "254:0 1000000",
        "254:0 rbps=1000000 wbps=max riops=max wiops=max",
        {"254:0": 1000000},
    ),
    "blkio.throttle.write_bps_device": (
        "254:0 2000000",
        "254:0 rbps=max wbps=2000000 riops=max wiops=max",
        {"254:0": 2000000},
    ),
    "blkio.throttle.read_iops_device": (
        "254:0 300",
        "254:0 rbps=max wbps=max riops=300 wiops=max",
        {"254:0": 300},
    ),
    "blkio.throttle.write_iops_device": (
        "254:0 400",
        "254:0 rbps=max wbps=max riops=max wiops=400",
        {"254:0": 400},
    ),
    "io.max": (
        "254:0 rbps=1000000 wiops=5",
        "254:0 rbps=1000000 wbps=max riops=max wiops=5",
        {"254:0": {"rbps": 1000000, "wbps": -1, "riops": -1, "wiops": 5}},
    ),
    "hugetlb.2MB.limit_in_bytes": (5 * MIB, str(4 * MIB), 4 * MIB),
}
V1: dict[str, tuple[Any, str, Any]] = {
    "cpu.shares": (512, "512", 512),
    "cpu.idle": (1, "1", 1),
    "cpu.cfs_quota_us": (30000, "30000", 30000),
    "cpu.cfs_period_us": (50000, "50000", 50000),
    "cpu.cfs_burst_us": (1000, "1000", 1000),
    "cpuset.cpus": ("1", "1", "1"),
    "cpuset.mems": ("0", "0", "0"),
    "memory.limit_in_bytes": (64 * MIB + 1, str(64 * MIB), 64 * MIB),
    "memory.memsw.limit_in_bytes": (-1, "9223372036854771712", -1),
    "pids.max": (55, "55", 55),
    "blkio.bfq.weight": (66, "66", {"default": 66}),
    "blkio.throttle.read_bps_device": ("254:0 9000", "254:0 9000", {"254:0": 9000}),
    "blkio.throttle.write_bps_device": ("254:0 8000", "254:0 8000", {"254:0": 8000}),
    "blkio.throttle.read_iops_device": ("254:0 300", "254:0 300", {"254:0": 300}),
    "blkio.throttle.write_iops_device": ("254:0 400", "254:0 400", {"254:0": 400}),
    "hugetlb.2MB.limit_in_bytes": (5 * MIB, str(4 * MIB), 4 * MIB),
}
V1["io.bfq.weight"] = V1.pop("blkio.bfq.weight")

# A write that changes other files, too. The kernel's own rule, or what we have to do.
ALSO: dict[tuple[int, str], dict[str, str]] = {
    (2, "cpu.idle"): {"container cpu.weight": "1"},
    (1, "cpu.idle"): {"container cpu.shares": "3"},
    (1, "io.bfq.weight"): {"container blkio.bfq.weight_device": "default 66"},
    (1, "cpuset.cpus"): {"qos cpuset.cpus": "0-1", "pod cpuset.cpus": "0-1"},
    (1, "cpuset.mems"): {"qos cpuset.mems": "0", "pod cpuset.mems": "0"},
}

# Type -> the end of the reason why these kernels do not have it.
LACKING = {
    "cpu.qos_level": "it needs an openEuler kernel",
    "cpu.bvt_warp_ns": "it needs an Anolis kernel",
    "memory.qos_level": "it needs an openEuler kernel",
    "hugetlb.64KB.limit_in_bytes": "it needs huge pages of 64KB",
    "hugetlb.32MB.limit_in_bytes": "it needs huge pages of 32MB",
    # Not of the emulated CPU.
    "hugetlb.1GB.limit_in_bytes": "it needs huge pages of 1GB",
}
LACKING_V1 = LACKING | {
    "blkio.weight": "it needs the CFQ scheduler, Linux before 5.0",
    **dict.fromkeys(
        ("memory.min", "memory.low", "memory.high", "memory.oom.group"),
        "it needs an Anolis kernel, or cgroup v2",
    ),
}

# Type -> values that are refused; the file then holds what it held, and so do others.
# With an error number it was the kernel that refused.
REFUSED: dict[str, list[tuple[Any, str]]] = {
    "cpu.weight": [(0, ""), (10001, "")],
    "cpu.idle": [(2, "")],
    "cpu.cfs_quota_us": [(999, ""), (1 << 44, ""), ("many", "")],
    "cpu.cfs_period_us": [(999, ""), (1_000_001, "")],
    "cpu.cfs_burst_us": [(-1, "")],
    "cpuset.cpus": [("500", "ERANGE"), ("x", ""), ("1-0", "")],
    "cpuset.mems": [("63", "EINVAL")],
    "memory.limit_in_bytes": [(-2, ""), ("1x", "")],
    "memory.oom.group": [(2, "")],
    "pids.max": [((1 << 22) + 1, "")],
    "io.weight": [(10001, "")],
    "io.max": [("240:9 rbps=5", "ENODEV"), ("254:0 rbps=0", ""), ("254:0 x=1", "")],
    "blkio.throttle.read_bps_device": [("240:9 5", "ENODEV"), ("254:0", "")],
}
REFUSED_V1: dict[str, list[tuple[Any, str]]] = {
    "cpu.shares": [(1, ""), (262_145, "")],
    "blkio.throttle.read_iops_device": [(f"254:0 {1 << 32}", "")],
    **{
        kind: refused
        for kind, refused in REFUSED.items()
        if kind in V1 and kind not in ("cpu.weight", "cpuset.cpus", "cpuset.mems")
    },
}

NODES = {"containerd-2": 2, "v1": 1}


def scripts(version: int) -> dict[str, Script]:
    """Return one case for each type that these kernels have, and those refused."""
    found: dict[str, Script] = {}
    for resource in Registry(version):
        kind = str(resource.type)
        values = (V2 if version == 2 else V1).get(kind)
        if values is None:
            continue
        value, text, read = values
        also = ALSO.get((version, kind), {})
        found[f"set {kind}"] = [
            (("update", kind, C, value), ["written", "", text, also]),
            (("read", C, resource.file), text),
            (("get", kind, C), read),
            (("set", kind, C, value), ""),
            (("read", C, resource.file), text),
        ]
    for kind, refused in (REFUSED if version == 2 else REFUSED_V1).items():
        file = Registry(version).get(kind).file
        script: Script = []
        for value, number in refused:
            held = FRESH[version][file]
            script.append((("update", kind, C, value), ["failed", number, held, {}]))
        found[f"refuse {kind}"] = script
    return found


# What the files of a new cgroup hold.
FRESH = {
    2: {
        "cpu.weight": "100",
        "cpu.idle": "0",
        "cpu.max": "max 100000",
        "cpu.max.burst": "0",
        "cpuset.cpus": "",
        "cpuset.mems": "",
        "memory.max": "max",
        "memory.oom.group": "0",
        "pids.max": "max",
        "io.weight": "default 100",
        "io.max": "",
    },
    1: {
        "cpu.shares": "1024",
        "cpu.idle": "0",
        "cpu.cfs_quota_us": "-1",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_burst_us": "0",
        "memory.limit_in_bytes": "9223372036854771712",
        "pids.max": "max",
        "blkio.throttle.read_bps_device": "",
        "blkio.throttle.read_iops_device": "",
    },
}
SCRIPTS = {node: scripts(version) for node, version in NODES.items()}
each_node = pytest.mark.parametrize("node", NODES, indirect=True)


def lacking(node: str) -> dict[str, str]:
    return LACKING if NODES[node] == 2 else LACKING_V1


@pytest.fixture(scope="session")
def kinds(node: Machine) -> dict[str, list[Any]]:
    """The answers of a node."""
    support: Script = [
        (("supported", str(resource.type), C), None)
        for resource in Registry(NODES[node.node.name])
    ]
    cases = {"support": support, **SCRIPTS[node.node.name]}
    return run_cases(node, cases)


@pytest.mark.parametrize("case", SCRIPTS["containerd-2"])
@pytest.mark.parametrize("node", ["containerd-2"], indirect=True)
def test_kernel_and_we_agree_on_v2(
    node: Machine, kinds: dict[str, list[Any]], case: str
) -> None:
    """A value is in the file as the kernel spells it and read back as it was meant.

    What is refused changes nothing, in this file or any other of the controller.
    """
    check(SCRIPTS["containerd-2"][case], kinds[case])


@pytest.mark.parametrize("case", SCRIPTS["v1"])
@pytest.mark.parametrize("node", ["v1"], indirect=True)
def test_kernel_and_we_agree_on_v1(
    node: Machine, kinds: dict[str, list[Any]], case: str
) -> None:
    """The same on cgroup v1."""
    check(SCRIPTS["v1"][case], kinds[case])


@each_node
def test_every_type_is_known_to_be_there_or_not(
    node: Machine, kinds: dict[str, list[Any]]
) -> None:
    """Every type that can be set was set, or says why this kernel lacks it."""
    version = NODES[node.node.name]
    tried = V2 if version == 2 else V1
    for resource, (supported, reason) in zip(
        Registry(version), kinds["support"], strict=True
    ):
        kind = str(resource.type)
        if resource.content.check is None:
            continue
        assert supported == (kind in tried), kind
        if not supported:
            assert reason.endswith(lacking(node.node.name)[kind]), reason
