"""Policies at run time on real kernels: a throttled loop is throttled less."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import pytest
from support.bed import on_nodes
from support.looking import PATIENCE_S
from support.plugins import running

if TYPE_CHECKING:
    from collections.abc import Callable

    from nodes.machine import Machine
    from support.kubelet import Container, Kubelet

pytestmark = [
    on_nodes("containerd-2.4", "systemd", "v1"),
    pytest.mark.timeout(1800),
]

CONFIG = """
policies: {intervalSeconds: 1}
quotaBurst: {enabled: true, percent: 1000, periodSeconds: null, nodeCpuPercent: null}
"""
OWN_US = 20_000
GIVEN = {"cpu_shares": 512, "cpu_quota": OWN_US, "cpu_period": 100_000}
# A loop of one thread uses one CPU, so it is not throttled with this quota.
ENOUGH_US = 100_000
# How many periods are looked at, in the node's own time.
PERIODS = 40

T = TypeVar("T")
LOOP = "echo $$ > {cgroup}/cgroup.procs; while :; do :; done"


class Counts(NamedTuple):
    periods: int
    throttled: int


class Cgroup:
    """The CPU cgroup of a container, or of its pod, on either version."""

    def __init__(self, node: Machine, directory: str) -> None:
        self._node = node
        self.directory = directory
        self._v1 = node.node.name == "v1"

    @classmethod
    def of(cls, node: Machine, container: Container) -> Cgroup:
        own = [one for one in container.cgroups if "/cpu" in one.replace("cpuset", "")]
        return cls(node, own[0] if own else container.cgroups[0])

    @property
    def pod(self) -> Cgroup:
        return Cgroup(self._node, self.directory.rpartition("/")[0])

    def quota_us(self) -> int:
        """Return the quota; -1 is none."""
        name = "cpu.cfs_quota_us" if self._v1 else "cpu.max"
        text = self._read(name).split()[0]
        return -1 if text == "max" else int(text)

    def set_quota(self, quota_us: int) -> None:
        name = "cpu.cfs_quota_us" if self._v1 else "cpu.max"
        self._node.write(f"{self.directory}/{name}", str(quota_us))

    def counts(self) -> Counts:
        pairs = dict(line.split() for line in self._read("cpu.stat").splitlines())
        return Counts(int(pairs["nr_periods"]), int(pairs["nr_throttled"]))

    def throttled_share(self) -> float:
        """Return which part of the next periods is cut short."""
        begin = self.counts()
        end = until(self.counts, lambda now: now.periods >= begin.periods + PERIODS)
        return (end.throttled - begin.throttled) / (end.periods - begin.periods)

    def _read(self, file: str) -> str:
        path = f"{self.directory}/{file}"
        return self._node.read([path])[path] or ""


def until(look: Callable[[], T], good: Callable[[T], object]) -> T:
    """Return what is seen as soon as it is good."""
    deadline = time.monotonic() + PATIENCE_S
    while not good(seen := look()):
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)
    return seen


def test_a_throttled_loop_is_throttled_less_and_its_quota_goes_back(
    node: Machine, kubelet: Kubelet
) -> None:
    """With the policy and without it, and after its end."""
    node.write("/tmp/policies.yaml", CONFIG)
    with kubelet.sandbox("Burstable") as pod:
        cgroup = Cgroup.of(node, kubelet.start(pod, "busy", GIVEN))
        cgroup.pod.set_quota(OWN_US)
        loop = node.spawn(
            *("sh", "-c", LOOP.format(cgroup=cgroup.directory)),
            log="/var/log/loop.log",
        )
        without = cgroup.throttled_share()
        with running(node, "--config", "/tmp/policies.yaml") as plugin:
            # The pod's quota and the container's are not read at the same time.
            until(
                lambda: (cgroup.quota_us(), cgroup.pod.quota_us()),
                lambda quotas: ENOUGH_US <= quotas[0] <= quotas[1],
            )
            with_it = cgroup.throttled_share()
            log = plugin.log()
        assert (cgroup.quota_us(), cgroup.pod.quota_us()) == (OWN_US, OWN_US)
        node.stop(loop, signal.SIGKILL)
    assert without > 0.5
    assert with_it < without / 2, log
    assert "ERROR" not in log
