"""What a write to one file does to other files, on the kernels that do so.

* `cpu.idle` = 1 refuses every weight (EINVAL) and shows one that was never set; going
  back to 0 sets the default weight: 100, or on v1 1024 shares.
* Kernels from 5.14 on that lack a later fix (6.10) divide the burst by 1000 when
  `cpu.max` is written. The burst is read before and after, so it does not matter which
  kernels they are.
* v1 refuses a memory limit below the usage (EBUSY) if its reclaim did not get there;
  the next attempt often does. v2 takes the limit, reclaims, and then kills.
* v2 takes a cpuset that has no CPU in common with the parent's, and then treats it as
  empty.

`write_order` has the rules about the order of writes, `error_meanings` explains errors.
"""

from __future__ import annotations

from errno import EBUSY, EINTR
from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.kernel_text import CPU_MAX, PAGE_BYTES, number_in
from nriplugin.convert.cpu_list import parse_cpus
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from nriplugin.cgroup.files import Files
    from nriplugin.cgroup.writing.updates import Change

CPU_IDLE = "cpu.idle"
CPU_BURST = "cpu.max.burst"
CFS_QUOTA = "cpu.cfs_quota_us"
CFS_PERIOD = "cpu.cfs_period_us"
MEMORY_MAX = "memory.max"

# A write to one file -> the files beside it that hold something else afterwards.
SIDE_EFFECTS = {CPU_IDLE: ("cpu.weight", "cpu.shares")}
# What the kernel sets them to when `cpu.idle` goes back to 0.
_AFTER_IDLE = {"cpu.weight": "100", "cpu.shares": "1024"}


def neighbour(path: str, file: str) -> str:
    """Return the path of another file of the same cgroup and controller."""
    return f"{path.rpartition('/')[0]}/{file}"


def held(files: Files, path: str) -> str | None:
    """Return what a file holds, or None if it cannot be read."""
    try:
        return files.read(path).strip()
    except CgroupError:
        return None


def is_left_by_idle(path: str, content: str, idle: str | None) -> bool:
    """Whether `cpu.idle` may have set a weight, rather than a program that wrote it.

    Args:
        path: of the weight; `cpu.idle` changes no other file.
        content: what the weight's file holds.
        idle: what `cpu.idle` beside it holds. While that is 1, the kernel shows a
            weight that was never written, and refuses to take one.
    """
    default = _AFTER_IDLE.get(path.rpartition("/")[2])
    return default is not None and (idle == "1" or content == default)


def worth_retrying(file: str, errno: int) -> bool:
    """Whether the same write may succeed when it is done once more.

    v1 gives up on a lower memory limit after a few rounds of reclaim (EBUSY); the
    second write continues where they ended.
    """
    reclaimed = errno == EBUSY and file.endswith("limit_in_bytes")
    return reclaimed or errno == EINTR


def stored_burst(files: Files, change: Change) -> str | None:
    """Return the burst that a write of `cpu.max` might change; None if there is none.

    To be called before the write.
    """
    if change.resource.file != CPU_MAX:
        return None
    burst = held(files, neighbour(change.path, CPU_BURST))
    return None if burst in (None, "0") else burst


def keep_burst(files: Files, change: Change, burst: str) -> str:
    """Write the burst again if the write of `cpu.max` changed it.

    Returns:
        Why that failed; empty if the file holds the burst.
    """
    path = neighbour(change.path, CPU_BURST)
    if held(files, path) in (burst, None):
        return ""
    try:
        files.write(path, burst)
    except CgroupError as exc:
        return f"the kernel changed the burst as well: {exc}"
    return ""


def below_use(files: Files, change: Change) -> str:
    """Return what a v2 memory limit is about to do if more than that is in use.

    To be called before the write: the kernel takes the limit, reclaims, and kills
    processes where that is not enough.
    """
    if change.resource.file != MEMORY_MAX:
        return ""
    used = held(files, neighbour(change.path, "memory.current"))
    try:
        if (
            used is None
            or int(used) <= number_in(MEMORY_MAX, change.content) * PAGE_BYTES
        ):
            return ""
    except ValueError:
        return ""
    return f"{used} bytes are in use: the kernel reclaims, and kills if it has to"


def without_effect(files: Files, change: Change) -> str:
    """Return why a cpuset that v2 has taken has no effect; empty if it has one."""
    file = change.resource.file
    if change.resource.version != 2 or not file.startswith("cpuset."):
        return ""
    effective = held(files, f"{change.path}.effective")
    try:
        wanted = parse_cpus(change.content)
        if not wanted or effective is None or wanted & parse_cpus(effective):
            return ""
    except ValueError:
        return ""
    return f"the parent has none of it, so {effective!r} is in effect"
