"""A tree of cgroups in memory that refuses, rounds and forgets as kernels do.

Only the rules that the executor has to live with. It is a model of them, not a proof.
"""

from __future__ import annotations

from errno import EACCES, EBUSY, EINVAL, ENODEV, ENOENT, ENOSPC, EOPNOTSUPP
from typing import TYPE_CHECKING

from support.trees import CGROUPS, V1_FILES, V2_FILES

from nriplugin.cgroup.types.tree import Tree
from nriplugin.convert.cpu_list import parse_cpus, render_cpus
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = 4096
V1_UNLIMITED = 9223372036854771712
BYTES = ("memory.min", "memory.low", "memory.high", "memory.max", "memory.swap.max")
V1_BYTES = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")


class Kernel:
    """Files of one version; `identity` is that of the directory, new for each."""

    def __init__(
        self,
        version: int = 2,
        cgroups: Iterable[str] = CGROUPS,
        *,
        burst_bug: bool = False,
        populated: bool = False,
    ) -> None:
        self.version = version
        self.burst_bug = burst_bug
        self.populated = populated
        self.files: dict[str, str] = {}
        self.serials: dict[str, int] = {}
        self.busy: list[str] = []  # files whose next write is EBUSY
        self.unwilling: set[str] = set()  # files whose writes are EOPNOTSUPP
        self.writes: list[tuple[str, str]] = []
        self.reads = 0
        self.directories = {"/"}
        if version == 1:
            self.directories |= {f"/{controller}" for controller in V1_FILES}
            for name in ("cpus", "mems"):
                value = V1_FILES["cpuset"][f"cpuset.{name}"]
                self.files[f"/cpuset/cpuset.{name}"] = value.strip()
        for cgroup in cgroups:
            self.add(cgroup)

    @property
    def tree(self) -> Tree:
        """Return it by resource type."""
        return Tree(self, self.version)

    def add(self, cgroup: str) -> None:
        """Make a cgroup."""
        trees = {"": V2_FILES}
        if self.version == 1:
            trees = {f"/{name}": files for name, files in V1_FILES.items()}
        for prefix, files in trees.items():
            directory = f"{prefix}{cgroup}"
            self.directories.add(directory)
            self.serials[directory] = len(self.serials) + 1 + len(self.files)
            for name, content in files.items():
                self.files[f"{directory}/{name}"] = content.strip()

    def remove(self, cgroup: str) -> None:
        """Take a cgroup away, with everything below it."""
        tops = [f"/{name}" for name in V1_FILES] if self.version == 1 else [""]
        for top in tops:
            place = f"{top}{cgroup}"
            for path in [p for p in self.files if p.startswith(f"{place}/")]:
                del self.files[path]
            self.directories -= {
                d for d in self.directories if d == place or d.startswith(f"{place}/")
            }

    def read(self, path: str) -> str:
        """Return a file's text, with the newline that kernels end it with."""
        self.reads += 1
        if path not in self.files:
            raise CgroupError("read", path, None, ENOENT)
        content = self.files[path]
        directory, _, file = path.rpartition("/")
        if self.version == 2 and file.endswith(".effective"):
            content = self._effective(directory, file.removesuffix(".effective"))
        return f"{content}\n" if content else "\n"

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return path in self.files or path in self.directories

    def children(self, path: str) -> list[str]:
        """Return the names of the directories in one."""
        below = f"{path.rstrip('/')}/"
        return sorted(
            d.removeprefix(below)
            for d in self.directories
            if d.startswith(below) and d != below and "/" not in d.removeprefix(below)
        )

    def identity(self, path: str) -> int:
        """Return what no other cgroup has."""
        return self.serials[path.rpartition("/")[0]]

    def write(self, path: str, value: str) -> None:
        """Take a value, or refuse it."""
        if path not in self.files:
            raise CgroupError("write", path, value, ENOENT)
        if path in self.busy:
            self.busy.remove(path)
            raise CgroupError("write", path, value, EBUSY)
        if path in self.unwilling:
            raise CgroupError("write", path, value, EOPNOTSUPP)
        if value == "":
            return
        directory, _, file = path.rpartition("/")
        try:
            errno = self._take(directory, file, value.strip())
        except ValueError:
            errno = EINVAL
        if errno:
            raise CgroupError("write", path, value, errno)
        self.writes.append((path, value))

    def _take(self, directory: str, file: str, value: str) -> int:
        path = f"{directory}/{file}"
        if file == "cpu.max":
            return self._take_quota_v2(directory, value)
        if file.startswith("cpuset."):
            return self._take_cpuset(directory, file, value)
        if file in ("cpu.cfs_quota_us", "cpu.cfs_period_us"):
            return self._take_quota_v1(directory, file, value)
        if file in ("cpu.max.burst", "cpu.cfs_burst_us"):
            quota = self._quota(directory)
            if int(value) < 0 or 0 <= quota < int(value):
                return EINVAL
        elif file in ("cpu.weight", "cpu.shares"):
            if self.files.get(f"{directory}/cpu.idle") == "1":
                return EINVAL
        elif file == "cpu.idle":
            return self._take_idle(directory, value)
        elif file in V1_BYTES:
            return self._take_limit_v1(directory, file, value)
        elif file in BYTES and value != "max":
            value = str(int(value) // PAGE * PAGE)
        elif file == "io.max":
            return self._take_io(path, value)
        self.files[path] = value
        return 0

    def _take_quota_v2(self, directory: str, value: str) -> int:
        old_period = self.files[f"{directory}/cpu.max"].split()[1]
        quota, period = [*value.split(), old_period][:2]
        burst = int(self.files[f"{directory}/cpu.max.burst"])
        if quota != "max" and int(quota) < 1000:
            return EINVAL
        if self.burst_bug:
            self.files[f"{directory}/cpu.max.burst"] = str(burst // 1000)
        elif quota != "max" and burst > int(quota):
            return EINVAL
        self.files[f"{directory}/cpu.max"] = f"{quota} {period}"
        return 0

    def _take_quota_v1(self, directory: str, file: str, value: str) -> int:
        burst = int(self.files.get(f"{directory}/cpu.cfs_burst_us", "0"))
        both = {
            name: int(self.files.get(f"{directory}/{name}", "-1"))
            for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        } | {file: int(value)}
        quota, period = both.values()
        if 0 <= quota < burst or 0 <= quota < 1000:
            return EINVAL
        share = None if quota < 0 else quota / period
        above = _parent(directory)
        while self._share(above) is None and above.count("/") > 1:
            above = _parent(above)  # one without a limit has that of the next above
        allowed = self._share(above)
        if share is not None and allowed is not None and share > allowed:
            return EINVAL
        for name in self.children(directory):
            below = self._share(f"{directory}/{name}")
            if share is not None and below is not None and below > share:
                return EINVAL
        self.files[f"{directory}/{file}"] = str(max(int(value), -1))
        return 0

    def _share(self, directory: str) -> float | None:
        """Return quota per period, None where there is no limit."""
        quota = int(self.files.get(f"{directory}/cpu.cfs_quota_us", "-1"))
        period = int(self.files.get(f"{directory}/cpu.cfs_period_us", "100000"))
        return None if quota < 0 else quota / period

    def _take_idle(self, directory: str, value: str) -> int:
        if value not in ("0", "1"):
            return EINVAL
        if value != self.files[f"{directory}/cpu.idle"]:
            file, idle, default = ("cpu.weight", "1", "100")
            if self.version == 1:
                file, idle, default = ("cpu.shares", "3", "1024")
            self.files[f"{directory}/{file}"] = idle if value == "1" else default
        self.files[f"{directory}/cpu.idle"] = value
        return 0

    def _take_limit_v1(self, directory: str, file: str, value: str) -> int:
        number = V1_UNLIMITED if value == "-1" else int(value) // PAGE * PAGE
        other = V1_BYTES[1 - V1_BYTES.index(file)]
        there = int(self.files[f"{directory}/{other}"])
        if number > there if file == V1_BYTES[0] else number < there:
            return EINVAL
        self.files[f"{directory}/{file}"] = str(number)
        return 0

    def _take_cpuset(self, directory: str, file: str, value: str) -> int:
        members = parse_cpus(value)
        path = f"{directory}/{file}"
        if self.populated and not members and self.files[path]:
            return ENOSPC
        if self.version == 1:
            if not members <= parse_cpus(self.files[f"{_parent(directory)}/{file}"]):
                return EACCES
            if any(not parse_cpus(c) <= members for c in self._below(directory, file)):
                return EBUSY
        self.files[path] = render_cpus(members)
        return 0

    def _effective(self, directory: str, file: str) -> str:
        if f"{directory}/{file}" not in self.files:
            return V2_FILES[f"{file}.effective"].strip()
        above = parse_cpus(self._effective(_parent(directory), file))
        own = parse_cpus(self.files[f"{directory}/{file}"])
        return render_cpus(own & above or above)

    def _take_io(self, path: str, value: str) -> int:
        if "\n" in value:
            return EINVAL
        device, *pairs = value.split()
        if device == "9:9":
            return ENODEV
        lines = dict(line.split(" ", 1) for line in self.files[path].splitlines())
        limits = dict.fromkeys(("rbps", "wbps", "riops", "wiops"), "max")
        limits |= dict(p.split("=") for p in lines.get(device, "").split())
        limits |= dict(p.split("=") for p in pairs)
        lines[device] = " ".join(f"{key}={rate}" for key, rate in limits.items())
        if set(limits.values()) == {"max"}:
            del lines[device]
        self.files[path] = "\n".join(f"{key} {rest}" for key, rest in lines.items())
        return 0

    def _quota(self, directory: str) -> int:
        v1 = self.files.get(f"{directory}/cpu.cfs_quota_us")
        text = v1 or self.files[f"{directory}/cpu.max"].split()[0]
        return -1 if text == "max" else int(text)

    def _below(self, directory: str, file: str) -> list[str]:
        names = self.children(directory)
        return [self.files[f"{directory}/{name}/{file}"] for name in names]


def _parent(directory: str) -> str:
    return directory.rpartition("/")[0]
