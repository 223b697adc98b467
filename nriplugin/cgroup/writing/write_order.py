"""The order in which the kernel takes the writes of one batch.

* A burst is never above the quota, and on v1 a memory limit never above the limit of
  memory and swap together (EINVAL). Of such a pair the smaller value goes first if it
  fits below what the larger file holds *now*, and second if not. With this rule every
  pair of values that is valid in the end is reached through valid states only.
* A weight is written before `cpu.idle` becomes 1, because an idle cgroup takes none,
  and after it becomes 0, because that resets the weight.
* v1 keeps quota and period in two files, and checks quota per period against the
  parent and the children at every write of either.
* A v1 cpuset takes no CPUs while its parent is empty, and a new one is empty.

Only `unfilled_parents` and `lift_quotas` read files; nothing here writes.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.kernel_text import CPU_MAX, amount, number_in, same
from nriplugin.cgroup.writing.quirks import (
    CFS_PERIOD,
    CFS_QUOTA,
    CPU_BURST,
    CPU_IDLE,
    SIDE_EFFECTS,
    held,
)
from nriplugin.cgroup.writing.updates import Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree

# The file with the smaller value -> the file with the larger one.
PAIRS = {
    CPU_BURST: CPU_MAX,
    "cpu.cfs_burst_us": CFS_QUOTA,
    "memory.limit_in_bytes": "memory.memsw.limit_in_bytes",
}
# A file -> the file of the same cgroup that its order depends on.
PARTNERS = {**PAIRS, CFS_PERIOD: CFS_QUOTA}
WEIGHTS = ("cpu.weight", "cpu.weight.nice", "cpu.shares")
_ORDERED = frozenset((*PARTNERS, *PARTNERS.values(), *WEIGHTS, CPU_IDLE))


def needed(changes: Iterable[Change], *, always: bool = False) -> list[Change]:
    """Return the changes to write, in an order that the kernel takes.

    A change of a file that already holds its content is left out, unless another change
    of the batch is going to overwrite that file as a side effect. With `always`, every
    change is returned.
    """
    changes = list(changes)
    if always:
        return _ordered(changes)
    overwritten = {
        (change.cgroup, file)
        for change in changes
        for file in SIDE_EFFECTS.get(change.resource.file, ())
        if not _holds(change)
    }
    return _ordered(
        [
            change
            for change in changes
            if not _holds(change)
            or (change.cgroup, change.resource.file) in overwritten
        ]
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
    # The place of a change -> the places of those that have to be written before it.
    after: dict[int, list[int]] = {}
    for (cgroup, file), place in places.items():
        partner = CPU_IDLE if file in WEIGHTS else PARTNERS.get(file, "")
        other = places.get((cgroup, partner))
        if other is not None:
            first = _goes_first(changes[place], changes[other])
            before, then = (place, other) if first else (other, place)
            after.setdefault(then, []).append(before)
    # The recursion is at most two deep (burst, quota, period) and has no cycle: each
    # pair of files waits in one direction only, and quota is the only file in two.
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
    """Whether v1's period goes before its quota.

    Between the two writes the cgroup has one old and one new number. The order is the
    one with the smaller quota per period in between, which is never too large for the
    parent. Without a quota the period has no effect, so it is changed while there is
    none.
    """
    before, then = amount(quota.current), amount(quota.content)
    if inf in (before, then):
        return before == inf
    return before / int(period.content) <= then / int(period.current)


def unfilled_parents(tree: Tree, resource: Resource, cgroup: str) -> list[Change]:
    """Return what has to be written above a v1 cpuset first, from the top down.

    A new v1 cpuset is empty, and takes nothing as long as its parent is empty, too.
    Each empty ancestor gets what the nearest ancestor that is not empty holds.
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
    """Take v1's quotas away between the two passes where a branch changes its periods.

    Quota and period are two files. Between the two writes a cgroup has one old and one
    new number, and this quota per period may be too large for its parent and too small
    for its children at once. Without a quota there is nothing to check. A quota that is
    not part of the batch is added to it, so that it is put back.
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
                content = held(tree.files, path)
                if content in (None, "-1"):
                    continue
                quota = Change(
                    resource=resource,
                    cgroup=change.cgroup,
                    path=path,
                    current=str(content),
                    content=str(content),
                )
                level.append(quota)
            quota.through = "-1"
