"""A node in memory whose containers are under policies, without a runtime or a clock.

`PolicyNode` has a model of a kernel, an inventory and the loop over policies. A test
says what a container does (`runs`), and lets an interval pass (`look`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgroup.kernels import Kernel
from doors.nri.nodes import ByHand
from engine.cases import NODE

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.engine.model import Pod
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.node.policy_writes import PolicyRecord
from nriplugin.state.events import EventLog
from nriplugin.state.inventory import ContainerEntry, Inventory, PodEntry
from nriplugin.state.locating import CgroupLocator
from nriplugin.state.pending import PendingWrites
from nriplugin.state.plan import CurrentPlan
from nriplugin.state.policies import Policies
from support.trees import CONTAINER, POD, QOS, UID

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nriplugin.cgroup.journal.journal import Journal

INTERVAL_S = 10.0
_NAMES = {QOS: "qos", POD: "pod", CONTAINER: "container"}


class PolicyNode:
    """A pod with one container of half a CPU, unless a test says otherwise."""

    def __init__(
        self,
        config: str,
        version: int = 2,
        *,
        quota: str = "50000 100000",
        pod_quota: str = "50000 100000",
        annotations: Mapping[str, str] | None = None,
        kernel: Kernel | None = None,
        journal: Journal | None = None,
        state: Path | None = None,
        writable: bool = True,
        silent: bool = False,
    ) -> None:
        self.kernel = kernel or Kernel(version)
        self.tree = self.kernel.tree
        self.trace: list[tuple[str, str]] = []
        self.background = ByHand()
        self.plans = CurrentPlan(NODE._replace(cgroup_version=2))
        self.plans.set_silent(silent)
        self.inventory = Inventory()
        self.events = EventLog()
        self.pending = PendingWrites(self.inventory, self.background, None, self.events)
        if writable:
            executor = Executor(
                self.tree, journal=journal, refresh_s=0.0, trace=self._note
            )
            self.pending.writer = DirectWriter(self.tree, executor, journal)
        self.record = PolicyRecord(None if state is None else str(state))
        self.policies = Policies(
            *(self.inventory, self.plans, self.pending, self.events, self.tree),
            locator=CgroupLocator(self.inventory, self.tree),
            record=self.record,
        )
        self.now_s = 0.0
        self.stalled_us = 0
        self.policies.sampler.clock = lambda: self.now_s
        self.policies.sampler.cpu_ticks = lambda: self.ticks
        self.policies.sampler.swap_total = lambda: None
        self.ticks = (0, 0)
        pod = Pod(UID, "web", "shop", annotations=annotations or {}, cgroup_parent=POD)
        self.pod = PodEntry("sandbox", UID, "web", "shop", POD, described=pod)
        self.inventory.put_pod(self.pod)
        if kernel is None:
            self.set_quota(POD, pod_quota)
            self.add(CONTAINER, quota)
        else:
            self.know(CONTAINER, quota)
        self.configure(config)
        self.policies.connected(self.background)
        self.background.work()
        self.trace.clear()

    def killed(self) -> Kernel:
        """End the process as SIGKILL does; return the kernel, for the next one."""
        self.record.release()
        return self.kernel

    def _note(self, path: str, content: str) -> None:
        for cgroup, name in _NAMES.items():
            if path == self.tree.path(Type.CPU_QUOTA, cgroup):
                self.trace.append((name, content))

    def configure(self, config: str) -> None:
        """Apply a configuration, as the daemon does."""
        parsed = parse_config(config, "test")
        self.plans.apply(parsed.engine)
        self.policies.configure(self.background, parsed)

    def add(self, cgroup: str, quota: str, name: str = "app") -> None:
        """Start a container with a quota."""
        if not self.kernel.exists(self.tree.path(Type.CPU_QUOTA, cgroup)):
            self.kernel.add(cgroup)
        self.set_quota(cgroup, quota)
        self.know(cgroup, quota, name)

    def know(self, cgroup: str, quota: str, name: str = "app") -> None:
        """Take a container's numbers from kubelet, without touching its files."""
        us, _, period = quota.partition(" ")
        self.inventory.put(
            ContainerEntry(
                cgroup.rpartition("/")[2],
                name,
                self.pod,
                cgroup,
                numbers=f"1024,{us},{period},",
                started=True,
            )
        )

    def give(self, cgroup: str = CONTAINER, **files: str) -> None:
        """Decide values of a container and write them, as the runtime does.

        An underscore in a name stands for the point of the file's name.
        """
        named = {name.replace("_", ".", 1): value for name, value in files.items()}
        for file, value in named.items():
            self.kernel.files[f"{cgroup}/{file}"] = value
        entry = self.inventory.get(cgroup.rpartition("/")[2])
        assert entry is not None
        self.inventory.put(entry._replace(files={**entry.files, **named}))

    def uses(
        self,
        use: int,
        *,
        held: int = 0,
        stalled: float = 0.0,
        refaults: int = 0,
        cgroup: str = CONTAINER,
    ) -> None:
        """Let a container use so many bytes, all of them page cache.

        How often it was held back at memory.high, for how many seconds no task of it
        could run, and how many pages were read again is added to what was counted.
        """
        files, tree = self.kernel.files, self.tree
        events = tree.get(Type.MEMORY_EVENTS, cgroup)
        events["high"] += held
        stat = tree.get(Type.MEMORY_STAT, cgroup)
        stat["workingset_refault_file"] = (
            stat.get("workingset_refault_file", 0) + refaults
        )
        stat |= {"inactive_file": use, "active_file": 0}
        for file, counts in (("memory.events", events), ("memory.stat", stat)):
            text = "\n".join(f"{name} {value}" for name, value in counts.items())
            files[f"{cgroup}/{file}"] = text
        files[f"{cgroup}/memory.current"] = str(use)
        self.stalled_us += int(stalled * 1e6)
        averages = "avg10=0.00 avg60=0.00 avg300=0.00"
        files[f"{cgroup}/memory.pressure"] = "\n".join(
            f"{kind} {averages} total={self.stalled_us}" for kind in ("some", "full")
        )

    def set_quota(self, cgroup: str, quota: str) -> None:
        """Write a quota as the runtime or kubelet does."""
        us, _, period = quota.partition(" ")
        self.tree.set(Type.CPU_PERIOD, cgroup, period)
        self.tree.set(Type.CPU_QUOTA, cgroup, us)

    def start(self, cgroup: str = CONTAINER) -> None:
        """Have a container start, as the runtime tells."""
        self.policies.started(cgroup.rpartition("/")[2], self.background)
        self.background.work()

    def quota(self, cgroup: str = CONTAINER) -> int:
        """Return the quota that a cgroup holds; -1 is none."""
        return int(self.tree.get(Type.CPU_QUOTA, cgroup))

    def runs(
        self,
        cpus: float,
        throttled: int = 0,
        *,
        cgroup: str = CONTAINER,
        seconds: float = INTERVAL_S,
    ) -> None:
        """Let a container use so many CPUs for an interval, with throttled periods."""
        used_us = int(cpus * seconds * 1_000_000)
        periods = int(seconds * 10)
        files, tree = self.kernel.files, self.tree
        path = tree.path(Type.CPU_STAT, cgroup)
        stat = tree.get(Type.CPU_STAT, cgroup)
        stat["nr_periods"] += periods
        stat["nr_throttled"] += throttled
        if self.kernel.version == 2:
            stat["usage_usec"] += used_us
        else:
            usage = tree.path(Type.CPU_USAGE, cgroup)
            files[usage] = str(int(files[usage]) + used_us * 1000)
        files[path] = "\n".join(f"{name} {value}" for name, value in stat.items())

    def look(self, seconds: float = INTERVAL_S, node_cpu: float = 0.1) -> None:
        """Let an interval pass, at a use of the node's CPUs, and ask the policies."""
        self.now_s += seconds
        busy, total = self.ticks
        self.ticks = busy + round(node_cpu * 1000), total + 1000
        self.policies.look()

    def writes(self) -> list[tuple[str, str]]:
        """Return the quotas written since the last call, by the names of levels."""
        trace, self.trace = self.trace, []
        return trace
