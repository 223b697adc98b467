"""Rates between two samples of a node's pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.trees import CONTAINER, CONTAINER_ID, POD, UID, add_v2, make

from nriplugin.cgroup.tasks.states import TaskStates
from nriplugin.node.pod_usage import UsageSampler

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.node.pod_usage import PodUsage

SECOND = 1_000_000_000


class OneTaskEach:
    """Counts one sleeping task in every cgroup."""

    def states(self, cgroup: str) -> TaskStates:
        return TaskStates(sleeping=1)


class SteppingClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def sampler_of(
    version: int, root: Path, clock: SteppingClock | None = None
) -> UsageSampler:
    tree = make(version, root)
    return UsageSampler(tree, "/kubepods", OneTaskEach(), clock or SteppingClock())


def work(version: int, root: Path, cgroup: str) -> None:
    """Half a second of CPU time, 5 periods, 3 of them throttled for 30 ms in all."""
    if version == 2:
        (root / cgroup[1:] / "cpu.stat").write_text(
            "usage_usec 3500000\nuser_usec 2000000\nsystem_usec 1500000\n"
            "nr_periods 15\nnr_throttled 5\nthrottled_usec 35000\n"
        )
        return
    (root / "cpuacct" / cgroup[1:] / "cpuacct.usage").write_text("3500000000\n")
    (root / "cpu" / cgroup[1:] / "cpu.stat").write_text(
        "nr_periods 15\nnr_throttled 5\nthrottled_time 35000000\n"
    )


@pytest.mark.parametrize("version", [1, 2])
def test_rates_are_differences_over_the_time_between(
    tmp_path: Path, version: int
) -> None:
    """Half a second of CPU time within two seconds is a quarter of a CPU."""
    clock, root = SteppingClock(), tmp_path / "cgroup"
    sampler = sampler_of(version, root, clock)
    sampler.begin()
    clock.now_ns += 2 * SECOND
    work(version, root, CONTAINER)
    (pod,) = sampler.next().pods
    (container,) = pod.containers
    use = container.use
    assert (pod.uid, pod.qos_class) == (UID, "Burstable")
    assert (container.container_id, use.cgroup) == (CONTAINER_ID, CONTAINER)
    assert (use.window_s, use.cpu_nanocores) == (2.0, 250_000_000)
    assert (use.periods, use.throttled, use.throttled_ns) == (5, 3, 30_000_000)
    assert use.throttled_total == 5
    assert pod.use.cpu_nanocores == 0


@pytest.mark.parametrize("version", [1, 2])
def test_the_rest_is_that_of_the_later_sample(tmp_path: Path, version: int) -> None:
    """The working set is memory without inactive file cache; tasks below count."""
    clock = SteppingClock()
    sampler = sampler_of(version, tmp_path / "cgroup", clock)
    sampler.begin()
    clock.now_ns += SECOND
    (pod,) = sampler.next().pods
    assert (pod.use.memory_bytes, pod.use.working_set_bytes) == (1048576, 1044480)
    assert pod.use.oom_kills == 1
    assert pod.use.tasks == TaskStates(sleeping=2)
    assert list(pod.use.pressure) == (["cpu", "memory", "io"] if version == 2 else [])


def one_pod(sampler: UsageSampler) -> PodUsage:
    (pod,) = sampler.next().pods
    return pod


def test_each_answer_is_about_the_time_since_the_last(tmp_path: Path) -> None:
    """Work that one answer has counted is not in the next."""
    clock, root = SteppingClock(), tmp_path / "cgroup"
    sampler = sampler_of(2, root, clock)
    sampler.begin()
    clock.now_ns += SECOND
    work(2, root, POD)
    assert one_pod(sampler).use.cpu_nanocores == 500_000_000
    clock.now_ns += SECOND
    assert one_pod(sampler).use.cpu_nanocores == 0


def test_what_is_new_has_no_rate_and_what_is_not_measured_no_value(
    tmp_path: Path,
) -> None:
    """A new container, and a pod whose memory controller is off."""
    clock, root = SteppingClock(), tmp_path / "cgroup"
    sampler = sampler_of(2, root, clock)
    sampler.begin()
    clock.now_ns += SECOND
    add_v2(root, f"{POD}/{'f' * 64}")
    for file in (root / POD[1:]).glob("memory.*"):
        file.unlink()
    pod = one_pod(sampler)
    assert (pod.use.cpu_nanocores, pod.use.memory_bytes) == (0, None)
    assert (pod.use.working_set_bytes, pod.use.oom_kills) == (None, None)
    assert pod.use.pressure["memory"] is None
    rates = {one.container_id: one.use.cpu_nanocores for one in pod.containers}
    assert rates == {CONTAINER_ID: 0, "f" * 64: None}
