"""Which file holds what, on either version of cgroups.

A type says what one wants to know or set and is the same on both versions. It has the
v1 name where v1 has it (`cpu.cfs_quota_us` is cgroup v2's `cpu.max`). Numbers on a
scale of their own have a type of their own: `cpu.shares` is only on v1, `cpu.weight`
only on v2, and likewise `memory.memsw.limit_in_bytes` (memory and swap together)
against `memory.swap.max` (swap alone), and `blkio.weight` against `io.weight`. Turning
one into the other is a decision, which is not taken here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from errno import EBADMSG
from typing import TYPE_CHECKING, Any

from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from nriplugin.cgroup.types.contents import Content, Given


class Type(StrEnum):
    """What is asked for, whatever the version calls it."""

    CPU_SHARES = "cpu.shares"
    CPU_WEIGHT = "cpu.weight"
    CPU_IDLE = "cpu.idle"
    CPU_QUOTA = "cpu.cfs_quota_us"
    CPU_PERIOD = "cpu.cfs_period_us"
    CPU_BURST = "cpu.cfs_burst_us"
    CPU_STAT = "cpu.stat"
    CPU_USAGE = "cpuacct.usage"
    CPU_ACCT = "cpuacct.stat"
    CPU_PRESSURE = "cpu.pressure"
    CPU_QOS_LEVEL = "cpu.qos_level"
    CPU_BVT = "cpu.bvt_warp_ns"

    CPUSET_CPUS = "cpuset.cpus"
    CPUSET_MEMS = "cpuset.mems"
    CPUSET_CPUS_EFFECTIVE = "cpuset.effective_cpus"
    CPUSET_MEMS_EFFECTIVE = "cpuset.effective_mems"

    MEMORY_LIMIT = "memory.limit_in_bytes"
    MEMORY_USAGE = "memory.usage_in_bytes"
    MEMORY_MEMSW = "memory.memsw.limit_in_bytes"
    MEMORY_SWAP = "memory.swap.max"
    MEMORY_MIN = "memory.min"
    MEMORY_LOW = "memory.low"
    MEMORY_HIGH = "memory.high"
    MEMORY_OOM_GROUP = "memory.oom.group"
    MEMORY_STAT = "memory.stat"
    MEMORY_EVENTS = "memory.events"
    MEMORY_FAILCNT = "memory.failcnt"
    MEMORY_PRESSURE = "memory.pressure"
    MEMORY_QOS_LEVEL = "memory.qos_level"

    PIDS_MAX = "pids.max"
    PIDS_CURRENT = "pids.current"

    BLKIO_WEIGHT = "blkio.weight"
    IO_WEIGHT = "io.weight"
    IO_BFQ_WEIGHT = "io.bfq.weight"
    IO_READ_BPS = "blkio.throttle.read_bps_device"
    IO_WRITE_BPS = "blkio.throttle.write_bps_device"
    IO_READ_IOPS = "blkio.throttle.read_iops_device"
    IO_WRITE_IOPS = "blkio.throttle.write_iops_device"
    IO_MAX = "io.max"
    IO_STAT = "io.stat"
    IO_BYTES = "blkio.throttle.io_service_bytes"
    IO_OPERATIONS = "blkio.throttle.io_serviced"
    IO_PRESSURE = "io.pressure"

    HUGETLB_64KB = "hugetlb.64KB.limit_in_bytes"
    HUGETLB_2MB = "hugetlb.2MB.limit_in_bytes"
    HUGETLB_32MB = "hugetlb.32MB.limit_in_bytes"
    HUGETLB_1GB = "hugetlb.1GB.limit_in_bytes"

    CGROUP_PROCS = "cgroup.procs"
    CGROUP_THREADS = "tasks"

    # Not cgroups, but files in a tree all the same (see system.py).
    MEMINFO = "meminfo"
    RESCTRL_SCHEMATA = "schemata"


@dataclass(frozen=True, slots=True)
class Resource:
    """One type on one version.

    `version` is 0 for files that are no cgroup's; `controller` is then empty. `needs`
    says what a kernel must be for the file to be there, if not every one has it.
    """

    type: str
    version: int
    controller: str
    file: str
    content: Content
    needs: str = ""
    validator: Callable[[Given], str | None] | None = None

    @classmethod
    def of(
        cls, version: int, controller: str, file: str, content: Content, type: str = ""
    ) -> Self:
        """Describe a file that has no name here: its type is `controller/file`."""
        default = f"{controller}/{file}" if controller else file
        return cls(type or default, version, controller, file, content)

    def with_validator(self, validator: Callable[[Given], str | None]) -> Resource:
        """Return the same with a further check: it says what was expected, or None."""
        return replace(self, validator=validator)

    def path(self, cgroup: str) -> str:
        """Return where the file of a cgroup is: v1 has a tree per controller."""
        parent = "" if cgroup == "/" else cgroup
        if self.version == 1:
            return f"/{self.controller}{parent}/{self.file}"
        return f"{parent}/{self.file}"

    def parse(self, content: str) -> Any:  # noqa: ANN401 # by type, see contents.py
        """Return this type's value from the content of the file.

        Raises:
            CgroupError: it is something else than this file has.
        """
        return self.parse_at(self.file, content)

    def parse_at(self, path: str, content: str) -> Any:  # noqa: ANN401
        """Return the same, with an error that says which file it was."""
        try:
            return self.content.parse(content)
        except (ValueError, KeyError) as exc:
            shown = content if len(content) <= 80 else f"{content[:80]}…"
            raise CgroupError("parse", path, shown, EBADMSG, str(exc)) from exc

    def validate(self, value: Given) -> None:
        """Refuse what the kernel would refuse, or take for something else.

        Raises:
            ConfigError: in one line: type, value, and what was expected.
        """
        self._checked(value)

    def format(self, value: Given, current: str | None = None) -> str:
        """Return what is to be written; the rest of the present content is kept.

        Raises:
            ConfigError: the value is not valid.
            CgroupError: the present content makes no sense.
        """
        checked = self._checked(value)
        if current is not None and self.content.partial:
            self.parse(current)
        try:
            return self.content.render(checked, current)
        except ValueError as exc:
            raise ConfigError(f"{self.type}: {value!r}, expected {exc}") from exc

    def _checked(self, value: Given) -> Any:  # noqa: ANN401
        check = self.content.check
        if check is None:
            raise ConfigError(
                f"{self.type}: {value!r}, expected nothing: it is read only"
            )
        try:
            checked = check(value)
        except (ValueError, TypeError):
            raise ConfigError(
                f"{self.type}: {value!r}, expected {self.content.expected}"
            ) from None
        if self.validator is not None and (expected := self.validator(value)):
            raise ConfigError(f"{self.type}: {value!r}, expected {expected}")
        return checked


class Registry:
    """The resources of one version, by type."""

    def __init__(self, version: int) -> None:
        """Start with what we know of the version; 0 starts empty."""
        from nriplugin.cgroup.types.kernel_files import known_resources

        self.version = version
        self._resources: dict[str, Resource] = {}
        for resource in known_resources(version):
            self.add(resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def add(self, resource: Resource) -> None:
        """Add one, or replace the one of the same type.

        Raises:
            ConfigError: it is for another version.
        """
        if resource.version != self.version:
            raise ConfigError(
                f"{resource.type}: version {resource.version}, expected {self.version}"
            )
        self._resources[resource.type] = resource

    def get(self, type: str) -> Resource:
        """Return the resource of a type.

        Raises:
            ConfigError: this version has none.
        """
        try:
            return self._resources[type]
        except KeyError:
            raise ConfigError(
                f"type: {str(type)!r} not found in cgroup registry "
                f"of version {self.version}"
            ) from None
