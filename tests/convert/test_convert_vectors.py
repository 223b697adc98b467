"""Conversions compared with kernels, runtimes and agents (tests/data/vectors.json)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.vectors import REFUSED, Exceptions, Vector, all_vectors, each, vectors

from nriplugin.cgroup.writing.kernel_text import equal, same
from nriplugin.convert import Curve, Resources, convert
from nriplugin.convert.curves import shares_of, weight_of
from nriplugin.convert.readers import from_oci
from nriplugin.convert.validate import check
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Mapping

TESTS = Path(__file__).parents[1]
NODE = "only the node knows: "
STATE = "depends on the earlier content of the file: "

FUNCTIONS = Exceptions(
    {
        "fn/shares-linear/oldrunc-noclamp-1000000": "38144 is no weight: clamped",
        "fn/shares-linear/oldrunc-underflow-1": "it underflows: clamped to 2 shares",
        "fn/blkio/1": "it underflows, the kernel refuses the result: refused",
        "fn/blkio/9": "it underflows, the kernel refuses the result: refused",
        "fn/blkio/1001": "10010 is no weight: refused",
        "fn/blkio/65535": "661803 is no weight: refused",
        "fn/swap/memory=-2,swap=0": "the function lets a bad limit pass that the "
        "write of memory.max then fails on: refused",
        "koordlet/ConvertCPUSharesToWeight/1": "refused there, clamped here",
        "koordlet/ConvertCPUSharesToWeight/262145": "refused there, clamped here",
        "volcano/milliCPUToWeight/100": "102 shares stand for 99.6m: Volcano starts "
        "from milli-CPU, which no runtime is sent",
    }
)

KERNEL = Exceptions(
    {
        "kernel/idle:weight-after@6.12.107+7.2.12 step 4": STATE + "it was idle",
        "kernel/burst-q100000:100001 step 2": STATE + "the quota is smaller",
        "kernel/burst:lower-quota step 3": STATE + "the burst is larger",
        "kernel/burst:unlimited-then-quota step 2": STATE + "the burst is larger",
        "kernel/cpuset.cpus:'0-99' step 1": NODE + "it has 4 CPUs",
        "kernel/cpuset.mems:'1' step 1": NODE + "it has one NUMA node",
        "kernel/cpuset.mems:'0-1' step 1": NODE + "it has one NUMA node",
        "kernel/io.weight:MAJ:MIN 200": NODE + "the device has no iocost",
        "kernel/io.weight:MAJ:MIN default": NODE + "the device has no iocost",
        "kernel/io.weight:9:9 100": NODE + "no such device",
        "kernel/io.bfq.weight:9:9 100": NODE + "no such device",
        "kernel/io.max:9:9 rbps=1000": NODE + "no such device",
        "kernel/misc:nores": NODE + "no such resource",
    }
)

RUNC = "rt/runc-1.5.1/cgroupfs/"
RUNTIME = Exceptions(
    {
        RUNC + "nobfq/cpus='0-99'": NODE + "it has 4 CPUs",
        RUNC + "nobfq/mems=1": NODE + "it has one NUMA node",
        RUNC + "nobfq/huge bad size": NODE + "it has no pages of 3 MB",
        RUNC + "nobfq/rdma nodev": NODE + "no such device",
        RUNC + "nobfq/unified memory.zswap.max": NODE + "no such file",
        RUNC + "nobfq/unified io.bfq.weight=500": NODE + "no such file",
        RUNC + "nobfq/unified misc.max": NODE + "no such resource",
        RUNC + "nobfq/unified rdma.max": NODE + "no such device",
        RUNC + "nobfq/unified unknown memory.foo": NODE + "no such file",
        RUNC + "nobfq/unified unknown ctl foo.bar": NODE + "no such controller",
        RUNC + "nobfq/unified cgroup.nope": NODE + "no such file",
        RUNC + "nobfq/unified dmem.max": NODE + "no such controller",
        RUNC + "nobfq/unified cpu.idle=1,cpu.weight=200": "runc's order is random, "
        "and this once it was the one that works: refused",
    }
)

UPDATES = Exceptions(
    {
        RUNC + "nobfq/upd burst keep, lower quota update 1": STATE + "the burst",
        RUNC + "nobfq/upd quota only update 1": STATE + "runc keeps the period",
        RUNC + "nobfq/upd quota only update 2": STATE + "runc keeps the quota",
        RUNC + "nobfq/upd limit -1 after swap update 3": STATE + "runc keeps the swap",
        RUNC + "nobfq/upd unified burst raise update 3": STATE + "the burst",
        RUNC + "nobfq/upd unified burst raise #3 update 1": STATE + "the quota",
    }
)

NOT_CONVERTED = {
    "systemd-props/v24": "an older systemd; its properties are those of version 262",
    "systemd-props/v251/": "an older systemd; its properties are those of version 262",
    "rt/runc-1.5.1/systemd/": "rounded by systemd's driver",
    "rt/runc-1.5.1/cgroup-v1-host/": "no cgroup v2",
    "rt/runc-1.2.6/": "an older runc; its curve is fn/shares-linear",
    "rt/runc-head/": "systemd only",
    "rt/crun-": "where runc and crun differ, ours follows runc",
}

# Vectors that are no conversion, and the files with their tests.
ELSEWHERE = {
    "systemd-props/v262/": "cgroup/systemd/test_cgroup_systemd_properties.py",
    "systemd/RangeToBits/": "cgroup/systemd/test_cgroup_systemd_properties.py",
    "systemd/ExpandSlice/": "cgroup/locate/test_cgroup_paths.py",
    "k8s/path/": "cgroup/locate/test_cgroup_paths.py",
    "k8s/scope/": "cgroup/locate/test_cgroup_paths.py",
    "k8s/MilliCPUToShares/": "kube/test_kube_kubelet.py",
    "k8s/MilliCPUToQuota/": "kube/test_kube_kubelet.py",
    "k8s/seed004/": "kube/test_kube_capacity.py",
    "k8s/memory.high/": "kube/test_kube_memory_reservation.py",
    "k8s/LimitedSwap/": "kube/test_kube_memory_reservation.py",
    "volcano/cpu-burst/": "engine/test_engine_agents.py",
    "koordlet/cpuBurst/": "engine/test_engine_agents.py",
    "koordlet/cfsQuotaBurst/": "engine/test_engine_agents.py",
    "volcano/memoryqosv2/": "engine/test_engine_agents.py",
}

# The contents of a new cgroup's files.
UNTOUCHED = {
    "cpu.weight": "100",
    "cpu.idle": "0",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "cpuset.cpus": "",
    "cpuset.mems": "",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.low": "0",
    "io.weight": "default 100",
    "io.bfq.weight": "default 100",
    "io.max": "",
}


def files_of(document: object, **options: Any) -> dict[str, str] | str:
    """Return the files of OCI resources, or REFUSED."""
    try:
        return convert(from_oci(document), **options).files
    except ConversionError:
        return REFUSED


def shown(file: str, value: str, read: str) -> str:
    """Return what a new cgroup's file reads if it was given a value.

    That is `read` if the two mean the same to the kernel, and the value if they do not.
    """
    if file == "cpu.max" and len(value.split()) == 1:
        value += " 100000"  # the period of a new cgroup
    # A line of io.max may leave out keys, but a new cgroup has no other devices.
    alike = equal if file == "io.max" else same
    return read if alike(file, value, read) else value


def milli_to_shares(milli: int) -> int:
    return max(milli * 1024 // 1000, 2)  # kubelet's


# Functions


@each("fn/shares-linear/", "koordlet/ConvertCPUSharesToWeight/")
def test_the_kep_curve_is_that_of_kubelet_and_koordlet(vector: Vector) -> None:
    """The kep curve is the linear one of kubelet, Koordlet and the older runtimes."""
    theirs = REFUSED if vector.expect is None else next(iter(vector.expect.values()))
    ours = weight_of(vector.input["cpu.shares"], Curve.KEP)
    FUNCTIONS.compare(vector.id, str(ours), theirs)


@each("fn/shares-quadratic/")
def test_the_quadratic_curve_is_that_of_the_runtimes(vector: Vector) -> None:
    """The quadratic curve is that of today's runtimes, and 0 shares are none given."""
    files = files_of({"cpu": {"shares": vector.input["cpu.shares"]}})
    assert isinstance(files, dict)
    FUNCTIONS.compare(vector.id, files.get("cpu.weight"), vector.expect["cpu.weight"])


@each("koordlet/old-shares-to-weight/")
def test_the_proportional_curve_is_systemds(vector: Vector) -> None:
    """The proportional curve is systemd's, and Koordlet's before 1.3."""
    ours = weight_of(vector.input["cpu.shares"], Curve.PROPORTIONAL)
    FUNCTIONS.compare(vector.id, str(ours), vector.expect["cpu.weight"])


@each("volcano/milliCPUToWeight/")
def test_the_proportional_curve_is_volcanos(vector: Vector) -> None:
    """From the shares of a request, the proportional curve gives Volcano's weight."""
    shares = milli_to_shares(vector.input["milliCPU"])
    ours = weight_of(shares, Curve.PROPORTIONAL)
    FUNCTIONS.compare(vector.id, str(ours), vector.expect["cpu.weight"])


@each("volcano/milliCPUToMax/")
def test_a_limit_is_the_cpu_max_of_volcano(vector: Vector) -> None:
    """From the quota of a limit comes Volcano's cpu.max."""
    quota = max(vector.input["milliCPU"] * 100, 1000)
    ours = files_of({"cpu": {"quota": quota}})
    FUNCTIONS.compare(vector.id, ours, vector.expect)


@each("k8s/pod-or-qos-level-weight/", "k8s/container-level-weight-new/")
def test_requests_have_the_weights_that_kubernetes_gives(vector: Vector) -> None:
    """A request has kubelet's weight by kep, and the runtime's by quadratic."""
    curve = Curve.KEP if "pod-or-qos" in vector.id else Curve.QUADRATIC
    shares = milli_to_shares(vector.input["milliCPU"])
    ours = {"cpu.shares": str(shares), "cpu.weight": str(weight_of(shares, curve))}
    FUNCTIONS.compare(vector.id, ours, vector.expect)


@each("k8s/cpuWeightToCPUShares/")
def test_the_way_back_is_kubelets(vector: Vector) -> None:
    """The kep curve's way back is the one by which kubelet reports a status."""
    ours = shares_of(vector.input["cpu.weight"], Curve.KEP)
    FUNCTIONS.compare(vector.id, ours, vector.expect["cpu.shares"])


@each("fn/blkio/")
def test_io_weights_are_those_of_the_library(vector: Vector) -> None:
    """Without BFQ a v1 weight is scaled as runc scales it, and 0 is none given."""
    ours = files_of({"blockIO": {"weight": vector.input["blockIO.weight"]}})
    written = {file: value for file, value in vector.expect.items() if value}
    FUNCTIONS.compare(vector.id, ours, written)


@each("fn/swap/")
def test_swap_is_that_of_the_library(vector: Vector) -> None:
    """Swap is memory and swap together less memory; 0 is none given, -1 no limit."""
    limit, swap = vector.input["memory.limit"], vector.input["memory.swap"]
    files = files_of({"memory": {"limit": limit, "swap": swap}})
    ours = files if isinstance(files, str) else files.get("memory.swap.max")
    result: int | str = REFUSED if vector.error else vector.expect["return"]
    special: dict[int | str, str | None] = {0: None, -1: "max"}
    theirs = special.get(result, str(result))
    FUNCTIONS.compare(vector.id, ours, theirs)


# Kernels


class Write(NamedTuple):
    """One write to a file, and what became of it."""

    name: str
    file: str
    value: str
    read: str  # afterwards
    error: str | None


def writes() -> list[Write]:
    result = []
    for vector in vectors("kernel/"):
        if "write" in vector.input:
            ((file, value),) = vector.input["write"].items()
            read = vector.expect[file]
            result.append(Write(vector.id, file, value, read, vector.error))
        else:
            steps = zip(vector.input["steps"], vector.expect["steps"], strict=True)
            result += [
                Write(
                    f"{vector.id} step {number}",
                    step["file"],
                    step["write"],
                    outcome["value"],
                    outcome.get("error"),
                )
                for number, (step, outcome) in enumerate(steps, 1)
                if "write" in step
            ]
    return result


each_write = pytest.mark.parametrize(
    "write", writes(), ids=[write.name for write in writes()]
)


@each_write
def test_the_check_refuses_what_the_kernel_refuses(write: Write) -> None:
    """A value is refused if the kernel refuses it, and only then."""
    try:
        check(write.file, write.value)
        ours = "accepted"
    except ConversionError:
        ours = REFUSED
    KERNEL.compare(write.name, ours, REFUSED if write.error else "accepted")


@pytest.mark.parametrize(
    "write",
    accepted := [w for w in writes() if not w.error and w.value.strip()],
    ids=[write.name for write in accepted],
)
def test_a_file_holds_what_it_was_given(write: Write) -> None:
    """A value and what the kernel makes of it are recognised as the same."""
    assert shown(write.file, write.value, write.read) == write.read


# Runtimes


def in_the_cgroup(files: Mapping[str, str], read: Mapping[str, str]) -> dict[str, str]:
    """Return what the files that were read would say, had ours been written."""
    result = {}
    for file in read:
        if file == "cpuset.cpus.effective":  # follows from the node
            result[file] = read[file]
        elif files.get(file, "").strip():
            result[file] = shown(file, files[file], read[file])
        else:
            result[file] = UNTOUCHED.get(file, "never written")
    if result.get("cpu.idle") == "1":
        result["cpu.weight"] = "1"
    return result


@each(RUNC)
def test_files_are_what_runc_writes(vector: Vector) -> None:
    """A cgroup is as runc leaves it; where runc fails, ours refuses or says why."""
    try:
        conversion = convert(
            from_oci(vector.input["linux.resources"]),
            bfq=vector.id.startswith(RUNC + "bfq/"),
        )
    except ConversionError:
        RUNTIME.compare(vector.id, REFUSED, REFUSED if vector.error else vector.expect)
        return
    if vector.error:
        noted = bool(conversion.clamped or conversion.dropped)
        RUNTIME.compare(vector.id, "noted" if noted else "not noted", "noted")
        return
    ours = in_the_cgroup(conversion.files, vector.expect)
    RUNTIME.compare(vector.id, ours, vector.expect)


def updates() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{vector.id} update {number}", step)
        for vector in vectors(RUNC)
        for number, step in enumerate(vector.then, 1)
    ]


@pytest.mark.parametrize(
    ("name", "step"), updates(), ids=[name for name, _ in updates()]
)
def test_updates_are_what_runc_writes(name: str, step: dict[str, Any]) -> None:
    """An update's own resources give the files that runc writes for it."""
    files = files_of(step["update"])
    if isinstance(files, str):
        UPDATES.compare(name, REFUSED, REFUSED if "error" in step else step["expect"])
    elif "error" in step:
        UPDATES.compare(name, files, REFUSED)
    else:
        written = {file: step["expect"].get(file) for file in files}
        read = {f: shown(f, value, written[f] or "") for f, value in files.items()}
        UPDATES.compare(name, read, written)


# The lists


def test_every_exception_is_about_a_vector() -> None:
    """No exception is listed for a vector that is not there."""
    ids = {vector.id for vector in all_vectors()}
    assert FUNCTIONS.reasons.keys() <= ids
    assert RUNTIME.reasons.keys() <= {vector.id for vector in vectors(RUNC)}
    assert KERNEL.reasons.keys() <= {write.name for write in writes()}
    assert UPDATES.reasons.keys() <= {name for name, _ in updates()}


def test_every_vector_is_tested_or_known_to_be_none_of_ours() -> None:
    """No kind of vector is forgotten, and none is listed that is not there."""
    tested = (
        "fn/",
        "kernel/",
        RUNC,
        "koordlet/ConvertCPUSharesToWeight/",
        "koordlet/old-shares-to-weight/",
        "volcano/milliCPUToWeight/",
        "volcano/milliCPUToMax/",
        "k8s/pod-or-qos-level-weight/",
        "k8s/container-level-weight-new/",
        "k8s/cpuWeightToCPUShares/",
    )
    for vector in all_vectors():
        matches = [
            prefix
            for prefix in (*tested, *ELSEWHERE, *NOT_CONVERTED)
            if vector.id.startswith(prefix)
        ]
        assert len(matches) == 1, vector.id
    for prefix in NOT_CONVERTED:
        assert vectors(prefix)
    for prefix, file in ELSEWHERE.items():
        assert f'"{prefix}' in (TESTS / file).read_text(), file


@pytest.mark.parametrize(
    ("shares", "used"), [(1, 2), (262_145, 262_144), (1_000_000, 262_144)]
)
@pytest.mark.parametrize("curve", list(Curve))
def test_what_others_refuse_or_get_wrong_is_clamped_and_said(
    shares: int, used: int, curve: Curve
) -> None:
    """Shares out of range are moved into it, and the result says so."""
    conversion = convert(Resources(shares=shares), curve)
    assert conversion.files == convert(Resources(shares=used), curve).files
    ((field, given, now, reason),) = conversion.clamped
    assert (field, given, now) == ("cpu.shares", shares, used)
    assert reason
