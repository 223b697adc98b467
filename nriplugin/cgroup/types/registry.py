"""Resource types: what can be read or set, and which file holds it on each version.

A `Type` names what a caller wants to read or set and is the same on both versions of
cgroups. It has the v1 name where v1 has the file: `cpu.cfs_quota_us` is part of
cgroup v2's `cpu.max`. Two files whose numbers are on different scales are two types:
`cpu.shares` is only on v1 and `cpu.weight` only on v2, and likewise
`memory.memsw.limit_in_bytes` (memory and swap together) and `memory.swap.max` (swap
alone), and `blkio.weight` and `io.weight`. Converting one into the other is a decision,
which `convert` takes.
"""

from __future__ import annotations

from enum import StrEnum
from errno import EBADMSG
from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from nriplugin.cgroup.files import Files
    from nriplugin.cgroup.types.contents import Content, Given

    Updater = Callable[[Files, str, str], None]
    SupportCheck = Callable[[Files], "Support"]


class Type(StrEnum):
    """What a caller reads or sets, whatever the cgroup version calls it."""

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


class Resource(NamedTuple):
    """One type on one cgroup version.

    `controller` is empty for files that every v2 cgroup has. `needs` says what a kernel
    needs to have the file, if not every kernel has it.
    """

    type: str
    version: int
    controller: str
    file: str
    content: Content
    needs: str = ""

    @classmethod
    def of(
        cls, version: int, controller: str, file: str, content: Content, type: str = ""
    ) -> Self:
        """Describe a file that `Type` does not list: its type is `controller/file`."""
        default = f"{controller}/{file}" if controller else file
        return cls(type or default, version, controller, file, content)

    def path(self, cgroup: str) -> str:
        """Return the path of a cgroup's file; v1 has a tree per controller."""
        parent = "" if cgroup == "/" else cgroup
        if self.version == 1:
            return f"/{self.controller}{parent}/{self.file}"
        return f"{parent}/{self.file}"

    def parse(self, content: str) -> Any:  # noqa: ANN401 # by type, see contents.py
        """Return this type's value from the text of the file.

        Raises:
            CgroupError: the text is not one that this file can have.
        """
        return self.parse_at(self.file, content)

    def parse_at(self, path: str, content: str) -> Any:  # noqa: ANN401
        """Return the same as `parse`; an error then names the path."""
        try:
            return self.content.parse(content)
        except (ValueError, KeyError) as exc:
            shown = content if len(content) <= 80 else f"{content[:80]}…"
            raise CgroupError("parse", path, shown, EBADMSG, str(exc)) from exc

    def validate(self, value: Given) -> None:
        """Refuse a value that the kernel would refuse, or take for another one.

        Raises:
            ConfigError: one line with the type, the value, and what was expected.
        """
        self._checked(value)

    def format(self, value: Given, current: str | None = None) -> str:
        """Return the text to write; a partial type keeps the rest of `current`.

        Raises:
            ConfigError: the value is not valid.
            CgroupError: `current` is not a text that this file can have.
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
            return check(value)
        except (ValueError, TypeError):
            raise ConfigError(
                f"{self.type}: {value!r}, expected {self.content.expected}"
            ) from None


class Support(NamedTuple):
    """Whether a kernel has a file, and what that was concluded from."""

    supported: bool
    reason: str

    def __bool__(self) -> bool:
        return self.supported


class Registry:
    """The resources of one cgroup version, by type."""

    def __init__(self, version: int) -> None:
        """Begin with the kernel's files of cgroup version 1 or 2."""
        # Late, because kernel_files imports Resource and Type from this module.
        from nriplugin.cgroup.types.kernel_files import known_resources

        self.version = version
        self._resources: dict[str, Resource] = {}
        self._updaters: dict[str, Updater] = {}
        self._checks: dict[str, SupportCheck] = {}
        for resource in known_resources(version):
            self.add(resource)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def add(self, resource: Resource) -> None:
        """Add a resource, or replace the one of the same type.

        Raises:
            ConfigError: the resource is for another cgroup version.
        """
        if resource.version != self.version:
            raise ConfigError(
                f"{resource.type}: version {resource.version}, expected {self.version}"
            )
        self._resources[resource.type] = resource

    def register(
        self,
        type: str,
        *,
        update: Updater | None = None,
        check_supported: SupportCheck | None = None,
    ) -> None:
        """Have a type written, or its support found out, in a way of its own.

        Args:
            type: the type, which has to be in the registry.
            update: writes a content to the file at a path, in place of one plain write;
                it raises CgroupError for what the kernel answers.
            check_supported: says whether this node has the type, in place of a look at
                the file; it is asked once per tree. The executor does not touch the
                files of a type that is not supported.

        Raises:
            ConfigError: this version has no such type.
        """
        self.get(type)
        if update is not None:
            self._updaters[type] = update
        if check_supported is not None:
            self._checks[type] = check_supported

    def updater(self, type: str) -> Updater | None:
        """Return what was registered to write a type, if anything was."""
        return self._updaters.get(type)

    def support_check(self, type: str) -> SupportCheck | None:
        """Return what was registered to find out about a type, if anything was."""
        return self._checks.get(type)

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
