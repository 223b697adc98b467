from __future__ import annotations

from errno import EACCES, EBUSY, EINVAL

import pytest
from cgroup.kernels import Kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trees import CONTAINER, POD, QOS

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Status, Update

# Pairs of (burst, quota) that the kernel accepts; -1 is no quota.
pairs = st.tuples(st.integers(0, 9), st.integers(-1, 9)).filter(
    lambda pair: pair[1] != 0 and (pair[1] < 0 or pair[0] <= pair[1])
)
# Pairs of (memory, memory and swap) in pages; -1 is no limit, on either side.
limits = st.tuples(st.integers(-1, 9), st.integers(-1, 9)).filter(
    lambda pair: pair[1] < 0 or 0 <= pair[0] <= pair[1]
)


@settings(deadline=None)
@given(pairs, pairs, st.sampled_from([1, 2]), st.booleans())
def test_burst_and_quota_in_the_order_that_works(
    before: tuple[int, int], after: tuple[int, int], version: int, turned: bool
) -> None:
    """Any valid burst and quota follow any others, given in whatever order."""
    kernel = Kernel(version)
    executor = Executor(kernel.tree)
    for burst, quota in (before, after):
        updates = [
            Update(Type.CPU_BURST, POD, burst * 1000),
            Update(Type.CPU_QUOTA, POD, quota * 1000 if quota > 0 else -1),
        ]
        outcomes = executor.update_batch(updates[::-1] if turned else updates)
        assert all(outcome.ok for outcome in outcomes), outcomes
    assert kernel.tree.get(Type.CPU_BURST, POD) == after[0] * 1000


@settings(deadline=None)
@given(limits, limits, st.booleans())
def test_v1_memory_and_swap_in_the_order_that_works(
    before: tuple[int, int], after: tuple[int, int], turned: bool
) -> None:
    """Memory and swap is raised before, and lowered after, memory alone."""
    kernel = Kernel(1)
    executor = Executor(kernel.tree)
    for memory, both in (before, after):
        updates = [
            Update(Type.MEMORY_LIMIT, POD, memory * 4096 if memory >= 0 else -1),
            Update(Type.MEMORY_MEMSW, POD, both * 4096 if both >= 0 else -1),
        ]
        outcomes = executor.update_batch(updates[::-1] if turned else updates)
        assert all(outcome.ok for outcome in outcomes), outcomes


def test_a_quota_below_the_stored_burst_is_reported_with_the_burst() -> None:
    """Nobody asked for another burst, so it stays, and the outcome names it."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    executor.update_batch(
        [Update(Type.CPU_QUOTA, POD, 50000), Update(Type.CPU_BURST, POD, 40000)]
    )
    outcome = executor.update(Update(Type.CPU_QUOTA, POD, 30000))
    assert (outcome.status, outcome.errno) == (Status.FAILED, EINVAL)
    assert outcome.reason.endswith("expected at least cpu.max.burst, which is '40000'")
    outcome = executor.update(Update(Type.CPU_BURST, POD, 60000))
    assert outcome.reason.endswith("at most cpu.max, which is '50000 100000'")


@pytest.mark.parametrize("turned", [False, True])
def test_a_weight_comes_before_idle_and_after_not_idle(turned: bool) -> None:
    """A weight is refused while idle, and lost on the way back from it."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    for idle, weight in ((1, 200), (0, 300), (1, 100), (0, 100)):
        updates = [
            Update(Type.CPU_IDLE, POD, idle),
            Update(Type.CPU_WEIGHT, POD, weight),
        ]
        outcomes = executor.update_batch(updates[::-1] if turned else updates)
        assert all(outcome.ok for outcome in outcomes), outcomes
        if not idle:
            assert kernel.tree.get(Type.CPU_WEIGHT, POD) == weight


def test_a_weight_that_looks_right_only_while_idle_is_written() -> None:
    """What an idle cgroup shows as its weight is not the weight it will have."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    executor.update(Update(Type.CPU_IDLE, POD, 1))
    kernel.files[f"{POD}/cpu.weight"] = "1"  # as newer kernels show it
    executor.update_batch(
        [Update(Type.CPU_IDLE, POD, 0), Update(Type.CPU_WEIGHT, POD, 1)]
    )
    assert kernel.tree.get(Type.CPU_WEIGHT, POD) == 1


def test_a_weight_that_idle_has_changed_is_not_remembered() -> None:
    """Going idle and back makes the weight 100, so the next update writes it again."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    weight = Update(Type.CPU_WEIGHT, POD, 200)
    executor.update(weight)
    executor.update(Update(Type.CPU_IDLE, POD, 1))
    assert executor.update(weight).reason.endswith(
        "cpu.idle is 1, which allows no weight"
    )
    executor.update(Update(Type.CPU_IDLE, POD, 0))
    assert executor.update(weight).status is Status.WRITTEN
    assert kernel.tree.get(Type.CPU_WEIGHT, POD) == 200


def test_the_burst_survives_kernels_that_divide_it() -> None:
    """Where a write to cpu.max spoils the burst, it is put back."""
    kernel = Kernel(burst_bug=True)
    executor = Executor(kernel.tree)
    executor.update_batch(
        [Update(Type.CPU_QUOTA, POD, 50000), Update(Type.CPU_BURST, POD, 40000)]
    )
    outcome = executor.update(Update(Type.CPU_QUOTA, POD, 60000))
    assert (outcome.status, outcome.reason) == (Status.WRITTEN, "")
    assert kernel.tree.get(Type.CPU_BURST, POD) == 40000
    outcome = executor.update(Update(Type.CPU_QUOTA, POD, 30000))
    assert "the kernel changed the burst as well" in outcome.reason


def test_a_v1_limit_below_the_usage_is_tried_twice() -> None:
    """EBUSY means that reclaim did not get there: once more, then it is reported."""
    kernel = Kernel(1)
    executor = Executor(kernel.tree)
    path = kernel.tree.path(Type.MEMORY_LIMIT, POD)
    kernel.busy = [path]
    assert executor.update(Update(Type.MEMORY_LIMIT, POD, 8192)).ok
    kernel.busy = [path, path]
    outcome = executor.update(Update(Type.MEMORY_LIMIT, POD, 4096))
    assert (outcome.status, outcome.errno) == (Status.FAILED, EBUSY)
    assert "more is in use" in outcome.reason
    kernel.busy = []
    assert executor.update(Update(Type.MEMORY_LIMIT, POD, 4096)).ok


def test_empty_v1_cpusets_are_filled_from_the_top() -> None:
    """A v1 cpuset takes nothing while its parent is empty, so parents come first."""
    kernel = Kernel(1)
    for cgroup in (QOS, POD, CONTAINER):
        kernel.files[f"/cpuset{cgroup}/cpuset.cpus"] = ""
    executor = Executor(kernel.tree)
    assert executor.update(Update(Type.CPUSET_CPUS, CONTAINER, "2-3")).ok
    assert [value for _, value in kernel.writes] == ["0-7", "0-7", "2-3"]
    assert kernel.tree.get(Type.CPUSET_CPUS, QOS) == "0-7"


def test_a_v1_cpuset_outside_its_parents_says_what_the_parent_has() -> None:
    """The refusal names what would have been possible."""
    kernel = Kernel(1)
    executor = Executor(kernel.tree)
    outcome = executor.update(Update(Type.CPUSET_CPUS, POD, "8"))
    assert (outcome.status, outcome.errno) == (Status.FAILED, EACCES)
    assert outcome.reason.endswith("expected what its parent allows, '0-7'")
    outcome = executor.update(Update(Type.CPUSET_CPUS, QOS, "0"))
    assert outcome.errno == EBUSY
    assert "a child has something else" in outcome.reason


def test_a_v1_quota_above_the_parents_says_so() -> None:
    """On v1 a quota is at most the parent's."""
    kernel = Kernel(1)
    executor = Executor(kernel.tree)
    assert executor.update(Update(Type.CPU_QUOTA, QOS, 50000)).ok
    outcome = executor.update(Update(Type.CPU_QUOTA, POD, 60000))
    assert outcome.errno == EINVAL
    assert outcome.reason.endswith(
        "expected at most the 0.5 CPUs of /kubepods/burstable"
    )


def test_a_cpuset_with_tasks_cannot_be_emptied() -> None:
    """ENOSPC is explained, because its own text speaks of devices."""
    kernel = Kernel(populated=True)
    executor = Executor(kernel.tree)
    executor.update(Update(Type.CPUSET_CPUS, POD, "0-1"))
    outcome = executor.update(Update(Type.CPUSET_CPUS, POD, ""))
    assert outcome.reason.endswith("it has tasks, which need at least one")


def test_a_v2_cpuset_apart_from_its_parents_has_no_effect_and_says_so() -> None:
    """v2 takes it and then uses the parent's: written, but not what was wanted."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    assert executor.update(Update(Type.CPUSET_CPUS, QOS, "0-3")).reason == ""
    outcome = executor.update(Update(Type.CPUSET_CPUS, POD, "6-7"))
    assert outcome.status is Status.WRITTEN
    assert outcome.reason == "the parent has none of it, so '0-3' is in effect"
    assert executor.update(Update(Type.CPUSET_CPUS, POD, "")).reason == ""


def test_what_the_kernel_does_not_do_here_is_unsupported() -> None:
    """EOPNOTSUPP is about the kernel or the cgroup, not about the value."""
    kernel = Kernel()
    kernel.unwilling = {f"{POD}/cpu.weight"}
    outcome = Executor(kernel.tree).update(Update(Type.CPU_WEIGHT, POD, 7))
    assert outcome.status is Status.UNSUPPORTED


def test_a_v1_quota_below_a_childs_says_so() -> None:
    """The reason names who has more, whether the quota or the period is changed."""
    kernel = Kernel(1)
    executor = Executor(kernel.tree)
    for cgroup in (POD, CONTAINER):
        assert executor.update(Update(Type.CPU_QUOTA, cgroup, 50000)).ok
    name = CONTAINER.rpartition("/")[2]
    for kind, value in ((Type.CPU_QUOTA, 40000), (Type.CPU_PERIOD, 200000)):
        outcome = executor.update(Update(kind, POD, value))
        assert outcome.errno == EINVAL
        assert outcome.reason.endswith(f"at least the 0.5 CPUs of {name} below it")


@pytest.mark.parametrize("quota", [50000, 90000, None])
def test_v1_periods_of_a_branch_change(quota: int | None) -> None:
    """Quotas are none on the way, also those that stay or are not asked for."""
    kernel = Kernel(1)
    executor = Executor(kernel.tree)
    branch = (QOS, POD, CONTAINER)
    for cgroup in branch:
        assert executor.update(Update(Type.CPU_QUOTA, cgroup, 50000)).ok
    for period in (200000, 50000):
        levels = [[Update(Type.CPU_PERIOD, cgroup, period)] for cgroup in branch]
        if quota is not None:
            for level, cgroup in zip(levels, branch, strict=True):
                level.append(Update(Type.CPU_QUOTA, cgroup, quota))
        assert all(one.ok for one in executor.leveled_update_batch(levels))
        for cgroup in branch:
            files = kernel.files
            assert files[f"/cpu{cgroup}/cpu.cfs_period_us"] == str(period)
            assert files[f"/cpu{cgroup}/cpu.cfs_quota_us"] == str(quota or 50000)
