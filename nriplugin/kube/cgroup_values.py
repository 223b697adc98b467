"""The numbers that the kubelet has for a cgroup, as v1 files and as v2 files. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from nriplugin.convert.curves import Curve, weight_of
from nriplugin.systemd_quota import rounded_cpu_max


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupValues:
    """Numbers for one cgroup; None is "not written", so the kernel's default holds.

    A quota of -1 is "no quota", written. `unified` has the files that only v2 has.
    """

    shares: int | None = None
    quota_us: int | None = None
    period_us: int | None = None
    memory_limit_bytes: int | None = None
    pids_limit: int | None = None
    unified: dict[str, str] = field(default_factory=dict)

    def v1(self) -> dict[str, str]:
        """Return the files of cgroup v1, each with its value."""
        files = {
            "cpu.shares": self.shares,
            "cpu.cfs_quota_us": self.quota_us,
            "cpu.cfs_period_us": self.period_us,
            "memory.limit_in_bytes": self.memory_limit_bytes,
            "pids.max": self.pids_limit,
        }
        return {file: str(value) for file, value in files.items() if value is not None}

    def v2(
        self, *, curve: Curve = Curve.KEP, through_systemd: bool = False
    ) -> dict[str, str]:
        """Return the files of cgroup v2, each with its value.

        The curve of the kubelet is KEP; for a container it is that of the runtime.
        systemd rounds a quota up to a whole percent of a CPU.
        """
        files = {}
        if self.shares is not None:
            files["cpu.weight"] = str(weight_of(self.shares, curve))
        if self.quota_us is not None:
            quota = "max" if self.quota_us < 0 else str(self.quota_us)
            cpu_max = f"{quota} {self.period_us}"
            files["cpu.max"] = rounded_cpu_max(cpu_max) if through_systemd else cpu_max
        if self.memory_limit_bytes is not None:
            files["memory.max"] = str(self.memory_limit_bytes)
        if self.pids_limit is not None:
            files["pids.max"] = str(self.pids_limit)
        return files | self.unified
