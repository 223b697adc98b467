"""All policies at once, whatever happens in whatever order, on a model of a kernel."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from errno import EMFILE
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.policies import PolicyNode
from support.trees import CONTAINER, POD

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.errors import CgroupError

MIB = 1 << 20
HIGH, LIMIT = 64 * MIB, 128 * MIB
PERIOD_US = 100_000

POLICIES = {
    "boost": "startupBoost: {enabled: true, percent: 300, seconds: 60}",
    "burst": "quotaBurst: {enabled: true, percent: 150, periodSeconds: 40}",
    "guard": "memoryGuard: {enabled: true, stepPercent: 30, cooldownSeconds: 20}",
    "reclaim": "proactiveReclaim: {enabled: true, keepBytes: 8388608}",
}
MOST_PERCENT = 300
OFF = "{}"


class Life:
    """A pod with one container, what kubelet wants of it, and what may go wrong."""

    def __init__(self, version: int, directory: Path, stack: ExitStack) -> None:
        self.version = version
        self._directory = directory
        self._stack = stack
        self.own_us = 50_000
        self._config = "\n".join(POLICIES.values())
        self.journal = self._open()
        self.node = PolicyNode(
            OFF, version, journal=self.journal, state=directory, pod_quota=self._own
        )
        if version == 2:
            self.node.kernel.files[f"{CONTAINER}/memory.reclaim"] = ""
            self.node.give(memory_high=str(HIGH), memory_max=str(LIMIT))
            self.node.uses(MIB)
        self.node.configure(self._config)
        self.node.background.work()

    @property
    def _own(self) -> str:
        return f"{self.own_us} {PERIOD_US}"

    def _open(self) -> Journal:
        """Open the journal anew; that of a process that was killed stays open."""
        return self._stack.enter_context(Journal(str(self._directory)))

    def _write(self, cgroup: str, quota: str) -> None:
        """Write as kubelet and the runtime do, whom nothing hinders."""
        kernel = self.node.kernel
        unwilling, kernel.unwilling = kernel.unwilling, set()
        self.node.set_quota(cgroup, quota)
        kernel.unwilling = unwilling

    # What may happen

    def runs(self, cpus: float, throttled: int, node_cpu: float) -> None:
        self.node.runs(cpus, throttled)
        self.node.look(node_cpu=node_cpu)

    def counts_nonsense(self, seconds: float, usage: int, throttled: int) -> None:
        """Have counters jump, also back, and a clock that stands still."""
        files = self.node.kernel.files
        if self.version == 2:
            stat = f"usage_usec {usage}\nnr_periods 1\nnr_throttled {throttled}\n"
            files[f"{CONTAINER}/cpu.stat"] = f"{stat}throttled_usec {usage}"
        else:
            files[f"/cpuacct{CONTAINER}/cpuacct.usage"] = str(usage)
            stat = f"nr_periods 1\nnr_throttled {throttled}\nthrottled_time {usage}"
            files[f"/cpu{CONTAINER}/cpu.stat"] = stat
        self.node.look(seconds)

    def uses(self, use: int, held: int, stalled: float, refaults: int) -> None:
        if self.version == 2:
            self.node.uses(use, held=held, stalled=stalled, refaults=refaults)
        self.node.look()

    def starts(self) -> None:
        self.node.start()

    def resize(self, quota_us: int | None, looks: bool) -> None:
        """Resize in kubelet's order; None is a resize to the value in the file.

        With `looks` the policies look in between, which is a matter of milliseconds. A
        value that is in the pod's file already cannot be told from nriplugin's then.
        """
        node = self.node
        before, self.own_us = self.own_us, quota_us or node.quota()
        if self.version == 1:  # as the doors do
            node.policies.give_back(node.background, POD)
            node.background.work()
        order = [POD, CONTAINER] if self.own_us > before else [CONTAINER, POD]
        for number, cgroup in enumerate(order):
            try:
                self._write(cgroup, self._own)
            except CgroupError:  # on v1, of a pod whose container is stuck above it
                self.own_us = before
                return
            if looks and quota_us and not number and self.version == 2:
                node.look()
        entry = node.inventory.get(CONTAINER.rpartition("/")[2])
        assert entry is not None
        numbers = f"1024,{self.own_us},{PERIOD_US},"
        node.inventory.put(entry._replace(numbers=numbers))
        node.look()

    def reload(self, names: set[str]) -> None:
        self._config = "\n".join(POLICIES[name] for name in sorted(names)) or OFF
        self.node.configure(self._config)
        self.node.background.work()

    def ends(self, killed: bool, resized_us: int | None) -> None:
        """End the process, perhaps resize meanwhile, and start the next one."""
        before = self.node
        if not killed:
            before.policies.end()
        if resized_us is not None:
            self.own_us = resized_us
            # v1 wants the pod above its container at all times.
            for cgroup, value in ((CONTAINER, "1000 100000"), (POD, self._own)):
                self._write(cgroup, value)
            self._write(CONTAINER, self._own)
        self.journal = self._open()
        self.node = PolicyNode(
            *(self._config, self.version),
            kernel=before.killed(),
            journal=self.journal,
            state=self._directory,
            silent=True,
        )
        self.node.now_s, self.node.stalled_us = before.now_s, before.stalled_us
        for entry in before.inventory.snapshot().values():
            numbers = f"1024,{self.own_us},{PERIOD_US},"
            self.node.inventory.put(entry._replace(numbers=numbers))
        self.node.plans.set_silent(False)
        self.node.look()

    def refuses(self, cgroup: str) -> None:
        name = "cpu.max" if self.version == 2 else "cpu.cfs_quota_us"
        top = "" if self.version == 2 else "/cpu"
        self.node.kernel.unwilling.add(f"{top}{cgroup}/{name}")

    def accepts(self) -> None:
        self.node.kernel.unwilling.clear()

    def disk(self, full: bool) -> None:
        self.journal._database.execute(f"PRAGMA query_only = {int(full)}")

    def changing(self, begins: bool) -> None:
        starting = self.node.pending._starting
        if begins:
            starting[CONTAINER.rpartition("/")[2]] = ()
        else:
            starting.clear()

    def unreadable(self) -> None:
        kernel = self.node.kernel
        read, exists = kernel.read, kernel.exists

        def fail(path: str) -> Any:
            raise CgroupError("open", path, None, EMFILE)

        kernel.read = kernel.exists = fail  # type: ignore[method-assign]
        self.node.look()
        kernel.read, kernel.exists = read, exists  # type: ignore[method-assign]

    # What has to be true

    def check(self) -> None:
        """No value is outside of its bounds."""
        own_us, quota_us = self.own_us, self.node.quota()
        assert own_us <= quota_us <= own_us * MOST_PERCENT // 100
        if self.version == 2:
            high = int(self.node.kernel.files[f"{CONTAINER}/memory.high"])
            assert HIGH <= high <= LIMIT

    def switched_off(self) -> None:
        """Every value is back once nothing hinders that."""
        self.accepts()
        self.disk(False)
        self.changing(False)
        self.reload(set())
        for _ in range(3):
            self.node.background.work_when_time_is_up()
        assert (self.node.quota(), self.node.quota(POD)) == (self.own_us, self.own_us)
        if self.version == 2:
            assert self.node.kernel.files[f"{CONTAINER}/memory.high"] == str(HIGH)
        assert not (self._directory / "policies.json").exists()


QUOTAS = st.sampled_from([20_100, 33_300, 50_000, 81_700, 120_300])
STEPS = st.one_of(
    st.tuples(
        st.just(Life.runs),
        st.sampled_from([0.0, 0.3, 0.5, 0.75, 1.5]),
        st.sampled_from([0, 5, 90]),
        st.sampled_from([0.1, 0.75, 0.9]),
    ),
    st.tuples(
        st.just(Life.counts_nonsense),
        st.sampled_from([0.0, 0.001, 10.0, 100_000.0]),
        st.integers(0, 1 << 64),
        st.integers(0, 1 << 64),
    ),
    st.tuples(
        st.just(Life.uses),
        st.integers(0, 2 * LIMIT),
        st.integers(0, 10),
        st.floats(0.0, 10.0),
        st.integers(0, 2000),
    ),
    st.tuples(st.just(Life.starts)),
    st.tuples(st.just(Life.resize), st.none() | QUOTAS, st.booleans()),
    st.tuples(st.just(Life.reload), st.sets(st.sampled_from(sorted(POLICIES)))),
    st.tuples(st.just(Life.ends), st.booleans(), st.none() | QUOTAS),
    st.tuples(st.just(Life.refuses), st.sampled_from([POD, CONTAINER])),
    st.tuples(st.just(Life.accepts)),
    st.tuples(st.just(Life.disk), st.booleans()),
    st.tuples(st.just(Life.changing), st.booleans()),
    st.tuples(st.just(Life.unreadable)),
)


@given(st.sampled_from([1, 2]), st.lists(STEPS, max_size=15))
@settings(max_examples=80, deadline=None)
def test_values_stay_within_bounds_and_are_back_when_all_is_off(
    version: int, steps: list[tuple[Any, ...]]
) -> None:
    """Also after crashes, resizes, refusals, full disks and counters that jump."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        life = Life(version, Path(directory), stack)
        for step, *arguments in steps:
            step(life, *arguments)
            life.check()
        life.switched_off()
