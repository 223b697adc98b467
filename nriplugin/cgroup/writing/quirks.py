"""What the kernel wants done in one order only, and what its refusals mean.

* burst <= quota at all times, and on v1 memory <= memory+swap. Whichever of a pair is
  the smaller one goes first if it fits below what the larger one is *now*; else it
  goes second. This works for every pair of values that is valid in the end.
* `cpu.idle` 1 refuses a weight (EINVAL), and going back to 0 sets the default weight:
  100, or on v1 1024 shares.
* Kernels from 5.14 on that lack a later fix (6.10) divide the burst by 1000 when
  `cpu.max` is written. It is looked at, so it does not matter which ones they are.
* v1: lowering a memory limit below the usage is EBUSY when reclaim did not get there
  the first time. A cpuset whose parent is empty, or does not hold it, is EACCES; one
  that no longer holds its children is EBUSY (on older v2 kernels, too). A quota per
  period above that of the next one above that has any is EINVAL, and so is one below
  a child's, whichever of the two files is written.
* v2 lowers a memory limit below the usage: it reclaims, and then kills.
* A cpuset with tasks in or below it cannot be emptied (ENOSPC), on v2 neither with
  6.12; with 7.2 it can.
* v2 takes a cpuset that has nothing in common with the parent's, and then does as if it
  were empty.
"""

from __future__ import annotations

from errno import EACCES, EBUSY, EINTR, EINVAL, ENOSPC, ERANGE
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.kernel_text import CPU_MAX, PAGE_BYTES, number_in, same
from nriplugin.cgroup.writing.updates import Change, amount
from nriplugin.convert.cpu_list import parse_cpus
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nriplugin.cgroup.files import Files
    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree

CPU_IDLE = "cpu.idle"
CPU_BURST = "cpu.max.burst"
CFS_QUOTA = "cpu.cfs_quota_us"
CFS_PERIOD = "cpu.cfs_period_us"
MEMORY_MAX = "memory.max"

# The smaller one -> the larger one, which is never below it.
_PAIRS = {
    CPU_BURST: CPU_MAX,
    "cpu.cfs_burst_us": CFS_QUOTA,
    "memory.limit_in_bytes": "memory.memsw.limit_in_bytes",
}
_PARTNERS = {**_PAIRS, CFS_PERIOD: CFS_QUOTA}
_WEIGHTS = ("cpu.weight", "cpu.weight.nice", "cpu.shares")
_ORDERED = frozenset((*_PARTNERS, *_PARTNERS.values(), *_WEIGHTS, CPU_IDLE))

# A write to one file -> the files beside it that then hold something else.
SIDE_EFFECTS = {CPU_IDLE: ("cpu.weight", "cpu.shares")}
# What these are when `cpu.idle` goes back to 0.
_AFTER_IDLE = {"cpu.weight": "100", "cpu.shares": "1024"}


def needed(changes: Iterable[Change], *, always: bool = False) -> list[Change]:
    """Leave out what a file holds already, unless another change is going to spoil it.

    The rest, which with `always` is everything, is in the order in which the kernel
    takes the changes of one cgroup.
    """
    changes = list(changes)
    if always:
        return _ordered(changes)
    spoilt = {
        (change.cgroup, file)
        for change in changes
        for file in SIDE_EFFECTS.get(change.resource.file, ())
        if not _holds(change)
    }
    return _ordered(
        [c for c in changes if not _holds(c) or (c.cgroup, c.resource.file) in spoilt]
    )


def _holds(change: Change) -> bool:
    return same(change.resource.file, change.content, change.current)


def _ordered(changes: Sequence[Change]) -> list[Change]:
    """Return changes in the order given, except where the kernel wants another."""
    places = {
        (change.cgroup, change.resource.file): place
        for place, change in enumerate(changes)
        if change.resource.file in _ORDERED
    }
    after: dict[int, list[int]] = {}
    for (cgroup, file), place in places.items():
        partner = CPU_IDLE if file in _WEIGHTS else _PARTNERS.get(file, "")
        other = places.get((cgroup, partner))
        if other is not None:
            first = _goes_first(changes[place], changes[other])
            before, then = (place, other) if first else (other, place)
            after.setdefault(then, []).append(before)
    # Nothing waits for more than two others, and never for one that waits for it.
    order: dict[int, None] = {}

    def take(place: int) -> None:
        for earlier in after.get(place, ()):
            take(earlier)
        order[place] = None

    for place in range(len(changes)):
        take(place)
    return [changes[place] for place in order]


def _goes_first(change: Change, other: Change) -> bool:
    if other.resource.file == CPU_IDLE:
        return other.content.strip() == "1"
    try:
        if change.resource.file == CFS_PERIOD:
            return _period_first(change, other)
        smaller = number_in(change.resource.file, change.content)
        return smaller <= number_in(other.resource.file, other.current)
    except (ValueError, IndexError):
        return True


def _period_first(period: Change, quota: Change) -> bool:
    """Whether v1's period goes before its quota: the lesser share is never too large.

    Without a quota the period means nothing; that is the time to change it.
    """
    before, then = amount(quota.current), amount(quota.content)
    if inf in (before, then):
        return before == inf
    return before / int(period.content) <= then / int(period.current)


def neighbour(path: str, file: str) -> str:
    """Return the path of another file of the same cgroup and controller."""
    return f"{path.rpartition('/')[0]}/{file}"


def is_left_by_idle(path: str, content: str, idle: str | None) -> bool:
    """Whether a weight may be the work of `cpu.idle`, rather than somebody's wish.

    Args:
        path: of the weight; no other file is left by idle.
        content: what it holds.
        idle: what `cpu.idle` holds beside it; as long as that is 1, the kernel shows a
            weight that nobody has set, and takes none.
    """
    default = _AFTER_IDLE.get(path.rpartition("/")[2])
    return default is not None and (idle == "1" or content == default)


def worth_retrying(file: str, errno: int) -> bool:
    """Whether the same write may well succeed when it is simply done again."""
    reclaimed = errno == EBUSY and file.endswith("limit_in_bytes")
    return reclaimed or errno == EINTR


def stored_burst(files: Files, change: Change) -> str | None:
    """Return the burst that a write of the quota might spoil, if there is one."""
    if change.resource.file != CPU_MAX:
        return None
    burst = held(files, neighbour(change.path, CPU_BURST))
    return None if burst in (None, "0") else burst


def keep_burst(files: Files, change: Change, burst: str) -> str:
    """Put the burst back after the quota was written; return why it did not work."""
    path = neighbour(change.path, CPU_BURST)
    if held(files, path) in (burst, None):
        return ""
    try:
        files.write(path, burst)
    except CgroupError as exc:
        return f"the kernel changed the burst as well: {exc}"
    return ""


def below_use(files: Files, change: Change) -> str:
    """Return what a lower limit is about to do, if more than that is in use.

    v2's kernel takes it, reclaims, and kills where that is not enough; v1's refuses.
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
    """Return why a cpuset that was taken has no effect, if it has none."""
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


def unfilled_parents(tree: Tree, resource: Resource, cgroup: str) -> list[Change]:
    """Return what has to be written above a v1 cpuset first, from the top down.

    A new v1 cpuset is empty, and so is every one below it until its parent has
    something; each gets what the nearest ancestor with anything has.
    """
    if resource.version != 1 or resource.controller != "cpuset":
        return []
    empty: list[Change] = []
    while (cgroup := cgroup.rpartition("/")[0]) != "":
        path = tree.path(resource.type, cgroup)
        content = held(tree.files, path)
        if content is None:
            return []
        if content:
            break
        empty.append(
            Change(resource=resource, cgroup=cgroup, path=path, current="", content="")
        )
    else:
        content = held(tree.files, tree.path(resource.type, "/")) or ""
    for change in empty:
        change.content = content
    return empty[::-1] if content else []


def lift_quotas(tree: Tree, levels: Sequence[list[Change]]) -> None:
    """Let v1's quotas be none for a moment where a branch changes its periods.

    The two are two files, and what is between one write and the other may fit neither
    below the parent nor above the children. A quota that stays as it is is added.
    """
    changes = {(c.cgroup, c.resource.file): c for level in levels for c in level}
    for level in levels:
        for change in [*level]:
            if change.resource.file != CFS_PERIOD or _holds(change):
                continue
            quota = changes.get((change.cgroup, CFS_QUOTA))
            if quota is None:
                resource = tree.registry.get(Type.CPU_QUOTA)
                path = resource.path(change.cgroup)
                there = held(tree.files, path)
                if there in (None, "-1"):
                    continue
                quota = Change(
                    resource=resource,
                    cgroup=change.cgroup,
                    path=path,
                    current=str(there),
                    content=str(there),
                )
                level.append(quota)
            quota.through = "-1"


def explain(tree: Tree, change: Change, errno: int) -> str:
    """Return what an error number most likely means for this file, or nothing."""
    file = change.resource.file
    if errno == EINVAL and file in _WEIGHTS:
        if held(tree.files, neighbour(change.path, CPU_IDLE)) == "1":
            return "cpu.idle is 1, which allows no weight"
    elif errno == EINVAL and file in (*_PARTNERS, *_PARTNERS.values()):
        return _explain_pair(tree, change) or _explain_quota(tree, change)
    elif file.startswith("cpuset."):
        if errno == EACCES:
            return _explain_parent(tree, change)
        if errno == EBUSY:
            return "a child has something else, or it has deadline tasks"
        if errno == ENOSPC:
            return "it has tasks, which need at least one"
        if errno in (EINVAL, ERANGE):
            return "the node lacks some of it, or somebody has it exclusively"
    elif errno == EBUSY and file.endswith("limit_in_bytes"):
        return "more is in use, and it cannot be reclaimed"
    return ""


def _explain_pair(tree: Tree, change: Change) -> str:
    file = change.resource.file
    for smaller, larger in _PAIRS.items():
        if file not in (smaller, larger):
            continue
        other = larger if file == smaller else smaller
        there = held(tree.files, neighbour(change.path, other))
        if there is None:
            return ""
        try:
            ours, theirs = number_in(file, change.content), number_in(other, there)
        except (ValueError, IndexError):
            return ""
        if ours > theirs if file == smaller else ours < theirs:
            rule = "at most" if file == smaller else "at least"
            return f"expected {rule} {other}, which is {there!r}"
    return ""


def _explain_quota(tree: Tree, change: Change) -> str:
    """Return who above or below a v1 cgroup its quota per period does not fit to."""
    if change.resource.file not in (CFS_QUOTA, CFS_PERIOD):
        return ""
    wanted = _cpus(tree, change.cgroup, {change.resource.file: change.content})
    if wanted is None:
        return ""
    above, allowed = change.cgroup, inf
    while above not in ("", "/") and allowed == inf:
        above = above.rpartition("/")[0] or "/"
        allowed = _cpus(tree, above) or inf
    if wanted > allowed:
        return f"expected at most the {allowed:g} CPUs of {above}"
    try:
        names = tree.children(change.cgroup)
    except CgroupError:
        return ""
    for name in names:
        has = _cpus(tree, f"{change.cgroup}/{name}") or inf
        if wanted < has < inf:
            return f"expected at least the {has:g} CPUs of {name} below it"
    return ""


def _cpus(
    tree: Tree, cgroup: str, given: Mapping[str, str] = MappingProxyType({})
) -> float | None:
    """Return v1's quota per period, as it is or with other contents."""
    path = tree.path(Type.CPU_QUOTA, cgroup)
    quota = given.get(CFS_QUOTA) or held(tree.files, path)
    period = given.get(CFS_PERIOD) or held(tree.files, neighbour(path, CFS_PERIOD))
    if quota is None or period is None:
        return None
    try:
        return amount(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None


def _explain_parent(tree: Tree, change: Change) -> str:
    if change.resource.version != 1 or change.cgroup in ("", "/"):
        return ""
    parent = change.cgroup.rpartition("/")[0] or "/"
    there = held(tree.files, tree.path(change.resource.type, parent))
    return "" if there is None else f"expected what its parent allows, {there!r}"


def held(files: Files, path: str) -> str | None:
    """Return what a file holds, or None if it cannot be read."""
    try:
        return files.read(path).strip()
    except CgroupError:
        return None
