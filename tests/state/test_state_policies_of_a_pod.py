"""Policies for several containers of a pod, which come and go in any order."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.policies import PolicyNode
from support.trees import CONTAINER, POD

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.node.policy_writes import held_value

ON = """
startupBoost: {enabled: true, percent: 300, seconds: 30}
quotaBurst: {enabled: true, percent: 150, periodSeconds: null}
"""
OFF = "{}"
MOST = 3  # times the own quota
# Quotas with different periods; the pod has room for all of them.
OWN = {
    f"{POD}/{'a' * 64}": "50000 100000",
    f"{POD}/{'b' * 64}": "12300 50000",
    f"{POD}/{'c' * 64}": "100000 20000",
}
POD_OWN = "800000 100000"


class PodLife:
    """A pod whose containers come and go while policies act on them."""

    def __init__(self, version: int, directory: Path, stack: ExitStack) -> None:
        self._version = version
        self._directory = directory
        self._stack = stack
        self._config = ON
        self.alive: set[str] = set()
        self.node = PolicyNode(
            *(ON, version),
            pod_quota=POD_OWN,
            journal=self._open(),
            state=directory,
        )
        self.node.kernel.remove(CONTAINER)
        self._drop_the_nodes_own()

    def _drop_the_nodes_own(self) -> None:
        """Forget the container that every `PolicyNode` begins with."""
        self.node.inventory.drop(CONTAINER.rpartition("/")[2])

    def _open(self) -> Journal:
        return self._stack.enter_context(Journal(str(self._directory)))

    # What may happen to a container

    def begins(self, cgroup: str) -> None:
        """Start a container; its ID may be that of one that has ended."""
        if cgroup not in self.alive:
            self.node.kernel.remove(cgroup)
            self.node.add(cgroup, OWN[cgroup], cgroup[-1])
            self.alive.add(cgroup)
            self.node.start(cgroup)

    def runs(self, cgroup: str) -> None:
        if cgroup in self.alive:
            self.node.runs(0.5, throttled=90, cgroup=cgroup)
            self.node.look()

    def ends(self, cgroup: str) -> None:
        """End a container before its cgroup, which stays until another has its ID."""
        if cgroup in self.alive:
            self.node.inventory.drop(cgroup.rpartition("/")[2])
            self.alive.discard(cgroup)

    def vanishes(self, cgroup: str) -> None:
        """Remove a container's cgroup before anybody tells that it has ended."""
        if cgroup in self.alive:
            self.node.kernel.remove(cgroup)
            before = self.node.quota(POD)
            self.node.look()
            assert self.node.quota(POD) <= before
            self.ends(cgroup)

    # ... and to the node

    def looks(self, _: str) -> None:
        self.node.look()

    def is_busy(self, _: str) -> None:
        self.node.look(node_cpu=0.9)

    def goes_on(self, _: str) -> None:
        self._reload(ON)

    def goes_off(self, _: str) -> None:
        self._reload(OFF)

    def _reload(self, config: str) -> None:
        self._config = config
        self.node.configure(config)
        self.node.background.work()

    def is_killed(self, _: str) -> None:
        before = self.node
        self.node = PolicyNode(
            *(self._config, self._version),
            kernel=before.killed(),
            journal=self._open(),
            state=self._directory,
            silent=True,
        )
        self._drop_the_nodes_own()
        self.node.now_s = before.now_s
        for entry in before.inventory.snapshot().values():
            self.node.inventory.put(entry)
        self.node.plans.set_silent(False)
        self.node.look()

    # What has to be true

    def check(self) -> None:
        for cgroup in self.alive:
            own_us = _quota_us(OWN[cgroup])
            assert own_us <= self.node.quota(cgroup) <= MOST * own_us
        assert self.node.quota(POD) >= _quota_us(POD_OWN)

    def check_off(self) -> None:
        for cgroup in OWN.keys() - self.alive:
            self.node.kernel.remove(cgroup)
        self.node.look()
        self._reload(OFF)
        for _ in range(3):
            self.node.background.work_when_time_is_up()
        now = {one: held_value(self.node.tree, one, "cpu.max") for one in self.alive}
        assert now == {one: OWN[one] for one in self.alive}
        assert held_value(self.node.tree, POD, "cpu.max") == POD_OWN
        assert not (self._directory / "policies.json").exists()


def _quota_us(text: str) -> int:
    return int(text.partition(" ")[0])


STEPS = st.sampled_from(
    [
        *(PodLife.begins, PodLife.runs, PodLife.ends, PodLife.vanishes),
        *(PodLife.looks, PodLife.is_busy, PodLife.goes_on, PodLife.goes_off),
        PodLife.is_killed,
    ]
)


@given(
    st.sampled_from([1, 2]),
    st.lists(st.tuples(STEPS, st.sampled_from(sorted(OWN))), max_size=15),
)
@settings(max_examples=100, deadline=None)
def test_the_pod_has_its_own_quota_again_whoever_came_and_went(
    version: int, steps: list[tuple[Any, str]]
) -> None:
    """And no container ever had less than its own, or more than a policy may give."""
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        life = PodLife(version, Path(directory), stack)
        for step, cgroup in steps:
            step(life, cgroup)
            life.check()
        life.check_off()
