"""What a parent holds while a whole branch changes: the merge of old and new. Pure.

Some types have a rule between a parent and its children: a cpuset lies within its
parent's, and a v1 quota is at most its parent's. While a leveled update goes through
the branch, each parent holds the merge of its old and its new value, so that the old
and the new values of its children are both valid below it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.kernel_text import amount
from nriplugin.convert.cpu_list import parse_cpus, render_cpus

# (what the file holds, what is wanted) -> a value below which the children of both fit.
Merge = Callable[[str, str], str]


@lru_cache(maxsize=256)
def union(held: str, wanted: str) -> str:
    """Merge two lists of CPUs or memory nodes: the numbers of both.

    An empty list holds no CPUs on v1. On v2 it means "as the parent", and there a list
    that is too small is no error. So with an empty list the merge is the other one.
    """
    return render_cpus(parse_cpus(held) | parse_cpus(wanted))


def larger(held: str, wanted: str) -> str:
    """Merge two amounts: the larger; no limit (`max`, `-1`) is above any number."""
    return held if amount(held) >= amount(wanted) else wanted


# The types with a rule between parent and child. Quotas are merged by their number,
# which is right while the period stays; `write_order.lift_quotas` handles the rest.
MERGES: Mapping[str, Merge] = {
    Type.CPUSET_CPUS: union,
    Type.CPUSET_MEMS: union,
    Type.MEMORY_MIN: larger,
    Type.MEMORY_LOW: larger,
    Type.CPU_QUOTA: larger,
    Type.CPU_BURST: larger,
}
