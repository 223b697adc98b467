"""`WriteQueue`: what is submitted is written by another thread, merged by file."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from hypothesis import given
from hypothesis import strategies as st
from support.harness import PATIENCE_S, wait_until
from support.trees import CONTAINER, POD, QOS

from nriplugin.cgroup.types.registry import Support, Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.queue import WriteQueue
from nriplugin.cgroup.writing.updates import Outcome, Status, Update
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.cgroup.files import Files

BRANCH = (QOS, POD, CONTAINER)
TYPES = (Type.CPU_QUOTA, Type.CPU_WEIGHT, Type.PIDS_MAX)


def queue_on(kernel: Kernel, **settings: int) -> WriteQueue:
    return WriteQueue(Executor(kernel.tree), **settings)


def weight(value: int, cgroup: str = CONTAINER) -> Update:
    return Update(Type.CPU_WEIGHT, cgroup, value)


def work(queue: WriteQueue) -> None:
    """Write everything that waits."""
    while queue.write_next():
        pass


def test_nothing_is_written_by_the_one_who_submits() -> None:
    """`submit` reads no file and writes none, however slow files are."""
    kernel = Kernel()
    queue = queue_on(kernel)
    assert queue.submit([weight(7)])
    assert (kernel.reads, kernel.writes, len(queue)) == (0, [], 1)
    work(queue)
    assert kernel.writes == [(f"{CONTAINER}/cpu.weight", "7")]
    assert len(queue) == 0


def test_the_last_value_of_a_file_wins_in_the_place_of_the_first() -> None:
    """The golden trace: four submissions, three writes, in the first order."""
    kernel = Kernel()
    queue = queue_on(kernel)
    outcomes: list[Outcome] = []
    queue.submit([weight(1), weight(2, POD)], done=outcomes.append)
    queue.submit([Update(Type.PIDS_MAX, POD, 5)], done=outcomes.append)
    queue.submit([weight(3)], done=outcomes.append)
    queue.submit([weight(4)], done=outcomes.append)
    work(queue)
    assert kernel.writes == [
        (f"{CONTAINER}/cpu.weight", "4"),
        (f"{POD}/cpu.weight", "2"),
        (f"{POD}/pids.max", "5"),
    ]
    told = [(one.update.value, one.status) for one in outcomes]
    assert told == [
        (1, Status.SUPERSEDED),
        (3, Status.SUPERSEDED),
        (4, Status.WRITTEN),
        (2, Status.WRITTEN),
        (5, Status.WRITTEN),
    ]


def test_levels_stay_levels() -> None:
    """The proposal's trace for a cpuset from 1-4 to 4-5, with a late new value."""
    kernel = Kernel()
    for cgroup, cpus in zip(BRANCH, ("1-4", "1-4", "1-4"), strict=True):
        kernel.files[f"{cgroup}/cpuset.cpus"] = cpus
    queue = queue_on(kernel)
    levels = [[Update(Type.CPUSET_CPUS, one, "4-5")] for one in BRANCH]
    assert queue.submit_leveled(
        [*levels[:2], [Update(Type.CPUSET_CPUS, CONTAINER, "1")]]
    )
    assert queue.submit_leveled([[], [], levels[2]])
    assert queue.write_next()
    assert not queue.write_next()  # the second has found its place in the first
    file = "cpuset.cpus"
    assert kernel.writes == [
        (f"{QOS}/{file}", "1-5"),
        (f"{POD}/{file}", "1-5"),
        (f"{CONTAINER}/{file}", "4-5"),
        (f"{POD}/{file}", "4-5"),
        (f"{QOS}/{file}", "4-5"),
    ]


def test_it_is_bounded() -> None:
    """What does not fit is refused as a whole; a new value of a file always fits."""
    kernel = Kernel()
    queue = queue_on(kernel, limit=2)
    assert queue.submit([weight(1)])
    assert not queue.submit([weight(2, POD), weight(3, QOS)])
    assert queue.submit([weight(4), weight(2, POD)])
    assert queue.submit([weight(5)])
    assert (len(queue), queue.counts[Status.REFUSED]) == (2, 1)
    work(queue)
    assert dict(kernel.writes) == {
        f"{CONTAINER}/cpu.weight": "5",
        f"{POD}/cpu.weight": "2",
    }
    assert queue.submit([weight(3, QOS), weight(6)])


def test_what_is_not_allowed_any_more_is_dropped() -> None:
    """It is asked just before the write, under the executor's lock."""
    kernel = Kernel()
    queue = queue_on(kernel)
    outcomes: list[Outcome] = []
    answers = iter([False])
    queue.submit([weight(7)], allowed=lambda: next(answers), done=outcomes.append)
    queue.submit([weight(8, POD)], allowed=lambda: 1 / 0 > 0, done=outcomes.append)
    queue.submit([weight(9, QOS)])
    work(queue)
    assert [one.status for one in outcomes] == [Status.DROPPED] * 2
    assert kernel.writes == [(f"{QOS}/cpu.weight", "9")]


def test_errors_are_counted_and_stop_nothing() -> None:
    """The kernel's errors, and those of a function that takes outcomes."""
    kernel = Kernel()
    kernel.files[f"{CONTAINER}/cpu.idle"] = "1"  # then the kernel takes no weight
    queue = queue_on(kernel)
    queue.submit([weight(1)], done=lambda outcome: None if outcome.ok else 1 / 0)  # type: ignore[arg-type]
    queue.submit([weight(2, f"{POD}/gone")])
    queue.submit([weight(3, POD)])
    work(queue)
    expected = {Status.FAILED: 1, Status.GONE: 1, Status.WRITTEN: 1}
    assert queue.counts == Counter(expected)


def test_a_type_that_is_not_registered_is_the_callers_mistake() -> None:
    """It is raised where it is submitted, and nothing is accepted."""
    queue = queue_on(Kernel())
    with pytest.raises(ConfigError, match="not found in cgroup registry"):
        queue.submit([weight(1), Update("cpu.nothing", POD, 1)])
    assert len(queue) == 0


@pytest.mark.parametrize("drain", [True, False])
def test_the_end_drains_or_drops(drain: bool) -> None:
    """As the caller of `run` chooses; every update has its outcome."""
    kernel = Kernel()
    queue = queue_on(kernel)
    outcomes: list[Outcome] = []
    for value in (1, 2, 3):
        queue.submit([weight(value, BRANCH[value - 1])], done=outcomes.append)
    stop = threading.Event()
    stop.set()
    queue.run(stop, drain=drain)
    expected = Status.WRITTEN if drain else Status.DROPPED
    assert [one.status for one in outcomes] == [expected] * 3
    assert (len(kernel.writes), len(queue)) == (3 if drain else 0, 0)
    assert queue.submit([weight(9)])  # for another `run`


class Slow(Kernel):
    """A kernel whose write of a weight does not end before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.leave = threading.Event(), threading.Event()

    def write(self, path: str, value: str) -> None:
        if path.endswith("cpu.weight"):
            self.entered.set()
            assert self.leave.wait(PATIENCE_S)
        super().write(path, value)


def test_a_slow_file_keeps_nobody_waiting() -> None:
    """Values are merged while a write blocks, and the batch under way is finished."""
    kernel = Slow()
    queue, stop = queue_on(kernel), threading.Event()
    thread = threading.Thread(target=queue.run, args=(stop,))
    thread.start()
    try:
        queue.submit([weight(1)])
        assert kernel.entered.wait(PATIENCE_S)
        for value in range(2, 100):
            assert queue.submit([weight(value), Update(Type.PIDS_MAX, POD, value)])
        assert len(queue) == 2
        kernel.leave.set()
        wait_until(lambda: len(queue) == 0 and len(kernel.writes) == 3)
    finally:
        kernel.leave.set()
        stop.set()
        queue.wake()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert kernel.writes == [
        (f"{CONTAINER}/cpu.weight", "1"),
        (f"{CONTAINER}/cpu.weight", "99"),
        (f"{POD}/pids.max", "99"),
    ]
    assert queue.counts[Status.SUPERSEDED] == 97 * 2


def test_a_cached_value_costs_nothing_until_another_program_is_noticed() -> None:
    """`note_change` is for readers of files; after `refresh_s` the file is read."""
    kernel, now = Kernel(), [0.0]
    executor = Executor(kernel.tree, refresh_s=60, clock=lambda: now[0])
    queue = WriteQueue(executor)
    path = f"{CONTAINER}/cpu.weight"

    def again() -> int:
        """Submit the same once more; return how many reads that took."""
        reads = kernel.reads
        queue.submit([weight(7)])
        work(queue)
        return kernel.reads - reads

    assert again() > 0
    kernel.files[path] = "55"
    assert (again(), kernel.files[path]) == (0, "55")
    executor.note_change(path)
    assert (again() > 0, kernel.files[path]) == (True, "7")
    kernel.files[path] = "55"
    queue.submit([weight(7)], fresh=True)
    work(queue)
    assert kernel.files[path] == "7"
    kernel.files[path] = "55"
    executor.update_batch([weight(7)], fresh=True)
    assert kernel.files[path] == "7"
    kernel.files[path] = "55"
    executor.leveled_update_batch([[], [weight(7)]], fresh=True)
    assert kernel.files[path] == "7"
    kernel.files[path] = "55"
    now[0] = 61.0
    assert (again() > 0, kernel.files[path]) == (True, "7")
    executor.refresh_s = 0.0
    assert again() > 0


def test_a_type_may_be_written_in_a_way_of_its_own() -> None:
    """The registered function takes the place of the write; the rest stays."""
    kernel = Kernel()
    calls: list[tuple[str, str]] = []

    def update(files: Files, path: str, content: str) -> None:
        calls.append((path, content))
        if content == "13":
            raise CgroupError("write", path, content, 22)
        files.write(path, content)

    tree = kernel.tree
    tree.registry.register(Type.CPU_WEIGHT, update=update)
    executor = Executor(tree)
    assert executor.update(weight(7)).status is Status.WRITTEN
    assert executor.update(weight(7)).status is Status.SKIPPED
    assert executor.update(weight(13)).status is Status.FAILED
    path = f"{CONTAINER}/cpu.weight"
    assert calls == [(path, "7"), (path, "13")]
    with pytest.raises(ConfigError, match="not found"):
        tree.registry.register("cpu.nothing", update=update)


def test_support_may_be_found_out_in_a_way_of_its_own() -> None:
    """It is asked once, and files of such a type are neither read nor written."""
    kernel = Kernel()
    tree = kernel.tree
    asked: list[object] = []

    def check(files: Files) -> Support:
        asked.append(files)
        return Support(False, "the switch of the kernel is off")

    tree.registry.register(Type.CPU_WEIGHT, check_supported=check)
    outcome, other = Executor(tree).update_batch(
        [weight(7), Update(Type.PIDS_MAX, CONTAINER, 7)]
    )
    assert (outcome.status, outcome.reason) == (
        Status.UNSUPPORTED,
        "the switch of the kernel is off",
    )
    assert other.status is Status.WRITTEN
    assert not tree.supported(Type.CPU_WEIGHT, POD)
    assert (len(asked), len(kernel.writes)) == (1, 1)


steps = st.lists(
    st.one_of(
        st.none(),  # the thread that writes takes a batch
        st.lists(
            st.tuples(
                st.sampled_from(TYPES),
                st.sampled_from(BRANCH),
                st.integers(1000, 1009),
            ),
            max_size=4,
        ),
    ),
    max_size=30,
)


@given(steps=steps, limit=st.integers(1, 9), leveled=st.booleans())
def test_any_interleaving_ends_with_the_last_values(
    steps: list[list[tuple[Type, str, int]] | None], limit: int, leveled: bool
) -> None:
    """Each accepted update has one outcome, and no file misses its last value."""
    kernel = Kernel()
    queue = queue_on(kernel, limit=limit)
    last: dict[str, str] = {}
    accepted = refused = 0
    outcomes: list[Outcome] = []
    for step in steps:
        if step is None:
            queue.write_next()
            continue
        levels = [
            [Update(kind, at, value) for kind, at, value in step if at == cgroup]
            for cgroup in BRANCH
        ]
        if leveled:
            taken = queue.submit_leveled(levels, done=outcomes.append)
        else:
            flat = [update for level in levels for update in level]
            taken = queue.submit(flat, done=outcomes.append)
        assert len(queue) <= limit
        refused += not taken
        if taken:
            updates = [update for level in levels for update in level]
            accepted += len(updates)
            last.update((update.key, str(update.value)) for update in updates)
    work(queue)
    assert dict(_held(kernel, last)) == last
    assert len(outcomes) == accepted
    assert queue.counts[Status.REFUSED] == refused
    written = Counter(o.status for o in outcomes)
    assert set(written) <= {Status.WRITTEN, Status.SKIPPED, Status.SUPERSEDED}


def _held(kernel: Kernel, keys: dict[str, str]) -> Iterator[tuple[str, str]]:
    for key in keys:
        kind, _, cgroup = key.partition(":")
        yield key, str(kernel.tree.get(kind, cgroup))
