"""Measures containers and the node for policies at run time.

Only what a policy that is on needs is read (`Measure`). A file that the node lacks
makes its fields None; a cgroup that is gone makes the whole sample None.
"""

from __future__ import annotations

import os
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from nriplugin.cgroup.locate.paths import CRUN_INNER
from nriplugin.cgroup.tasks.states import GONE
from nriplugin.cgroup.types.reader import Reader
from nriplugin.cgroup.types.registry import Type
from nriplugin.engine.policies import (
    ContainerSample,
    Measure,
    MemoryCounts,
    NodeSample,
    Quota,
    StallTime,
)
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set

    from nriplugin.cgroup.types.formats import Pressure
    from nriplugin.cgroup.types.tree import Tree

# The fields of the first line of /proc/stat in which a CPU does nothing: idle, iowait.
_IDLE = (3, 4)
# user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user.
_FIELDS = 8

# Fields of a sample, and the counters of memory.stat that make them up.
_STAT_FIELDS = {
    "refaults": ("workingset_refault_anon", "workingset_refault_file"),
    "cache_bytes": ("active_file", "inactive_file"),
}

_Read = TypeVar("_Read")


class PolicySampler:
    """Reads samples. One thread uses it."""

    def __init__(
        self,
        tree: Tree,
        host_root: str = "/",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Read the cgroups of a tree, and the node's files in /proc.

        A container that has the host's root, or a part of it, at another place hardly
        ever has the host's /proc there. In these files its own /proc says the same.
        """
        self._tree = tree
        self._reader = Reader(tree)
        host = host_root.rstrip("/")
        proc = f"{host}/proc" if os.path.exists(f"{host}/proc/stat") else "/proc"
        # These are replaced by tests. The second one returns the node's CPU time in
        # ticks, the third how many CPUs are online, the fourth the size of all swap
        # areas in bytes.
        self.clock = clock
        self.cpu_ticks: Callable[[], tuple[int, int] | None] = partial(
            _cpu_ticks, f"{proc}/stat"
        )
        self.cpus: Callable[[], int] = partial(os.sysconf, "SC_NPROCESSORS_ONLN")
        self.swap_total: Callable[[], int | None] = partial(
            _swap_total, f"{proc}/meminfo"
        )
        # CPU time of the node in ticks when it was read last: busy, and all.
        self._cpu: tuple[int, int] | None = None

    def node(self, needs: Set[Measure]) -> NodeSample:
        """Return what happened on the node since the last call."""
        return NodeSample(
            self._cpu_share() if Measure.NODE_CPU in needs else None,
            self.cpus(),
            self.swap_total() if Measure.SWAP in needs else None,
        )

    def _cpu_share(self) -> float | None:
        before, self._cpu = self._cpu, self.cpu_ticks()
        if before is None or self._cpu is None:
            return None
        busy, total = (now - then for now, then in zip(self._cpu, before, strict=True))
        return min(max(busy / total, 0.0), 1.0) if total > 0 else None

    def container(
        self,
        cgroup: str,
        pod: str | None,
        needs: Set[Measure],
        original: Mapping[str, str],
    ) -> ContainerSample | None:
        """Return a sample of a container; None if its cgroup is gone.

        Raises:
            CgroupError: a file is there and cannot be read.
        """
        fields: dict[str, object] = {}
        if Measure.CPU in needs:
            self._cpu_fields(cgroup, fields)
        if Measure.QUOTA in needs:
            fields["quota"] = self._quota(cgroup)
            fields["pod_quota"] = None if pod is None else self._quota(pod)
        if Measure.MEMORY in needs:
            self._memory_fields(cgroup, fields)
        if Measure.PRESSURE in needs:
            for name in ("cpu", "memory", "io"):
                fields[f"{name}_stall"] = self._stall(cgroup, name)
        if Measure.SWAP in needs:
            fields["swap_bytes"] = self._number(cgroup, "memory.swap.current")
            if self._tree.version == 2:  # v1 has one limit for memory and swap
                fields["swap_max_bytes"] = self._bytes(Type.MEMORY_SWAP, cgroup)
        if Measure.PROTECTION in needs:
            fields["protected_bytes"] = self._protected(cgroup)
        if not needs.isdisjoint((Measure.REFAULTS, Measure.CACHE)):
            self._stat_fields(cgroup, fields)
        own = (value for name, value in fields.items() if name != "pod_quota")
        if all(value is None for value in own):
            return None
        return ContainerSample(self.clock(), original, **fields)  # type: ignore[arg-type]

    def _cpu_fields(self, cgroup: str, fields: dict[str, object]) -> None:
        """Read use and throttling.

        Under systemd, crun gives an inner cgroup the same quota as the outer one. Any
        of the two may be throttled.
        """
        usage = _if_there(lambda: self._reader.cpu_usage(cgroup))
        stats = [_if_there(lambda: self._reader.cpu_stat(cgroup))]
        inner = f"{cgroup}/{CRUN_INNER}"
        if self._tree.version == 2 and self._tree.files.exists(inner):
            stats.append(_if_there(lambda: self._reader.cpu_stat(inner)))
        found = [stat for stat in stats if stat is not None]
        fields["cpu_usage_ns"] = None if usage is None else usage.total_ns
        for name in ("periods", "throttled", "throttled_ns"):
            fields[name] = max((getattr(one, name) for one in found), default=None)

    def _quota(self, cgroup: str) -> Quota | None:
        quota_us = _if_there(lambda: self._reader.cpu_quota(cgroup))
        period_us = _if_there(lambda: self._reader.cpu_period(cgroup))
        if quota_us is None or period_us is None:
            return None
        return Quota(quota_us if quota_us >= 0 else None, period_us)

    def _memory_fields(self, cgroup: str, fields: dict[str, object]) -> None:
        reader = self._reader
        fields["memory_bytes"] = _if_there(lambda: reader.memory_usage(cgroup))
        fields["memory_max_bytes"] = _if_there(lambda: reader.memory_limit(cgroup))
        fields["memory_high_bytes"] = self._bytes(Type.MEMORY_HIGH, cgroup)
        events = _if_there(lambda: reader.memory_events(cgroup))
        if events is not None:
            _, high, most, oom, oom_kill = events
            fields["memory_counts"] = MemoryCounts(high, most, oom, oom_kill)

    def _stall(self, cgroup: str, resource: str) -> StallTime | None:
        if self._tree.version == 1:
            return None
        found: Pressure | None = _if_there(
            lambda: self._reader.pressure(cgroup, resource)
        )
        if found is None:
            return None
        full = 0 if found.full is None else found.full.total_us
        return StallTime(found.some.total_us, full)

    def _protected(self, cgroup: str) -> int | None:
        low = self._bytes(Type.MEMORY_LOW, cgroup)
        least = self._bytes(Type.MEMORY_MIN, cgroup)
        return None if low is None or least is None else _greater(low, least)

    def _stat_fields(self, cgroup: str, fields: dict[str, object]) -> None:
        """Read refaults and the size of the page cache, which are in one file."""
        stat: Mapping[str, int] = (
            _if_there(lambda: self._tree.get(Type.MEMORY_STAT, cgroup)) or {}
        )
        for field, names in _STAT_FIELDS.items():
            found = [stat[name] for name in names if name in stat]
            fields[field] = sum(found) if found else None

    def _bytes(self, kind: Type, cgroup: str) -> int | None:
        """Return a number of bytes, -1 for no limit; None if the file is not there."""
        return _if_there(lambda: int(self._tree.get(kind, cgroup)))

    def _number(self, cgroup: str, file: str) -> int | None:
        """Return the number in a cgroup v2 file that has no type."""
        if self._tree.version == 1:
            return None
        text = _if_there(lambda: self._tree.files.read(f"{cgroup}/{file}"))
        return int(text) if text is not None and text.strip().isdecimal() else None


def _greater(one: int, other: int) -> int:
    """Return the greater of two numbers of bytes, of which -1 is the greatest."""
    return -1 if -1 in (one, other) else max(one, other)


def _if_there(read: Callable[[], _Read]) -> _Read | None:
    """Return a value, or None if its file or its cgroup is not there.

    Raises:
        CgroupError: another failure, such as a permission that is missing.
    """
    try:
        return read()
    except CgroupError as exc:
        if exc.errno in GONE:
            return None
        raise


def _cpu_ticks(path: str) -> tuple[int, int] | None:
    """Return the busy and the whole time of all CPUs; None if it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            words = file.readline().split()[1 : 1 + _FIELDS]
        ticks = [int(word) for word in words]
        return sum(ticks) - sum(ticks[field] for field in _IDLE), sum(ticks)
    except (OSError, ValueError, IndexError):
        return None


def _swap_total(path: str) -> int | None:
    """Return the size of all swap areas in bytes; None if it cannot be read."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("SwapTotal:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
