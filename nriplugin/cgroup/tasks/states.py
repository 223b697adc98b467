"""How many tasks of a cgroup run, sleep, are stopped or wait.

On cgroup v1 the kernel counts them (taskstats.py). On v2 it refuses to, so this module
walks the cgroup's threads: it reads their IDs from `cgroup.threads`, which has every
thread of threaded and ordinary cgroups alike, and their states from /proc/<id>/stat.

The kernel's count may be too small. Linux 6.1 and later leave out every task that
sleeps in a way that the freezer may interrupt, such as in nanosleep or on a lock: they
compare states exactly, and such a sleep has a flag beside the state. So the count is
compared with the number of tasks, and if it is smaller, v1's tasks are walked as well.

The kernel writes the IDs as the *reader's* PID namespace has them, and 0 for a task
that is not in it. So /proc has to be the reader's own, never a host's mounted beside
it, and a node's tasks are all visible only from its PID namespace (`hostPID`). Tasks
that cannot be seen are counted as `unseen`, never left out in silence.

Where the two versions differ:

- `io_wait`. The kernel's own count has a task here only if it waits for I/O in a way
  that a fatal signal interrupts, such as for a page being read; all other I/O waits
  are in `uninterruptible`. No file shows the flag that it looks at. The walk counts a
  thread in state D by the kernel function it waits in (/proc/<id>/wchan), if that is
  one of the block layer, the page cache or a file system's buffers; where the function
  is hidden (it takes CAP_SYS_PTRACE), the thread counts as `uninterruptible`.
- A task that waits, not for I/O, and only a fatal signal interrupts it, such as the
  parent in vfork, is `uninterruptible` in the walk; the kernel's count leaves it out.
- Threads under a debugger count as stopped and idle kernel threads as sleeping; the
  kernel's count leaves out both. Neither counts what has ended.
"""

from __future__ import annotations

from errno import ENAMETOOLONG, ENODEV, ENOENT, ESRCH
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.cgroup.files import Files

# The errors for a cgroup or a task that has ended since it was listed.
GONE = (ENOENT, ENODEV, ESRCH)

# ... and the one for a cgroup nested so deep that its path cannot be opened.
_PASSED_OVER = (*GONE, ENAMETOOLONG)

_IO_WAIT_FUNCTIONS = (
    "io_schedule",
    "folio_wait",
    "wait_on_page",
    "wait_on_buffer",
    "filemap_",
    "blk_",
    "submit_bio",
    "rq_qos_wait",
    "iomap_dio",
    "do_blockdev_direct_IO",
)


class TaskStates(NamedTuple):
    """Tasks (threads) by what they do; `unseen` are in another PID namespace."""

    running: int = 0
    sleeping: int = 0
    stopped: int = 0
    uninterruptible: int = 0
    io_wait: int = 0
    unseen: int = 0

    @property
    def total(self) -> int:
        """Return the number of all tasks, counted and unseen."""
        return sum(self)

    def __add__(  # type: ignore[override] # adds the counts, as a tuple would not
        self, other: TaskStates
    ) -> TaskStates:
        return TaskStates(
            running=self.running + other.running,
            sleeping=self.sleeping + other.sleeping,
            stopped=self.stopped + other.stopped,
            uninterruptible=self.uninterruptible + other.uninterruptible,
            io_wait=self.io_wait + other.io_wait,
            unseen=self.unseen + other.unseen,
        )


class StatesReader(Protocol):
    """Counts the tasks in a cgroup itself, not those in the cgroups below it."""

    def states(self, cgroup: str) -> TaskStates:
        """Count; raises CgroupError."""
        ...


# State in /proc/<id>/stat -> field of TaskStates. Tasks in Z and X have ended; for D
# the kernel function that the task waits in decides.
_STATES = {
    "R": "running",
    "S": "sleeping",
    "I": "sleeping",
    "P": "sleeping",
    "T": "stopped",
    "t": "stopped",
}


class ThreadWalk:
    """Counts thread by thread; `proc` is this process's own /proc."""

    def __init__(self, files: Files, proc: Files, version: int = 2) -> None:
        self._files = files
        self._proc = proc
        # v1 has the same list in every hierarchy; every node has the one of cpu.
        self._place = ("/cpu", "tasks") if version == 1 else ("", "cgroup.threads")

    def states(self, cgroup: str) -> TaskStates:
        """Count the threads of a cgroup.

        Raises:
            CgroupError: it is gone, or there is no such cgroup.
        """
        counts: dict[str, int] = {}
        missing = set()
        nameless = 0
        for thread in self._threads(cgroup):
            if thread == "0":
                nameless += 1
                continue
            try:
                state = self._state(thread)
            except CgroupError as exc:
                if exc.errno not in GONE:
                    raise
                missing.add(thread)
                continue
            if state is not None:
                counts[state] = counts.get(state, 0) + 1
        if missing:
            # A thread that has ended since is no longer listed. One that is still
            # listed is hidden: /proc does not show it.
            missing.intersection_update(self._threads(cgroup))
        return TaskStates(**counts, unseen=nameless + len(missing))

    def listed(self, cgroup: str) -> int:
        """Return the number of threads, without reading their states.

        Raises:
            CgroupError: it is gone, or there is no such cgroup.
        """
        return len(self._threads(cgroup))

    def _threads(self, cgroup: str) -> list[str]:
        top, file = self._place
        return self._files.read(f"{top}{cgroup.rstrip('/')}/{file}").split()

    def _state(self, thread: str) -> str | None:
        stat = self._proc.read(f"/{thread}/stat")
        # The name in parentheses may hold spaces and parentheses itself.
        letter = stat[stat.rfind(")") + 2 :][:1]
        if letter != "D":
            return _STATES.get(letter)
        try:
            function = self._proc.read(f"/{thread}/wchan")
        except CgroupError:
            function = ""
        waits = any(part in function for part in _IO_WAIT_FUNCTIONS)
        return "io_wait" if waits else "uninterruptible"


class CountOrWalk:
    """Uses the kernel's count if it has all tasks, and else walks the threads."""

    def __init__(self, count: StatesReader, walk: ThreadWalk) -> None:
        self._count = count
        self._walk = walk

    def states(self, cgroup: str) -> TaskStates:
        """Count the tasks of a cgroup.

        Raises:
            CgroupError: it is gone, or there is no such cgroup.
        """
        counted = self._count.states(cgroup)
        if counted.total >= self._walk.listed(cgroup):
            return counted
        return self._walk.states(cgroup)


class CgroupTasks(NamedTuple):
    """A cgroup, and the tasks in it and in the cgroups below it."""

    cgroup: str
    states: TaskStates


def tasks_below(
    children: Callable[[str], list[str]], reader: StatesReader, cgroup: str
) -> list[CgroupTasks]:
    """Return a cgroup and all below it, parents first.

    `children` returns the names of the cgroups directly below one. A cgroup that is
    removed during the walk is left out, as is normal on a node; only the first one has
    to exist. Siblings are in the order in which `children` names them.

    Raises:
        CgroupError: there is no such cgroup, or a file cannot be read.
    """
    names, parents, sums = [cgroup], [-1], [reader.states(cgroup)]
    # A loop with a stack: containers may nest cgroups deeper than Python nests calls.
    waiting = [(0, name) for name in reversed(children(cgroup))]
    while waiting:
        parent, name = waiting.pop()
        path = f"{names[parent].rstrip('/')}/{name}"
        try:
            states, below = reader.states(path), children(path)
        except CgroupError as exc:
            if exc.errno not in _PASSED_OVER:
                raise
            continue
        waiting += [(len(names), name) for name in reversed(below)]
        names.append(path)
        parents.append(parent)
        sums.append(states)
    for place in range(len(names) - 1, 0, -1):
        sums[parents[place]] += sums[place]
    return [CgroupTasks(*one) for one in zip(names, sums, strict=True)]
