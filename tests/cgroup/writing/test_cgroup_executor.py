from __future__ import annotations

import os
import threading
from errno import EINVAL, ENODEV
from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from support.trees import CONTAINER, POD, QOS, make

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Status, Update
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Systemd:
    """A writer that answers what it is told to, and may write another value."""

    def __init__(self, answer: bool | str, instead: str | None = None) -> None:
        self.answer = answer
        self.instead = instead
        self.asked: list[tuple[str, str, str]] = []
        self.keeps: dict[str, str] = {}

    def write(
        self, tree: Tree, resource: Resource, cgroup: str, content: str
    ) -> bool | str:
        self.asked.append((resource.file, cgroup, content))
        if self.answer is True:
            tree.files.write(resource.path(cgroup), self.instead or content)
        return self.answer

    def settled(
        self, tree: Tree, resource: Resource, cgroup: str, content: str
    ) -> tuple[str, str]:
        return self.keeps.get(content, content), "rounded" * (content in self.keeps)


WEIGHT = Update(Type.CPU_WEIGHT, POD, 200, origin="test")


@pytest.mark.parametrize("version", [1, 2])
def test_a_written_value_is_not_written_again(version: int, tmp_path: Path) -> None:
    """The second of two equal updates touches no file, on either version."""
    tree = make(version, tmp_path / "cgroup")
    executor = Executor(tree)
    update = Update(Type.CPU_QUOTA, POD, 50000)
    first = executor.update(update)
    assert first.status is Status.WRITTEN
    assert tree.get(Type.CPU_QUOTA, POD) == 50000
    tree.set(Type.CPU_QUOTA, POD, 70000)
    second = executor.update(update)
    assert (second.status, second.path) == (Status.SKIPPED, first.path)
    assert tree.get(Type.CPU_QUOTA, POD) == 70000


def test_after_the_interval_the_file_is_looked_at_again() -> None:
    """A value that another program changed is written again after `refresh_s`."""
    kernel, clock = Kernel(), Clock()
    executor = Executor(kernel.tree, clock=clock)
    executor.update(WEIGHT)
    kernel.files[f"{POD}/cpu.weight"] = "1"
    clock.now += 59.9
    assert executor.update(WEIGHT).status is Status.SKIPPED
    clock.now += 0.2
    assert executor.update(WEIGHT).status is Status.WRITTEN
    assert kernel.files[f"{POD}/cpu.weight"] == "200"
    clock.now += 60.1
    reads, writes = kernel.reads, len(kernel.writes)
    assert executor.update(WEIGHT).status is Status.SKIPPED
    assert (kernel.reads > reads, len(kernel.writes)) == (True, writes)


def test_what_is_not_cacheable_is_always_written() -> None:
    """It is written although the file holds it, and remembered for the others."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    for _ in range(2):
        assert executor.update(WEIGHT, cacheable=False).status is Status.WRITTEN
    assert len(kernel.writes) == 2
    executor.update(Update(Type.CPU_WEIGHT, POD, 300), cacheable=False)
    assert executor.update(WEIGHT).status is Status.WRITTEN


def test_a_failed_write_is_not_remembered() -> None:
    """Only what was written, or seen in the file, is taken for granted."""
    kernel = Kernel(1)
    executor = Executor(kernel.tree)
    update = Update(Type.MEMORY_LIMIT, POD, 8192)
    executor.update(Update(Type.MEMORY_LIMIT, POD, 16384))
    path = kernel.tree.path(Type.MEMORY_LIMIT, POD)
    kernel.busy = [path, path]
    assert executor.update(update).status is Status.FAILED
    assert executor.update(update).status is Status.WRITTEN


def test_a_file_that_holds_the_value_is_not_written() -> None:
    """The first update of a file reads it, and leaves it if there is nothing to do."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    outcome = executor.update(Update(Type.CPU_WEIGHT, POD, 100))
    assert (outcome.status, outcome.reason) == (
        Status.SKIPPED,
        "the file holds it already",
    )
    assert kernel.writes == []


@pytest.mark.parametrize("version", [1, 2])
def test_a_cgroup_that_is_gone_is_no_error(version: int) -> None:
    """The outcome says so, and nothing is remembered of it."""
    kernel = Kernel(version)
    executor = Executor(kernel.tree)
    update = Update(Type.CPU_QUOTA, CONTAINER, 50000)
    executor.update(update)
    kernel.remove(CONTAINER)
    assert executor.update(update).status is Status.SKIPPED
    outcome = executor.update(Update(Type.CPU_QUOTA, CONTAINER, 60000))
    assert (outcome.status, outcome.ok) == (Status.GONE, False)
    assert outcome.reason.endswith(f"{CONTAINER} is not there")
    kernel.add(CONTAINER)
    assert executor.update(update).status is Status.WRITTEN


def test_a_cgroup_that_goes_away_between_reading_and_writing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ENODEV from the write means the same when the directory is gone."""
    kernel = Kernel()

    def write(path: str, value: str) -> None:
        kernel.remove(POD)
        raise CgroupError("write", path, value, ENODEV)

    monkeypatch.setattr(kernel, "write", write)
    assert Executor(kernel.tree).update(WEIGHT).status is Status.GONE


def test_a_device_that_is_not_there_is_an_error() -> None:
    """ENODEV of a cgroup that is there is about the value."""
    outcome = Executor(Kernel().tree).update(Update(Type.IO_MAX, POD, "9:9 rbps=1"))
    assert (outcome.status, outcome.errno) == (Status.FAILED, ENODEV)


def test_a_file_that_this_kernel_lacks_is_unsupported() -> None:
    """Vendor files are absent on most nodes: the outcome says what they need."""
    executor = Executor(Kernel().tree)
    outcome = executor.update(Update(Type.CPU_QOS_LEVEL, POD, -1))
    assert outcome.status is Status.UNSUPPORTED
    assert "is not there, it needs an openEuler kernel" in outcome.reason
    (outcome,) = Executor(Kernel(1).tree).update_batch(
        [Update(Type.MEMORY_MIN, POD, 4096)]
    )
    assert outcome.status is Status.UNSUPPORTED


def test_a_v1_controller_that_is_not_mounted_is_unsupported() -> None:
    """It is the node that lacks it, not the cgroup that went away."""
    kernel = Kernel(1)
    kernel.directories = {d for d in kernel.directories if "/pids" not in d}
    kernel.files = {p: c for p, c in kernel.files.items() if "/pids" not in p}
    outcome = Executor(kernel.tree).update(Update(Type.PIDS_MAX, POD, 10))
    assert outcome.status is Status.UNSUPPORTED
    assert outcome.reason == "controller pids is not mounted"


def test_an_unknown_type_is_the_callers_mistake() -> None:
    """It is raised, with the type's name, before anything is written."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    with pytest.raises(
        ConfigError, match=r"'cpu\.shares' not found in cgroup registry"
    ):
        executor.update_batch([WEIGHT, Update(Type.CPU_SHARES, POD, 2)])
    assert kernel.writes == []


def test_one_failure_does_not_stop_the_others() -> None:
    """Every update has its own outcome, in the order given, with what a log needs."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    executor.update(Update(Type.CPU_IDLE, QOS, 1))
    outcomes = executor.update_batch(
        [
            Update(Type.CPU_WEIGHT, POD, 0),
            Update(Type.CPU_WEIGHT, QOS, 300),
            Update(Type.CGROUP_PROCS, POD, 1),
            WEIGHT,
            Update(Type.CPU_WEIGHT, f"{QOS}/../..", 200),
            Update(Type.CPU_WEIGHT, CONTAINER, 400),
        ]
    )
    # POD is given twice: its last value counts, at its first place.
    assert [outcome.status for outcome in outcomes] == [
        Status.WRITTEN,
        Status.FAILED,
        Status.FAILED,
        Status.GONE,
        Status.WRITTEN,
    ]
    failed = outcomes[1]
    assert failed.update.cgroup == QOS
    assert (failed.operation, failed.errno, failed.content) == ("write", EINVAL, "300")
    assert failed.path == f"{QOS}/cpu.weight"
    assert failed.reason.startswith(f"write {QOS}/cpu.weight: '300': Invalid argument")
    assert "moves tasks" in outcomes[2].reason


def test_an_invalid_value_is_an_outcome() -> None:
    """Values come from annotations: a bad one is reported, not raised, not written."""
    kernel = Kernel()
    outcome = Executor(kernel.tree).update(Update(Type.CPU_WEIGHT, POD, "many"))
    assert outcome.status is Status.FAILED
    assert outcome.reason.startswith("cpu.weight: 'many', expected a whole number")
    assert kernel.writes == []


def test_the_last_of_duplicates_wins() -> None:
    """One write, one outcome."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    executor.update(WEIGHT)
    outcomes = executor.update_batch(
        [Update(Type.CPU_WEIGHT, POD, weight) for weight in (300, 400, 200)]
    )
    assert [outcome.status for outcome in outcomes] == [Status.SKIPPED]
    assert len(kernel.writes) == 1


def test_types_that_share_a_file_are_written_together() -> None:
    """Quota and period become one write, and each keeps the other."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    quota = Update(Type.CPU_QUOTA, POD, 20000)
    period = Update(Type.CPU_PERIOD, POD, 50000)
    outcomes = executor.update_batch([quota, period])
    assert [outcome.content for outcome in outcomes] == ["20000 50000"] * 2
    assert kernel.writes == [(f"{POD}/cpu.max", "20000 50000")]
    assert executor.update(Update(Type.CPU_QUOTA, POD, 30000)).content == "30000 50000"
    # The period has not changed, so it is still known; the old quota is not.
    reads = kernel.reads
    assert executor.update(period).status is Status.SKIPPED
    assert kernel.reads == reads
    assert executor.update(quota).status is Status.WRITTEN


def test_limits_of_several_devices_are_all_written() -> None:
    """Each device has a line of its own, and so have the keys of one device."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    updates = [
        Update(Type.IO_READ_BPS, POD, "8:0 1000"),
        Update(Type.IO_READ_BPS, POD, "8:16 2000"),
        Update(Type.IO_WRITE_IOPS, POD, "8:0 30"),
    ]
    assert all(outcome.ok for outcome in executor.update_batch(updates))
    assert kernel.files[f"{POD}/io.max"] == (
        "8:0 rbps=1000 wbps=max riops=max wiops=30\n"
        "8:16 rbps=2000 wbps=max riops=max wiops=max"
    )
    reads = kernel.reads
    outcomes = executor.update_batch(updates)
    assert {outcome.status for outcome in outcomes} == {Status.SKIPPED}
    assert kernel.reads == reads


def test_what_the_kernel_made_of_it_is_reported() -> None:
    """Rounding is no difference; another value is, and it is no error."""
    kernel = Kernel()
    executor = Executor(kernel.tree, writer=Systemd(False))
    outcome = executor.update(Update(Type.MEMORY_HIGH, POD, 5000))
    assert (outcome.status, outcome.actual) == (Status.WRITTEN, None)
    kernel.write = lambda path, value: None  # type: ignore[method-assign]  # ignores it
    outcome = executor.update(Update(Type.MEMORY_HIGH, POD, 9000))
    assert (outcome.status, outcome.actual) == (Status.WRITTEN, "4096")


def test_a_writer_is_asked_first() -> None:
    """What systemd takes is not written by us."""
    kernel = Kernel()
    writer = Systemd(True)
    trace: list[tuple[str, str]] = []
    executor = Executor(
        kernel.tree, writer=writer, trace=lambda *written: trace.append(written)
    )
    outcome = executor.update(WEIGHT)
    assert outcome.by_writer
    assert writer.asked == [("cpu.weight", POD, "200")]
    assert len(kernel.writes) == 1
    assert trace == [(f"{POD}/cpu.weight", "200")]


def test_a_writer_that_rounds_is_corrected() -> None:
    """If the file does not hold the value after the writer, it is written as well."""
    kernel = Kernel()
    executor = Executor(kernel.tree, writer=Systemd(True, "13000 100000"))
    outcome = executor.update(Update(Type.CPU_QUOTA, POD, 12345))
    assert (outcome.by_writer, outcome.actual) == (True, None)
    assert kernel.files[f"{POD}/cpu.max"] == "12345 100000"


@pytest.mark.parametrize("answer", [False, "systemd: no such unit"])
def test_the_direct_write_is_the_fallback(answer: bool | str) -> None:
    """What the writer does not take goes to the file, and its reason to the outcome."""
    kernel = Kernel()
    outcome = Executor(kernel.tree, writer=Systemd(answer)).update(WEIGHT)
    assert (outcome.status, outcome.by_writer) == (Status.WRITTEN, False)
    assert outcome.reason == (answer or "")
    assert kernel.files[f"{POD}/cpu.weight"] == "200"


def test_what_is_forgotten_takes_no_memory() -> None:
    """Pods that come and go leave nothing behind, nor do their containers."""
    kernel = Kernel()
    executor = Executor(kernel.tree)
    executor.update(Update(Type.CPU_WEIGHT, f"{QOS}x", 5))
    cache = executor._cache
    for number in range(50):
        pod = f"{QOS}/pod{number}"
        kernel.add(pod)
        kernel.add(f"{pod}/c")
        executor.update_batch(
            [Update(Type.CPU_WEIGHT, cgroup, 7) for cgroup in (pod, f"{pod}/c")]
        )
        kernel.remove(pod)
        executor.forget(pod)
    assert len(cache) == 0
    executor.update(WEIGHT)
    executor.forget(QOS[:-1])  # no cgroup has this name
    assert len(cache._values) == 1


def test_a_batch_is_not_interleaved_with_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thread that comes while a batch is being written waits for all of it."""
    kernel = Kernel()
    executor = Executor(kernel.tree)

    def batch(value: int) -> list[Update]:
        return [Update(Type.CPU_WEIGHT, cgroup, value) for cgroup in (QOS, POD)]

    other = threading.Thread(target=executor.update_batch, args=(batch(300),))
    write = kernel.write

    def interrupted(path: str, value: str) -> None:
        write(path, value)
        if other.ident is None:
            other.start()
            other.join(0.2)  # it must not get there, however long it has

    monkeypatch.setattr(kernel, "write", interrupted)
    executor.update_batch(batch(200))
    other.join()
    assert [value for _, value in kernel.writes] == ["200", "200", "300", "300"]


def test_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Each file ends with the value that was written last, and the cache has it."""
    tree = make(2, tmp_path / "cgroup")
    executor = Executor(tree)
    failures: list[object] = []

    def work(number: int) -> None:
        for turn in range(40):
            weight = number * 100 + turn + 1
            outcomes = executor.update_batch(
                [Update(Type.CPU_WEIGHT, cgroup, weight) for cgroup in (QOS, POD)]
            )
            outcomes += executor.leveled_update_batch(
                [
                    [Update(Type.CPUSET_CPUS, cgroup, f"{number}-{number + 1}")]
                    for cgroup in (QOS, POD, CONTAINER)
                ]
            )
            failures.extend(outcome for outcome in outcomes if not outcome.ok)
            executor.forget(CONTAINER)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    weights = {tree.get(Type.CPU_WEIGHT, cgroup) for cgroup in (QOS, POD)}
    assert len(weights) == 1  # a batch is not interleaved with another
    assert len({tree.get(Type.CPUSET_CPUS, c) for c in (QOS, POD, CONTAINER)}) == 1
    value = weights.pop()
    outcome = executor.update(Update(Type.CPU_WEIGHT, POD, value))
    assert outcome.status is Status.SKIPPED


def test_nothing_outside_the_root_is_reached(tmp_path: Path) -> None:
    """Whatever a cgroup is called, a file above the root is not written."""
    tree = make(2, tmp_path / "cgroup")
    outside = tmp_path / "cpu.weight"
    outside.write_text("untouched")
    os.symlink(tmp_path, tmp_path / "cgroup" / "link")
    executor = Executor(tree)
    for cgroup in ("/..", "/kubepods/../..", "/link", "..", ""):
        assert not executor.update(Update(Type.CPU_WEIGHT, cgroup, 7)).ok
    assert outside.read_text() == "untouched"


def test_what_the_writer_cannot_keep_is_not_asked_for() -> None:
    """A quota is given as systemd keeps it, once; the outcome says so."""
    kernel, clock = Kernel(), Clock()
    writer = Systemd(answer=True)
    writer.keeps = {"12345 100000": "13000 100000"}
    executor = Executor(kernel.tree, writer=writer, clock=clock)
    update = Update(Type.CPU_QUOTA, POD, 12345)
    outcome = executor.update(update)
    assert kernel.files[f"{POD}/cpu.max"] == "13000 100000"
    assert [content for _, _, content in writer.asked] == ["13000 100000"]
    assert (outcome.content, outcome.reason) == ("13000 100000", "rounded")
    clock.now += 1000
    assert executor.update(update).status is Status.SKIPPED


@pytest.mark.parametrize(
    ("limit", "told"), [(1 << 19, True), (1 << 20, False), ("max", False)]
)
def test_a_limit_below_the_use_is_written_and_told(
    limit: int | str, told: bool
) -> None:
    """The reason says how much is in use, because the kernel may kill for it."""
    kernel = Kernel()
    kernel.files[f"{POD}/memory.max"] = "4096"
    outcome = Executor(kernel.tree).update(Update(Type.MEMORY_LIMIT, POD, limit))
    assert outcome.status is Status.WRITTEN
    reason = "1048576 bytes are in use: the kernel reclaims, and kills if it has to"
    assert outcome.reason == (reason if told else "")
