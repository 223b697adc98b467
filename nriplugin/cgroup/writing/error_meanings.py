"""What the kernel's error numbers most likely mean for one file.

The kernel answers EINVAL for many reasons. These functions look at the files around the
one that was refused and name the rule that was broken:

* while `cpu.idle` is 1 there is no weight (EINVAL);
* a burst above the quota, or on v1 memory above memory and swap (EINVAL);
* v1: a quota per period above that of the nearest ancestor with a quota, or below that
  of a child (EINVAL), whichever of the two files is written;
* v1: a cpuset that its parent does not contain (EACCES), and on older v2 kernels as
  well one that does not contain its children's (EBUSY);
* a cpuset with tasks in or below it cannot be emptied (ENOSPC) on v1, nor on v2 up to
  Linux 6.12; with 7.2 it can.

Nothing here writes, and an error while looking leaves the meaning empty.
"""

from __future__ import annotations

from errno import EACCES, EBUSY, EINVAL, ENOSPC, ERANGE
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.kernel_text import amount, number_in
from nriplugin.cgroup.writing.quirks import (
    CFS_PERIOD,
    CFS_QUOTA,
    CPU_IDLE,
    held,
    neighbour,
)
from nriplugin.cgroup.writing.write_order import PAIRS, PARTNERS, WEIGHTS
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.updates import Change


def explain(tree: Tree, change: Change, errno: int) -> str:
    """Return what an error number most likely means for this file, or nothing."""
    file = change.resource.file
    if errno == EINVAL and file in WEIGHTS:
        if held(tree.files, neighbour(change.path, CPU_IDLE)) == "1":
            return "cpu.idle is 1, which allows no weight"
    elif errno == EINVAL and file in (*PARTNERS, *PARTNERS.values()):
        return _explain_pair(tree, change) or _explain_quota(tree, change)
    elif file.startswith("cpuset."):
        if errno == EACCES:
            return _explain_parent(tree, change)
        if errno == EBUSY:
            return "a child has something else, or it has deadline tasks"
        if errno == ENOSPC:
            return "it has tasks, which need at least one"
        if errno in (EINVAL, ERANGE):
            return "the node lacks some of it, or another cgroup has it exclusively"
    elif errno == EBUSY and file.endswith("limit_in_bytes"):
        return "more is in use, and it cannot be reclaimed"
    return ""


def _explain_pair(tree: Tree, change: Change) -> str:
    file = change.resource.file
    for smaller, larger in PAIRS.items():
        if file not in (smaller, larger):
            continue
        other = larger if file == smaller else smaller
        content = held(tree.files, neighbour(change.path, other))
        if content is None:
            return ""
        try:
            wanted, present = number_in(file, change.content), number_in(other, content)
        except (ValueError, IndexError):
            return ""
        if wanted > present if file == smaller else wanted < present:
            rule = "at most" if file == smaller else "at least"
            return f"expected {rule} {other}, which is {content!r}"
    return ""


def _explain_quota(tree: Tree, change: Change) -> str:
    """Return which cgroup above or below forbids a v1 cgroup's quota per period."""
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
    """Return v1's quota per period; `given` replaces what the files hold."""
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
    content = held(tree.files, tree.path(change.resource.type, parent))
    return "" if content is None else f"expected what its parent allows, {content!r}"
