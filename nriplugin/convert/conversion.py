"""`convert`: from resources to cgroup v2 files, controller by controller.

Values that the user gave as cgroup v2 files (`unified`) replace derived ones at the
end. The files of the result are in an order in which a new cgroup takes them when they
are written one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.cpu import convert_cpu, convert_cpuset
from nriplugin.convert.curves import Curve
from nriplugin.convert.io import convert_io
from nriplugin.convert.memory import convert_memory
from nriplugin.convert.result import Conversion, Derived, Rule
from nriplugin.convert.small_controllers import (
    convert_hugetlb,
    convert_pids,
    convert_rdma,
)
from nriplugin.convert.validate import check, quota_in
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.convert.model import Resources

EXPLICIT_RULE = Rule(("unified",), "given as a cgroup v2 value, which wins")

V1_ONLY = {
    "cpu.realtimeRuntime": "cgroup v2 has no realtime bandwidth",
    "cpu.realtimePeriod": "cgroup v2 has no realtime bandwidth",
    "memory.kernel": "kernel memory is part of memory.max",
    "memory.kernelTCP": "kernel memory is part of memory.max",
    "memory.swappiness": "cgroup v2 has no swappiness per container",
    "memory.disableOOMKiller": "cgroup v2 cannot turn the OOM killer off",
    "memory.useHierarchy": "cgroup v2 is always hierarchical",
    "memory.checkBeforeUpdate": "a check by the runtime, not a value",
    "blockIO.leafWeight": "cgroup v2 has no leaf weights",
    "network.classID": "cgroup v2 has no net_cls",
    "network.priorities": "cgroup v2 has no net_prio",
}

# The kernel takes no weight while cpu.idle is 1 and no burst above the quota, so idle
# comes before the weight and the quota before the burst. A new cgroup takes all files
# in this order. (In an existing one, lowering both needs the burst first; see
# cgroup/writing/write_order.py.) All other files follow by name.
_ORDER = {
    file: rank
    for rank, file in enumerate(
        (
            "cpu.idle",
            "cpu.weight",
            "cpu.max",
            "cpu.max.burst",
            "cpuset.cpus",
            "cpuset.mems",
            "memory.max",
            "memory.swap.max",
            "memory.low",
            "pids.max",
            "hugetlb",  # all of its files
            "io.weight",
            "io.bfq.weight",
            "io.max",
            "rdma.max",
        )
    )
}


def convert(
    given: Resources, curve: Curve = Curve.QUADRATIC, *, bfq: bool = False
) -> Conversion:
    """Convert resources; `bfq` says whether the node has io.bfq.weight.

    Raises:
        ConversionError: a value has no valid counterpart; there is no partial result.
    """
    out = Conversion(curve)
    explicit = bool(given.unified)
    if explicit:
        given = _check_unified(given, out)
    convert_cpu(given, out)
    if given.cpus or given.mems:
        convert_cpuset(given, out)
    convert_memory(given, out)
    if given.pids_limit is not None:
        convert_pids(given, out)
    if given.hugepage_limits:
        convert_hugetlb(given, out)
    if given.io_weight is not None or given.io_device_weights or given.io_throttles:
        convert_io(given, out, bfq=bfq)
    if given.rdma:
        convert_rdma(given, out)
    for field, _ in given.v1_only:
        out.drop(field, V1_ONLY[field])
    if explicit:
        _apply_unified(given, out)
    return out


def _check_unified(given: Resources, out: Conversion) -> Resources:
    """Refuse names and values with which a runtime fails the container.

    Empty values are left out.
    """
    kept = {}
    for file, value in given.unified.items():
        controller, dot, parameter = file.partition(".")
        if "/" in file or not (controller and dot and parameter):
            raise ConversionError(
                "unified", file, "the name of a file, CONTROLLER.PARAMETER"
            )
        check(file, value)
        if value.strip():
            kept[file] = value
        else:
            out.drop(f"unified {file}", "an empty value changes nothing")
    return given._replace(unified=kept)


def _apply_unified(given: Resources, out: Conversion) -> None:
    """Replace derived values by those that the user gave.

    The two may contradict each other in ways that only the whole shows: a weight beside
    cpu.idle = 1, or a burst above the quota.
    """
    explicit = [
        Derived(file, value, EXPLICIT_RULE) for file, value in given.unified.items()
    ]
    derived = [entry for entry in out.derived if entry.file not in given.unified]
    out.derived = sorted(derived + explicit, key=_rank)
    files = out.files
    if files.get("cpu.idle", "").strip() == "1" and "cpu.weight" in files:
        raise ConversionError(
            "unified cpu.weight", files["cpu.weight"], "none beside cpu.idle = 1"
        )
    quota = quota_in(files.get("cpu.max", ""))
    burst = files.get("cpu.max.burst", "0")
    if isinstance(quota, int) and int(burst) > quota:
        raise ConversionError("unified cpu.max.burst", burst, f"at most {quota}")


def _rank(entry: Derived) -> tuple[int, str]:
    rank = _ORDER.get(entry.file)
    if rank is None:
        rank = _ORDER.get(entry.file.partition(".")[0], len(_ORDER))
    return rank, entry.file
