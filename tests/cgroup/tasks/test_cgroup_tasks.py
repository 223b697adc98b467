"""Task states of cgroup v2, counted by walking threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from errno import EACCES, ENAMETOOLONG, ENODEV, ENOENT, ESRCH
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.harness import wait_until

from nriplugin.cgroup.files import PROC_MAGIC, LocalFiles
from nriplugin.cgroup.tasks.states import (
    CgroupTasks,
    CountOrWalk,
    TaskStates,
    ThreadWalk,
    tasks_below,
)
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class Texts:
    """Files from a dictionary; an int is the error number that reading gives.

    A list is what one reading after the other gives, the last one for ever.
    """

    def __init__(self, texts: Mapping[str, str | int | list[str]]) -> None:
        self.texts = dict(texts)

    def read(self, path: str) -> str:
        text = self.texts.get(path, ENOENT)
        if isinstance(text, list):
            text = text.pop(0) if len(text) > 1 else text[0]
        if isinstance(text, int):
            raise CgroupError("read", path, None, text)
        return text

    def write(self, path: str, value: str) -> None:
        raise AssertionError("nothing is written")

    def exists(self, path: str) -> bool:
        return path in self.texts

    def children(self, path: str) -> list[str]:
        raise AssertionError("nothing is listed")


def stat(state: str, name: str = "app") -> str:
    return f"1 ({name}) {state} 1 1 1 0 -1 4194560 0 0 0 0\n"


def states(threads: str | list[str], proc: Mapping[str, str | int]) -> TaskStates:
    """Count in a cgroup /a with these threads."""
    return ThreadWalk(Texts({"/a/cgroup.threads": threads}), Texts(proc)).states("/a")


@pytest.mark.parametrize(
    ("letter", "expected"),
    [
        ("R", TaskStates(running=1)),
        ("S", TaskStates(sleeping=1)),
        ("I", TaskStates(sleeping=1)),
        ("T", TaskStates(stopped=1)),
        ("t", TaskStates(stopped=1)),
        ("D", TaskStates(uninterruptible=1)),
        ("Z", TaskStates()),
        ("X", TaskStates()),
    ],
)
def test_each_state_has_its_count(letter: str, expected: TaskStates) -> None:
    """Tasks that have ended are not counted."""
    assert states("7\n", {"/7/stat": stat(letter)}) == expected


@pytest.mark.parametrize(
    "name", ["a b", "a) R 1", ") Z (", "\n) D 1\n", "((", "))", "", "é"]
)
def test_a_task_may_have_any_name(name: str) -> None:
    """The state is read after the last parenthesis, which no name can hide."""
    assert states("7\n", {"/7/stat": stat("S", name)}) == TaskStates(sleeping=1)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("folio_wait_bit_common", TaskStates(io_wait=1)),
        ("wait_on_page_bit", TaskStates(io_wait=1)),
        ("__wait_on_buffer", TaskStates(io_wait=1)),
        ("blk_mq_get_tag", TaskStates(io_wait=1)),
        ("submit_bio_wait", TaskStates(io_wait=1)),
        ("__iomap_dio_rw", TaskStates(io_wait=1)),
        ("rwsem_down_write_slowpath", TaskStates(uninterruptible=1)),
        ("do_coredump", TaskStates(uninterruptible=1)),
        ("0", TaskStates(uninterruptible=1)),
        (EACCES, TaskStates(uninterruptible=1)),
        (ESRCH, TaskStates(uninterruptible=1)),
    ],
)
def test_what_a_thread_waits_in_tells_io_from_the_rest(
    function: str | int, expected: TaskStates
) -> None:
    """A thread whose wait function is hidden counts as uninterruptible."""
    proc: dict[str, str | int] = {"/7/stat": stat("D"), "/7/wchan": function}
    assert states("7\n", proc) == expected


def test_only_what_waits_uninterruptibly_is_asked_what_it_waits_in() -> None:
    """A sleeping thread in an I/O function counts as sleeping."""
    proc = {"/7/stat": stat("S"), "/7/wchan": "folio_wait_bit_common"}
    assert states("7\n", proc) == TaskStates(sleeping=1)


@pytest.mark.parametrize("error", [ENOENT, ESRCH])
def test_a_thread_that_ends_while_we_look_is_not_counted(error: int) -> None:
    """A thread that is not listed any more has ended."""
    proc: dict[str, str | int] = {"/7/stat": stat("R"), "/8/stat": error}
    assert states(["7\n8\n", "7\n"], proc) == TaskStates(running=1)


def test_threads_of_another_pid_namespace_are_unseen() -> None:
    """The kernel lists each of them as 0."""
    assert states("0\n0\n7\n0\n", {"/7/stat": stat("S")}) == TaskStates(
        sleeping=1, unseen=3
    )


def test_threads_that_proc_hides_are_unseen() -> None:
    """With hidepid, threads are listed but have no directory in /proc."""
    assert states("7\n8\n", {"/7/stat": stat("S")}) == TaskStates(sleeping=1, unseen=1)


def test_an_error_that_is_no_end_is_an_error() -> None:
    """Any other error is raised instead of a smaller number."""
    with pytest.raises(CgroupError, match="EACCES"):
        states("7\n", {"/7/stat": EACCES})


def test_a_cgroup_that_is_not_there_is_an_error() -> None:
    """A missing cgroup is an error and not zero tasks."""
    with pytest.raises(CgroupError, match=r"/b/cgroup\.threads: No such file"):
        ThreadWalk(Texts({}), Texts({})).states("/b")


def test_the_root_has_its_threads_too() -> None:
    """The root's path, `/`, is read without a double slash."""
    files = Texts({"/cgroup.threads": "7\n"})
    walk = ThreadWalk(files, Texts({"/7/stat": stat("S")}))
    assert walk.states("/") == TaskStates(sleeping=1)


def test_real_threads_are_counted(tmp_path: Path) -> None:
    """One running, others asleep, and a process that was stopped."""
    release = threading.Event()
    threads = [threading.Thread(target=release.wait) for _ in range(3)]
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    for thread in threads:
        thread.start()
    try:
        child.send_signal(signal.SIGSTOP)
        numbers = [threading.get_native_id(), *(t.native_id for t in threads)]
        (tmp_path / "cgroup.threads").write_text(
            "".join(f"{number}\n" for number in (*numbers, child.pid))
        )
        with (
            LocalFiles(str(tmp_path), magics=None) as files,
            LocalFiles("/proc", (PROC_MAGIC,)) as proc,
        ):
            walk = ThreadWalk(files, proc)
            wait_until(lambda: walk.states("/").stopped == 1)
            wait_until(lambda: walk.states("/").sleeping == 3)
            assert walk.states("/") == TaskStates(running=1, sleeping=3, stopped=1)
            os.kill(child.pid, signal.SIGKILL)
            child.wait()
            (tmp_path / "cgroup.threads").write_text(f"{numbers[0]}\n")
            assert walk.states("/") == TaskStates(running=1)
    finally:
        release.set()
        child.kill()
        child.communicate()
        for thread in threads:
            thread.join()


COUNTS = st.integers(0, 9)
STATES = st.builds(
    TaskStates,
    running=COUNTS,
    sleeping=COUNTS,
    stopped=COUNTS,
    uninterruptible=COUNTS,
    io_wait=COUNTS,
    unseen=COUNTS,
)


@given(STATES, STATES)
def test_sums_lose_nothing(one: TaskStates, other: TaskStates) -> None:
    """A sum has all tasks of both, in each state."""
    both = one + other
    assert both == other + one
    assert both.total == one.total + other.total
    assert both.unseen == one.unseen + other.unseen


class Counts:
    """Answers from a dictionary; an int is an error number."""

    def __init__(self, counts: Mapping[str, TaskStates | int]) -> None:
        self.counts = counts

    def states(self, cgroup: str) -> TaskStates:
        found = self.counts[cgroup]
        if isinstance(found, int):
            raise CgroupError("read", cgroup, None, found)
        return found

    def children(self, cgroup: str) -> list[str]:
        prefix = f"{cgroup.rstrip('/')}/"
        below = [name.removeprefix(prefix) for name in self.counts if name != "/"]
        return sorted(name for name in below if name and "/" not in name)


def test_a_cgroup_counts_all_that_is_below_it() -> None:
    """The list has parents first and siblings in order."""
    counts = Counts(
        {
            "/k": TaskStates(),
            "/k/b": TaskStates(running=1),
            "/k/b/x": TaskStates(sleeping=2),
            "/k/b/x/y": TaskStates(sleeping=3),
            "/k/a": TaskStates(stopped=1, unseen=4),
        }
    )
    assert tasks_below(counts.children, counts, "/k") == [
        CgroupTasks("/k", TaskStates(running=1, sleeping=5, stopped=1, unseen=4)),
        CgroupTasks("/k/a", TaskStates(stopped=1, unseen=4)),
        CgroupTasks("/k/b", TaskStates(running=1, sleeping=5)),
        CgroupTasks("/k/b/x", TaskStates(sleeping=5)),
        CgroupTasks("/k/b/x/y", TaskStates(sleeping=3)),
    ]


@pytest.mark.parametrize("error", [ENOENT, ENODEV, ENAMETOOLONG])
def test_a_cgroup_that_goes_away_is_passed_over(error: int) -> None:
    """Only the first cgroup has to exist."""
    counts = Counts({"/": TaskStates(running=1), "/a": error, "/b": TaskStates()})
    assert [one.cgroup for one in tasks_below(counts.children, counts, "/")] == [
        "/",
        "/b",
    ]
    with pytest.raises(CgroupError):
        tasks_below(counts.children, counts, "/a")


def test_other_errors_below_are_errors() -> None:
    """An incomplete count is not returned."""
    counts = Counts({"/": TaskStates(), "/a": EACCES})
    with pytest.raises(CgroupError, match="EACCES"):
        tasks_below(counts.children, counts, "/")


def test_cgroups_may_nest_deeper_than_python_does() -> None:
    """Thousands of nested cgroups do not exceed Python's recursion limit."""
    depth = 3000

    class Deep:
        def states(self, cgroup: str) -> TaskStates:
            return TaskStates(sleeping=1)

        def children(self, cgroup: str) -> list[str]:
            return ["d"] if cgroup.count("/") < depth else []

    found = tasks_below(Deep().children, Deep(), "/d")
    assert len(found) == depth
    assert found[0].states == TaskStates(sleeping=depth)


class Counted:
    """A count of the kernel's."""

    def __init__(self, counted: TaskStates) -> None:
        self.counted = counted

    def states(self, cgroup: str) -> TaskStates:
        return self.counted


@pytest.mark.parametrize("counted", [TaskStates(running=1), TaskStates(running=2)])
def test_a_count_that_lacks_tasks_is_not_believed(counted: TaskStates) -> None:
    """If the kernel's count is smaller than the list, the tasks are walked."""
    files = Texts({"/cpu/a/tasks": "7\n8\n"})
    proc = Texts({"/7/stat": stat("R"), "/8/stat": stat("S")})
    reader = CountOrWalk(Counted(counted), ThreadWalk(files, proc, version=1))
    walked = TaskStates(running=1, sleeping=1)
    assert reader.states("/a") == (counted if counted.total == 2 else walked)
