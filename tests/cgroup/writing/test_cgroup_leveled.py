from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trees import CONTAINER, POD, QOS

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Status, Update
from nriplugin.convert.cpu_list import parse_cpus, render_cpus

if TYPE_CHECKING:
    from collections.abc import Sequence

BRANCH = (QOS, POD, CONTAINER)
NAMES = {QOS: "qos", POD: "pod", CONTAINER: "container"}


class Traced:
    """An executor on a kernel, and the writes it made, by the names of levels."""

    def __init__(self, version: int, type_: str, values: Sequence[str]) -> None:
        self.kernel = Kernel(version)
        self.type = type_
        self.tree = self.kernel.tree
        for cgroup, value in reversed([*zip(BRANCH, values, strict=True)]):
            self.tree.set(type_, cgroup, value)
        self.kernel.writes.clear()
        self.trace: list[tuple[str, str]] = []
        self.executor = Executor(self.tree, trace=self._note)

    def _note(self, path: str, content: str) -> None:
        for cgroup, name in NAMES.items():
            if path == self.tree.path(self.type, cgroup):
                self.trace.append((name, content))

    def level(self, values: Sequence[str | int]) -> list[Status]:
        """Update the three levels; return what became of each."""
        updates = [
            [Update(self.type, cgroup, value)]
            for cgroup, value in zip(BRANCH, values, strict=True)
        ]
        outcomes = self.executor.leveled_update_batch(updates)
        assert [outcome.update.cgroup for outcome in outcomes] == list(BRANCH)
        return [outcome.status for outcome in outcomes]

    @property
    def held(self) -> list[str]:
        """Return what the three files hold."""
        return [str(self.tree.get(self.type, cgroup)) for cgroup in BRANCH]


@pytest.mark.parametrize("version", [1, 2])
def test_golden_trace_of_a_cpuset_that_moves(version: int) -> None:
    """1-4 to 4-5: parents hold both from the top down, then all the new one upwards."""
    traced = Traced(version, Type.CPUSET_CPUS, ["1-4"] * 3)
    assert traced.level(["4-5"] * 3) == [Status.WRITTEN] * 3
    assert traced.trace == [
        ("qos", "1-5"),
        ("pod", "1-5"),
        ("container", "4-5"),
        ("pod", "4-5"),
        ("qos", "4-5"),
    ]
    assert traced.held == ["4-5"] * 3
    # The trace is what the kernel was given, and the last of each is what it holds.
    assert [value for _, value in traced.kernel.writes] == [v for _, v in traced.trace]


@pytest.mark.parametrize("type_", [Type.MEMORY_MIN, Type.MEMORY_LOW])
def test_golden_trace_of_protected_memory(type_: Type) -> None:
    """Memory that grows is written downwards, memory that shrinks upwards."""
    traced = Traced(2, type_, ["8192", "4096", "4096"])
    traced.level(["16384", "12288", "8192"])
    assert traced.trace == [("qos", "16384"), ("pod", "12288"), ("container", "8192")]
    traced.trace.clear()
    traced.level(["8192", "4096", "0"])
    assert traced.trace == [("container", "0"), ("pod", "4096"), ("qos", "8192")]


def test_memory_that_moves_between_levels() -> None:
    """A parent that shrinks while its child grows keeps the larger value meanwhile."""
    traced = Traced(2, Type.MEMORY_MIN, ["16384", "4096", "4096"])
    traced.level(["8192", "8192", "8192"])
    assert traced.trace == [("pod", "8192"), ("container", "8192"), ("qos", "8192")]


@pytest.mark.parametrize("version", [1, 2])
def test_quota_up_goes_down_the_tree_and_down_goes_up(version: int) -> None:
    """A quota that is raised is raised for the pod first, lowered for it last."""
    traced = Traced(version, Type.CPU_QUOTA, ["-1", "50000", "50000"])
    period = " 100000" if version == 2 else ""
    traced.level([-1, 70000, 70000])
    assert traced.trace == [("pod", f"70000{period}"), ("container", f"70000{period}")]
    traced.trace.clear()
    traced.level([-1, 20000, 20000])
    assert traced.trace == [("container", f"20000{period}"), ("pod", f"20000{period}")]
    traced.trace.clear()
    traced.level([-1, "max", "max"])
    assert [name for name, _ in traced.trace] == ["pod", "container"]
    assert traced.held == ["-1", "-1", "-1"]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("before", "after"),
    [((20000, 50000), (60000, 90000)), ((60000, 90000), (2000, 3000))],
)
def test_burst_and_quota_of_a_branch_together(
    version: int, before: tuple[int, int], after: tuple[int, int]
) -> None:
    """At no step is a burst above its quota, nor on v1 a quota above the parent's."""
    kernel = Kernel(version)
    executor = Executor(kernel.tree)
    for burst, quota in (before, after):
        outcomes = executor.leveled_update_batch(
            [
                [
                    Update(Type.CPU_BURST, cgroup, burst),
                    Update(Type.CPU_QUOTA, cgroup, quota),
                ]
                for cgroup in BRANCH
            ]
        )
        assert all(outcome.ok for outcome in outcomes), outcomes
        for cgroup in BRANCH:
            assert kernel.tree.get(Type.CPU_BURST, cgroup) == burst
            assert kernel.tree.get(Type.CPU_QUOTA, cgroup) == quota


def test_nothing_is_written_for_nothing() -> None:
    """A branch that holds its values already is only read, once."""
    traced = Traced(2, Type.CPUSET_CPUS, ["1-4"] * 3)
    assert traced.level(["1,2,3,4"] * 3) == [Status.SKIPPED] * 3
    reads = traced.kernel.reads
    assert traced.level(["1,2,3,4"] * 3) == [Status.SKIPPED] * 3
    assert traced.kernel.reads == reads
    assert traced.trace == []


def test_a_type_without_a_merge_is_written_once() -> None:
    """A parent of such a type is written first if it grows, and last if it shrinks."""
    traced = Traced(2, Type.MEMORY_HIGH, ["8192", "8192", "8192"])

    def level(value: int) -> None:
        traced.executor.leveled_update_batch(
            [[Update(Type.MEMORY_HIGH, cgroup, value)] for cgroup in BRANCH]
        )

    level(16384)
    assert [name for name, _ in traced.trace] == ["qos", "pod", "container"]
    traced.trace.clear()
    level(4096)
    assert [name for name, _ in traced.trace] == ["container", "pod", "qos"]


def test_what_only_passes_is_not_read_back_and_what_stays_is() -> None:
    """Parents that hold their final value after the first pass are looked at, too."""
    traced = Traced(2, Type.MEMORY_MIN, ["0", "0", "0"])
    traced.kernel.write = lambda path, value: None  # type: ignore[method-assign]
    updates = [[Update(Type.MEMORY_MIN, cgroup, 4096)] for cgroup in BRANCH]
    outcomes = traced.executor.leveled_update_batch(updates)
    assert [outcome.actual for outcome in outcomes] == ["0", "0", "0"]


def test_what_has_nothing_below_it_is_written_once() -> None:
    """The merge is only for those who have something below them in the batch."""
    other = f"{QOS}/podother"
    kernel = Kernel(2, ["/kubepods", QOS, POD, other])
    tree = kernel.tree
    for cgroup in (QOS, POD, other):
        tree.set(Type.CPUSET_CPUS, cgroup, "1-4")
    kernel.writes.clear()
    Executor(tree).leveled_update_batch(
        [
            [Update(Type.CPUSET_CPUS, QOS, "4-5")],
            [Update(Type.CPUSET_CPUS, cgroup, "4-5") for cgroup in (POD, other)],
        ]
    )
    assert [value for _, value in kernel.writes] == ["1-5", "4-5", "4-5", "4-5"]


def test_one_level_that_fails_does_not_stop_the_others() -> None:
    """A pod that went away is an outcome; the rest of the branch is updated."""
    traced = Traced(2, Type.CPUSET_CPUS, ["1-4"] * 3)
    traced.kernel.remove(POD)
    statuses = traced.level(["4-5"] * 3)
    assert statuses == [Status.WRITTEN, Status.GONE, Status.GONE]


def test_a_parent_that_fails_on_the_way_down_is_tried_on_the_way_up() -> None:
    """What counts is whether it holds its value in the end."""
    traced = Traced(2, Type.CPUSET_CPUS, ["1-4"] * 3)
    traced.kernel.busy = [f"{QOS}/cpuset.cpus"]
    assert traced.level(["4-5"] * 3) == [Status.WRITTEN] * 3
    assert traced.held == ["4-5"] * 3


def test_twice_the_same_takes_the_last() -> None:
    """Of two values for the same file in one batch, the last counts."""
    traced = Traced(2, Type.CPUSET_CPUS, ["1-4"] * 3)
    (outcome,) = traced.executor.leveled_update_batch(
        [[Update(Type.CPUSET_CPUS, QOS, "0")], [Update(Type.CPUSET_CPUS, QOS, "7")]]
    )
    assert outcome.content == "7"
    assert traced.trace == [("qos", "7")]


nested = st.lists(
    st.frozensets(st.integers(0, 7), min_size=1), min_size=3, max_size=3
).map(lambda sets: [sets[0] | sets[1] | sets[2], sets[1] | sets[2], sets[2]])
amounts = st.lists(st.integers(0, 9), min_size=3, max_size=3).map(
    lambda numbers: [number * 4096 for number in sorted(numbers, reverse=True)]
)


@settings(deadline=None)
@given(nested, nested)
def test_at_every_step_a_cpuset_is_within_its_parents(
    before: list[frozenset[int]], after: list[frozenset[int]]
) -> None:
    """From any valid branch to any other, no step on the way is invalid."""
    traced = Traced(2, Type.CPUSET_CPUS, [render_cpus(cpus) for cpus in before])
    held = dict(zip(("qos", "pod", "container"), before, strict=True))
    traced.level([render_cpus(cpus) for cpus in after])
    for name, value in traced.trace:
        held[name] = parse_cpus(value)
        assert held["container"] <= held["pod"] <= held["qos"]
    assert list(held.values()) == after
    assert len(traced.trace) <= 5


@settings(deadline=None)
@given(nested, nested)
def test_a_v1_kernel_takes_every_step(
    before: list[frozenset[int]], after: list[frozenset[int]]
) -> None:
    """A kernel that enforces nesting refuses none of the writes."""
    traced = Traced(1, Type.CPUSET_CPUS, [render_cpus(cpus) for cpus in before])
    statuses = traced.level([render_cpus(cpus) for cpus in after])
    assert Status.FAILED not in statuses
    assert traced.held == [render_cpus(cpus) for cpus in after]


@settings(deadline=None)
@given(amounts, amounts)
def test_at_every_step_memory_is_at_most_the_parents(
    before: list[int], after: list[int]
) -> None:
    """What a child protects is never more than what its parent does."""
    traced = Traced(2, Type.MEMORY_MIN, [str(number) for number in before])
    held = dict(zip(("qos", "pod", "container"), before, strict=True))
    traced.level(after)
    for name, value in traced.trace:
        held[name] = int(value)
        assert held["container"] <= held["pod"] <= held["qos"]
    assert list(held.values()) == after
