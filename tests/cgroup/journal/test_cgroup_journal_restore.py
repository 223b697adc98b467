from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from support.trees import CGROUPS, CONTAINER, POD, QOS

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.journal.restore import Action, restore
from nriplugin.cgroup.types.contents import text
from nriplugin.cgroup.types.registry import Resource, Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.journal_entries import Entry
from nriplugin.cgroup.writing.updates import Status, Update
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BRANCH = (QOS, POD, CONTAINER)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(str(tmp_path / "state")) as opened:
        yield opened


def actions(kernel: Kernel, journal: Journal) -> list[Action]:
    return [finding.action for finding in restore(kernel.tree, journal)]


@pytest.mark.parametrize("version", [1, 2])
def test_everything_is_put_back_and_forgotten(version: int, journal: Journal) -> None:
    """After many updates on many levels every file holds what it held before."""
    kernel = Kernel(version)
    for cgroup in reversed(BRANCH):
        kernel.tree.set(Type.CPUSET_CPUS, cgroup, "1-4")
        kernel.tree.set(Type.CPU_QUOTA, cgroup, 50000)
    kernel.tree.set(Type.CPU_BURST, POD, 10000)
    before = dict(kernel.files)
    executor = Executor(kernel.tree, journal=journal)
    for cpus, quota, burst in (
        ("4-5", 90000, 60000),
        ("0-7", 5000, 5000),
        ("6", -1, 9),
    ):
        outcomes = executor.leveled_update_batch(
            [
                [
                    Update(Type.CPUSET_CPUS, cgroup, cpus),
                    Update(Type.CPU_QUOTA, cgroup, quota),
                    Update(Type.CPU_BURST, cgroup, burst),
                    Update(Type.PIDS_MAX, cgroup, 77),
                    Update(Type.CPU_PERIOD, cgroup, 200000),
                ]
                for cgroup in BRANCH
            ]
        )
        assert all(outcome.ok for outcome in outcomes)
    assert set(actions(kernel, journal)) == {Action.RESTORED}
    assert kernel.files == before
    assert journal.rows() == []
    assert restore(kernel.tree, journal) == []


def test_what_somebody_else_changed_is_left_alone(journal: Journal) -> None:
    """A value of another program stays, its row stays, and the finding says so."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal)
    executor.update_batch([Update(Type.CPU_WEIGHT, cgroup, 7) for cgroup in BRANCH])
    kernel.files[f"{POD}/cpu.weight"] = "555"
    kernel.files[f"{CONTAINER}/cpu.weight"] = "100"
    found = {finding.path: finding for finding in restore(kernel.tree, journal)}
    assert found[f"{QOS}/cpu.weight"].action is Action.RESTORED
    left = found[f"{POD}/cpu.weight"]
    assert (left.original, left.ours, left.now) == ("100", "7", "555")
    assert (left.action, left.reason) == (
        Action.LEFT,
        "another program has changed it since",
    )
    assert found[f"{CONTAINER}/cpu.weight"].action is Action.ALREADY
    assert kernel.files[f"{POD}/cpu.weight"] == "555"
    assert [row.cgroup for row in journal.rows()] == [POD]


def test_what_the_kernel_rounded_is_still_ours(journal: Journal) -> None:
    """5000 bytes that the kernel rounded to 4096 are put back."""
    kernel = Kernel()
    Executor(kernel.tree, journal=journal).update(Update(Type.MEMORY_HIGH, POD, 5000))
    assert actions(kernel, journal) == [Action.RESTORED]
    assert kernel.files[f"{POD}/memory.high"] == "max"


def test_a_dry_run_changes_nothing(journal: Journal) -> None:
    """A dry run returns what would be done and changes neither files nor journal."""
    kernel = Kernel()
    Executor(kernel.tree, journal=journal).update(Update(Type.CPU_WEIGHT, POD, 7))
    files = dict(kernel.files)
    (finding,) = restore(kernel.tree, journal, dry_run=True)
    assert finding.action is Action.RESTORED
    assert (kernel.files, len(journal.rows())) == (files, 1)


def test_what_is_gone_is_forgotten(tmp_path: Path) -> None:
    """Rows of cgroups that are gone or made again, or of earlier boots, are dropped."""
    kernel = Kernel()
    with Journal(str(tmp_path)) as journal:
        executor = Executor(kernel.tree, journal=journal)
        executor.update_batch([Update(Type.CPU_WEIGHT, c, 7) for c in (QOS, POD)])
        kernel.remove(POD)
        kernel.add(POD)
        kernel.files[f"{POD}/cpu.weight"] = "7"
        kernel.remove(QOS)
        kernel.add(POD)
        found = restore(kernel.tree, journal)
        assert [finding.action for finding in found] == [Action.GONE] * 2
        assert found[1].reason == "another cgroup has this path now"
        assert kernel.files[f"{POD}/cpu.weight"] == "100"
        assert journal.rows() == []
        Executor(kernel.tree, journal=journal).update(Update(Type.CPU_WEIGHT, POD, 7))
    with Journal(str(tmp_path), boot="another") as journal:
        (finding,) = restore(kernel.tree, journal)
        assert finding.reason == "from before the node was booted"
        assert (finding.action, journal.rows()) == (Action.GONE, [])
    assert kernel.files[f"{POD}/cpu.weight"] == "7"


def test_a_failure_is_reported_and_kept(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed file keeps its row for the next attempt, and the others are restored."""
    kernel = Kernel(1)
    executor = Executor(kernel.tree, journal=journal)
    executor.update(Update(Type.MEMORY_LIMIT, POD, 4096))
    executor.update(Update(Type.CPU_SHARES, POD, 7))
    path = kernel.tree.path(Type.MEMORY_LIMIT, POD)
    kernel.busy = [path, path]
    found = {finding.path: finding for finding in restore(kernel.tree, journal)}
    assert found[path].action is Action.FAILED
    assert "more is in use" in found[path].reason
    assert [row.path for row in journal.rows()] == [path]
    assert actions(kernel, journal) == [Action.RESTORED]
    executor.update(Update(Type.CPU_SHARES, POD, 9))

    def read(path: str) -> str:
        raise CgroupError("read", path, None, 5)

    monkeypatch.setattr(kernel, "read", read)
    assert actions(kernel, journal) == [Action.FAILED]


def test_idle_and_the_weight_that_it_cost(journal: Journal) -> None:
    """Going back from idle makes the weight 100; the original weight is put back."""
    kernel = Kernel()
    kernel.files[f"{POD}/cpu.weight"] = "250"
    before = dict(kernel.files)
    executor = Executor(kernel.tree, journal=journal)
    executor.update(Update(Type.CPU_WEIGHT, POD, 300))
    executor.update(Update(Type.CPU_IDLE, POD, 1))
    assert actions(kernel, journal) == [Action.RESTORED] * 2
    assert kernel.files == before


def test_a_weight_stays_with_somebody_elses_idle(journal: Journal) -> None:
    """A weight is not restored if cpu.idle stays, or was 1 originally."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal)
    executor.update(Update(Type.CPU_IDLE, POD, 1))
    journal.drop([f"{POD}/cpu.idle"])
    assert actions(kernel, journal) == [Action.LEFT]
    journal.drop([f"{POD}/cpu.weight"])
    executor.update(Update(Type.CPU_IDLE, POD, 0))
    assert actions(kernel, journal) == [Action.RESTORED, Action.ALREADY]
    assert kernel.files[f"{POD}/cpu.idle"] == "1"


def test_devices_that_had_no_limit_have_none_again(journal: Journal) -> None:
    """Lines that nriplugin added are removed, and those of others stay."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal)
    executor.update(Update(Type.IO_MAX, POD, "8:0 rbps=1000"))
    executor.update(Update(Type.IO_MAX, POD, "8:16 wiops=5"))
    kernel.write(f"{POD}/io.max", "8:32 rbps=7")
    assert actions(kernel, journal) == [Action.RESTORED]
    assert kernel.files[f"{POD}/io.max"] == "8:32 rbps=7 wbps=max riops=max wiops=max"


def test_an_empty_cpuset_with_tasks_gets_what_empty_meant(journal: Journal) -> None:
    """A cpuset that cannot be emptied gets its parent's CPUs, to the same effect."""
    kernel = Kernel(populated=True)
    Executor(kernel.tree, journal=journal).update(Update(Type.CPUSET_CPUS, POD, "3"))
    (finding,) = restore(kernel.tree, journal)
    assert finding.action is Action.RESTORED
    assert finding.reason.startswith("to the parent's 0-7")
    assert kernel.files[f"{POD}/cpuset.cpus"] == "0-7"
    kernel.populated = False
    Executor(kernel.tree, journal=journal).update(Update(Type.CPUSET_MEMS, POD, "0"))
    restore(kernel.tree, journal)
    assert kernel.files[f"{POD}/cpuset.mems"] == ""


def test_a_type_of_somebodys_own(journal: Journal) -> None:
    """A file is restored even if the registry lacks its type."""
    kernel = Kernel()
    kernel.files[f"{POD}/cpu.own"] = "a"
    tree = kernel.tree
    tree.registry.add(Resource.of(2, "cpu", "cpu.own", text()))
    update = Update("cpu/cpu.own", POD, "b")
    assert Executor(tree, journal=journal).update(update).status is Status.WRITTEN
    assert actions(kernel, journal) == [Action.RESTORED]
    assert kernel.files[f"{POD}/cpu.own"] == "a"


def test_killed_between_the_record_and_the_write(journal: Journal) -> None:
    """A file that still holds nriplugin's earlier value is put back."""
    kernel = Kernel()
    path = f"{POD}/cpu.weight"
    Executor(kernel.tree, journal=journal).update(Update(Type.CPU_WEIGHT, POD, 200))
    identity = kernel.identity(path)
    journal.record([Entry(path, POD, "cpu.weight", "200", "300", identity)])
    assert actions(kernel, journal) == [Action.RESTORED]
    assert kernel.files[path] == "100"


class Killed(Exception):
    """What stands for SIGKILL where the process has to live on to be looked at."""


values = st.frozensets(st.integers(0, 7), min_size=1).map(sorted)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(values, st.integers(1, 9)), min_size=1, max_size=4),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from([1, 2]),
)
def test_killed_at_any_write_and_restored_at_any_write(
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[tuple[list[int], int]],
    dies_at: int,
    restore_dies_at: int,
    version: int,
) -> None:
    """Updates and `restore` may be killed at any write; the next `restore` ends it."""
    directory = str(tmp_path_factory.mktemp("state"))
    kernel = Kernel(version)
    for cgroup in reversed(CGROUPS):
        kernel.tree.set(Type.CPUSET_CPUS, cgroup, "1-4")
    before = dict(kernel.files)
    write = kernel.write

    def dying(writes: int) -> None:
        left = [writes]

        def one(path: str, value: str) -> None:
            if not left[0]:
                raise Killed
            left[0] -= 1
            write(path, value)

        kernel.write = one  # type: ignore[method-assign]

    dying(dies_at)
    journal = Journal(directory)
    executor = Executor(kernel.tree, journal=journal)
    try:
        for cpus, quota in rounds:
            listed = ",".join(str(cpu) for cpu in cpus)
            executor.leveled_update_batch(
                [
                    [
                        Update(Type.CPUSET_CPUS, cgroup, listed),
                        Update(Type.CPU_QUOTA, cgroup, quota * 1000),
                        Update(Type.CPU_BURST, cgroup, quota * 500),
                    ]
                    for cgroup in CGROUPS
                ]
            )
    except Killed:
        pass
    else:
        journal._flush()
    dying(restore_dies_at)
    with Journal(directory) as second:
        try:
            restore(kernel.tree, second)
        except Killed:
            second._settled.clear()
    kernel.write = write  # type: ignore[method-assign]
    with Journal(directory) as third:
        found = restore(kernel.tree, third)
        assert {finding.action for finding in found} <= {
            Action.RESTORED,
            Action.ALREADY,
        }
        assert third.rows() == []
    assert kernel.files == before
    journal._settled.clear()
    journal.close()
