"""From a cgroup v2 file and its value to the updates that an executor writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.updates import Update

if TYPE_CHECKING:
    from collections.abc import Iterator

ORIGIN = "nriplugin"

# cgroup v2 files whose type has another name.
_TYPES = {
    "cpu.max.burst": Type.CPU_BURST,
    "memory.max": Type.MEMORY_LIMIT,
}


def updates_of(file: str, value: str, cgroup: str) -> Iterator[Update]:
    """Return the updates that set a file; cpu.max takes two, quota and period."""
    if file == "cpu.max":
        quota, _, period = value.partition(" ")
        yield Update(Type.CPU_QUOTA, cgroup, quota, origin=ORIGIN)
        if period:
            yield Update(Type.CPU_PERIOD, cgroup, period, origin=ORIGIN)
    else:
        yield Update(_TYPES.get(file, file), cgroup, value, origin=ORIGIN)
