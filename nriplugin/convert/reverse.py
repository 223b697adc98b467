"""`reverse`: from cgroup v2 files back to v1-style numbers. Pure.

For `nriplugin convert --reverse` and audits. Numbers are as OCI JSON has them, with -1
for no limit; a file without a v1 counterpart stays in `unified`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nriplugin.convert.curves import Curve, shares_of
from nriplugin.convert.model import UNLIMITED
from nriplugin.convert.validate import bytes_in, check

if TYPE_CHECKING:
    from collections.abc import Mapping


def reverse(files: Mapping[str, str], curve: Curve = Curve.QUADRATIC) -> dict[str, Any]:
    """Return OCI `linux.resources` that stand for these files.

    Raises:
        ConversionError: a file cannot have this value.
    """
    left = {file: value.strip() for file, value in files.items() if value.strip()}
    if left.get("cpu.idle") == "1":
        # The kernel shows a weight of 0 or 1 for an idle cgroup, which was never set.
        left.pop("cpu.weight", None)
    for file, value in left.items():
        check(file, value)
    result: dict[str, Any] = {}
    cpu = _reverse_cpu(left, curve)
    if cpu:
        result["cpu"] = cpu
    memory = _reverse_memory(left)
    if memory:
        result["memory"] = memory
    if "pids.max" in left:
        result["pids"] = {"limit": _number(left.pop("pids.max"))}
    hugepages = _reverse_hugetlb(left)
    if hugepages:
        result["hugepageLimits"] = hugepages
    weight = _reverse_io_weight(left)
    if weight is not None:
        result["blockIO"] = {"weight": weight}
    if left:
        result["unified"] = left
    return result


def _reverse_cpu(left: dict[str, str], curve: Curve) -> dict[str, Any]:
    cpu: dict[str, Any] = {}
    if "cpu.weight" in left:
        cpu["shares"] = shares_of(int(left.pop("cpu.weight")), curve)
    if "cpu.max" in left:
        quota, *period = left.pop("cpu.max").split()
        cpu["quota"] = _number(quota)
        if period:
            cpu["period"] = int(period[0])
    for file, field in (("cpu.max.burst", "burst"), ("cpu.idle", "idle")):
        if file in left:
            cpu[field] = int(left.pop(file))
    for file, field in (("cpuset.cpus", "cpus"), ("cpuset.mems", "mems")):
        if file in left:
            cpu[field] = left.pop(file)
    return cpu


def _reverse_memory(left: dict[str, str]) -> dict[str, Any]:
    memory: dict[str, Any] = {}
    if "memory.max" in left:
        memory["limit"] = _number(left.pop("memory.max"))
    if "memory.swap.max" in left:
        swap = _number(left["memory.swap.max"])
        limit: int = memory.get("limit", 0)
        # v1's swap is memory and swap together, so without a memory limit there is no
        # sum. Nor can v1 then express "no swap", because its 0 means "not given".
        if swap == -1 or limit > 0 or (limit == -1 and swap > 0):
            del left["memory.swap.max"]
            memory["swap"] = swap if swap == -1 or limit == -1 else limit + swap
    if "memory.low" in left:
        memory["reservation"] = _number(left.pop("memory.low"))
    return memory


def _reverse_hugetlb(left: dict[str, str]) -> list[dict[str, Any]]:
    limits = []
    for file in sorted(left):
        size = file.removeprefix("hugetlb.").removesuffix(".max")
        if file != f"hugetlb.{size}.max" or "." in size or left[file] == "max":
            continue
        limit = left.pop(file)
        limits.append({"pageSize": size, "limit": _number(limit)})
        if left.get(f"hugetlb.{size}.rsvd.max") == limit:
            del left[f"hugetlb.{size}.rsvd.max"]
    return limits


def _reverse_io_weight(left: dict[str, str]) -> int | None:
    for file in ("io.bfq.weight", "io.weight"):
        value = left.get(file, "").removeprefix("default ")
        if value.isdecimal():
            del left[file]
            weight = int(value)
            if file == "io.bfq.weight":
                return weight
            return 10 + -(-(weight - 1) * 990 // 9999)
    return None


def _number(text: str) -> int:
    """Return the number in a text that `check` has accepted; no limit is -1."""
    number = bytes_in(text)
    assert number is not None, text
    return -1 if number is UNLIMITED else number
