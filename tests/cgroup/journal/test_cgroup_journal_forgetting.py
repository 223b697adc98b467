"""What leaves the journal when cgroups end, and what stays."""

from __future__ import annotations

from errno import EACCES
from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from support.trees import CONTAINER, POD, QOS

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Update
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = f"{POD}/cpu.weight"


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(str(tmp_path / "state")) as opened:
        yield opened


def weight(value: int, cgroup: str = POD) -> Update:
    return Update(Type.CPU_WEIGHT, cgroup, value)


def pids(value: int, cgroup: str) -> Update:
    """Return an update of a type that both versions of cgroups have."""
    return Update(Type.PIDS_MAX, cgroup, value)


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_forgotten_leaves_the_journal(version: int, journal: Journal) -> None:
    """The rows of a removed cgroup, and of the cgroups below it, are dropped."""
    kernel = Kernel(version)
    executor = Executor(kernel.tree, journal=journal)
    other = f"{POD}0"  # beside it, not below
    kernel.add(other)
    executor.update_batch([pids(7, c) for c in (QOS, POD, CONTAINER, other)])
    kernel.remove(POD)
    executor.forget(POD)
    executor.update(pids(8, QOS))
    assert [row.cgroup for row in journal.rows()] == [QOS, other]


@pytest.mark.parametrize("version", [1, 2])
def test_what_is_still_there_is_not_forgotten(version: int, journal: Journal) -> None:
    """A pod's cgroup outlives its sandbox, and the next sandbox's containers are in it.

    Only the rows of the container that is gone are dropped.
    """
    kernel = Kernel(version)
    executor = Executor(kernel.tree, journal=journal)
    new = f"{POD}/new"
    kernel.add(new)
    executor.update_batch([pids(7, c) for c in (POD, CONTAINER, new)])
    kernel.remove(CONTAINER)
    executor.forget(POD)
    executor.update(pids(8, QOS))
    assert {row.cgroup for row in journal.rows()} == {QOS, POD, new}


@pytest.mark.parametrize("version", [1, 2])
def test_a_sweep_takes_only_what_is_gone(version: int, journal: Journal) -> None:
    """A sweep finds the files of a v1 cgroup by the path in their hierarchy."""
    kernel = Kernel(version)
    executor = Executor(kernel.tree, journal=journal)
    executor.update_batch([pids(7, c) for c in (QOS, POD, CONTAINER)])
    kernel.remove(CONTAINER)
    executor.sweep()
    executor.update(pids(8, QOS))
    assert [row.cgroup for row in journal.rows()] == [QOS, POD]


def test_a_cgroup_made_anew_is_forgotten_like_one_that_is_gone(
    journal: Journal,
) -> None:
    """Rows of a cgroup that was removed and made again are dropped."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal)
    executor.update(weight(200))
    kernel.remove(POD)
    kernel.add(POD)
    kernel.files[FILE] = "200"
    assert executor.original(FILE, "200") is None
    executor.forget(POD)
    executor.update(weight(7, QOS))
    assert [row.cgroup for row in journal.rows()] == [QOS]


def test_a_cgroup_that_cannot_be_looked_at_is_not_forgotten(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a file cannot be looked at, its row is kept."""
    kernel = Kernel()
    executor = Executor(kernel.tree, journal=journal)
    executor.update(weight(200))

    def refuse(path: str) -> bool:
        raise CgroupError("open", path, None, EACCES)

    monkeypatch.setattr(kernel, "exists", refuse)
    executor.forget(POD)
    executor.sweep()
    journal.drop([])
    assert [row.cgroup for row in journal.rows()] == [POD]


def test_a_cgroup_that_goes_after_it_was_forgotten(journal: Journal) -> None:
    """Rows of a pod's cgroup that outlives its sandbox are dropped by a later sweep."""
    pods = [f"{QOS}/pod{number}" for number in range(300)]
    kernel = Kernel(2, ["/kubepods", QOS, *pods])
    executor = Executor(kernel.tree, journal=journal)
    executor.update_batch([weight(7, pod) for pod in pods])
    for pod in pods:
        executor.forget(pod)
        kernel.remove(pod)
    executor.update(weight(8, QOS))
    assert len(journal.rows()) < 150


def test_a_cgroup_recorded_since_is_not_forgotten(tmp_path: Path) -> None:
    """Dropping a row late does not remove one that another process recorded since."""
    kernel = Kernel()
    with Journal(str(tmp_path)) as first, Journal(str(tmp_path)) as second:
        executor = Executor(kernel.tree, journal=first)
        executor.update(weight(200))
        kernel.remove(POD)
        executor.forget(POD)
        kernel.add(POD)
        Executor(kernel.tree, journal=second).update(weight(300))
        first._flush()
        assert [row.ours for row in second.rows()] == ["300"]


def test_many_forgotten_cgroups_take_no_memory(journal: Journal) -> None:
    """Rows that wait to be dropped are stored once there are many of them."""
    pods = [f"{QOS}/pod{number}" for number in range(2000)]
    kernel = Kernel(2, ["/kubepods", QOS, *pods])
    executor = Executor(kernel.tree, journal=journal)
    executor.update_batch([weight(7, pod) for pod in pods])
    kernel.remove(QOS)
    for pod in pods:
        executor.forget(pod)
    assert len(journal._forgotten) <= 500
