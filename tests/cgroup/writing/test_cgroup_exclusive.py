"""`exclusive`: no other thread or process writes between a read and an update."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from support.trees import POD, make_v2

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Status, Update

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nriplugin.cgroup.types.tree import Tree

ROUNDS = 20

# What each of the processes does: it opens tree and journal by itself, says that it is
# ready, waits until all are, and adds to a weight as often as it is told.
PROCESS = """
import sys, time
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.files import LocalFiles
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.types.tree import Tree
from nriplugin.cgroup.writing.updates import Update

root, state, cgroup, rounds = sys.argv[1:]
with LocalFiles(root, None) as files, Journal(state) as journal:
    tree = Tree(files, 2)
    executor = Executor(tree, journal=journal, refresh_s=0)
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(rounds)):
        with executor.exclusive():
            weight = tree.get(Type.CPU_WEIGHT, cgroup)
            time.sleep(0.001)
            executor.update(Update(Type.CPU_WEIGHT, cgroup, weight + 1))
"""


def add_one(
    tree: Tree, executor: Executor, between: Callable[[], None] = lambda: None
) -> Status:
    """Write a value that depends on what is there, and do something in between."""
    with executor.exclusive():
        weight = tree.get(Type.CPU_WEIGHT, POD)
        between()
        return executor.update(Update(Type.CPU_WEIGHT, POD, weight + 1)).status


@pytest.mark.parametrize("journalled", [True, False])
def test_another_thread_waits_until_what_was_read_is_written(
    journalled: bool, tmp_path: Path
) -> None:
    """Two threads with one executor both count, however they meet."""
    kernel = Kernel()
    journal = Journal(str(tmp_path)) if journalled else None
    executor = Executor(kernel.tree, journal=journal)
    other = threading.Thread(target=add_one, args=(kernel.tree, executor))

    def meet() -> None:
        other.start()
        other.join(0.2)  # it must not get there, however long it has

    add_one(kernel.tree, executor, meet)
    other.join()
    assert kernel.tree.get(Type.CPU_WEIGHT, POD) == 102
    if journal is not None:
        journal.close()


def test_threads_with_executors_of_their_own_share_a_journal(tmp_path: Path) -> None:
    """The kernel's lock is one per journal, so threads need one between them."""
    kernel = Kernel()
    with Journal(str(tmp_path)) as journal:
        first = Executor(kernel.tree, journal=journal)
        second = Executor(kernel.tree, journal=journal)
        other = threading.Thread(target=add_one, args=(kernel.tree, second))

        def meet() -> None:
            other.start()
            other.join(0.2)  # it must not get there, however long it has

        add_one(kernel.tree, first, meet)
        other.join()
    assert kernel.tree.get(Type.CPU_WEIGHT, POD) == 102


def test_processes_take_turns_from_the_read_to_the_write(tmp_path: Path) -> None:
    """No addition of any process is lost."""
    tree = make_v2(tmp_path / "cgroup")
    before = tree.get(Type.CPU_WEIGHT, POD)
    places = [str(tmp_path / "cgroup"), str(tmp_path / "state"), POD, str(ROUNDS)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert tree.get(Type.CPU_WEIGHT, POD) == before + 2 * ROUNDS


def test_the_outermost_block_holds_the_lock(tmp_path: Path) -> None:
    """Leaving an inner block, as every update does, does not let others in."""
    with Journal(str(tmp_path)) as journal, open(tmp_path / "journal.lock") as lock:
        executor = Executor(Kernel().tree, journal=journal)

        def free() -> bool:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            fcntl.flock(lock, fcntl.LOCK_UN)
            return True

        with executor.exclusive(), executor.exclusive():
            executor.update(Update(Type.CPU_WEIGHT, POD, 200))
            assert not free()
        assert free()


def test_a_journal_that_cannot_be_locked_refuses_the_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller reads as always; the outcome of its update says what is wrong."""
    kernel = Kernel()
    with Journal(str(tmp_path)) as journal:
        executor = Executor(kernel.tree, journal=journal)

        def no_locks(_: int, operation: int) -> None:
            raise OSError(37, "No locks available")

        monkeypatch.setattr(fcntl, "flock", no_locks)
        assert add_one(kernel.tree, executor) is Status.REFUSED
        monkeypatch.undo()
    assert kernel.writes == []
