"""Direct writes: where a decision's writes go, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from node.writing import BURST, kernel_with, part, write, writer_on
from support.trees import CGROUPS, CONTAINER, CONTAINER_ID, POD

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.queue import WriteQueue
from nriplugin.cgroup.writing.updates import Outcome, Status
from nriplugin.convert.validate import check
from nriplugin.engine.allowed_files import ALLOWABLE, check_raw
from nriplugin.engine.decision import Level, When
from nriplugin.errors import ConfigError
from nriplugin.node.direct_writes import DirectWriter, add_raw
from nriplugin.node.file_updates import updates_of

if TYPE_CHECKING:
    from pathlib import Path

LEVEL_FILES = ("cpu.qos_level", "memory.qos_level")

# Valid values that differ from those of a new cgroup.
VALUES = {
    "cpu.weight": "59",
    "cpu.idle": "1",
    "cpu.max": "50000 20000",
    "cpu.max.burst": "1000",
    "cpu.uclamp.min": "12.50",
    "cpu.uclamp.max": "55",
    "io.weight": "default 50",
    "io.bfq.weight": "50",
    "memory.min": "8192",
    "memory.low": "8192",
    "memory.high": "8192",
    "memory.max": "8192",
    "memory.swap.max": "0",
    "memory.swap.high": "8192",
    "memory.zswap.max": "8192",
    "memory.zswap.writeback": "1",
    "memory.oom.group": "1",
    "pids.max": "7",
    "cpu.qos_level": "-1",
    "memory.qos_level": "-1",
}


def test_a_pod_is_written_before_its_container() -> None:
    """The writes keep the decision's order: the pod has to allow the value first."""
    kernel = kernel_with(files=[(f"{POD}/cpu.max", "100000 100000")])
    kernel.files[f"{CONTAINER}/cpu.max"] = "100000 100000"
    outcomes = writer_on(kernel).carry_out(
        [part(BURST, 40000), write(BURST, "40000")], When.BEFORE, POD, CONTAINER
    )
    assert kernel.writes == [
        (f"{POD}/{BURST}", "40000"),
        (f"{CONTAINER}/{BURST}", "40000"),
    ]
    assert [outcome.status for outcome in outcomes] == [Status.WRITTEN] * 2


def test_a_value_that_is_no_part_is_written_unchanged() -> None:
    """A level is not a sum over the containers."""
    kernel = kernel_with(
        files=[(f"{at}/cpu.qos_level", "0") for at in (POD, CONTAINER)]
    )
    writer_on(kernel).carry_out(
        [write("cpu.qos_level", "-1", Level.POD)], When.BEFORE, POD
    )
    assert kernel.writes == [(f"{POD}/cpu.qos_level", "-1")]


def test_before_there_is_a_container_nothing_is_written_to_it() -> None:
    """The pod's writes of the same decision are done."""
    kernel = kernel_with(files=[(f"{POD}/cpu.max", "100000 100000")])
    writer_on(kernel).carry_out(
        [part(BURST, 5000), write(BURST, "5000")], When.BEFORE, POD
    )
    assert kernel.writes == [(f"{POD}/{BURST}", "5000")]


def test_without_writes_the_executor_is_not_called() -> None:
    """Most decisions have no direct writes."""
    kernel = kernel_with()
    assert writer_on(kernel).carry_out([], When.BEFORE, POD, CONTAINER) == []
    assert writer_on(kernel).put({}, CONTAINER) == []
    assert kernel.reads == 0


@pytest.mark.parametrize(
    "pod",
    [
        "",
        "/",
        "/kubepods",
        "/kubepods/burstable",
        CONTAINER,
        "/system.slice",
        "/system.slice/podx",
        f"{POD}/..",
        "/kubepods/podx/../../system.slice",
        "/kubepods.slice/kubepods-podx.slice/../../system.slice",
    ],
)
def test_a_cgroup_that_is_no_pods_is_not_written(pod: str) -> None:
    """Neither a sum nor a single value."""
    kernel = kernel_with("/system.slice", "/kubepods", "/kubepods/podx", CONTAINER)
    writes = [
        write("cpu.weight", "5", Level.POD),
        part("memory.low", 8192),
        part("memory.low", 8192, Level.ANCESTORS),
        write("cpu.weight", "5"),
    ]
    writer_on(kernel).carry_out(writes, When.BEFORE, pod)
    writer_on(kernel).carry_out(writes, When.BEFORE, pod, f"{pod}/c")
    assert kernel.writes == []


@pytest.mark.parametrize(
    "container",
    [
        "/system.slice/x.scope",
        f"/kubepods/podother/{CONTAINER_ID}",
        "/kubepods",
        POD,
        f"{POD}/",
        f"{POD}/crio-conmon-{CONTAINER_ID}",
        f"{POD}/..",
        f"{POD}/../../../system.slice",
    ],
)
def test_a_cgroup_that_is_no_container_of_the_pod_is_not_written(
    container: str,
) -> None:
    """The pod is not written either, because the paths do not fit together."""
    kernel = kernel_with(
        "/system.slice",
        "/kubepods",
        POD,
        f"/kubepods/podother/{CONTAINER_ID}",
        f"{POD}/crio-conmon-{CONTAINER_ID}",
    )
    writer = writer_on(kernel)
    writer.carry_out([write("cpu.weight", "5")], When.BEFORE, POD, container)
    assert kernel.writes == []
    if not container.startswith("/kubepods/podother"):
        writer.put({"cpu.weight": "5"}, container)
        assert kernel.writes == []


@pytest.mark.parametrize("file", sorted(ALLOWABLE | set(LEVEL_FILES)))
def test_every_file_that_is_decided_can_be_written(file: str) -> None:
    """With a value that the engine's own checks accept."""
    value = VALUES[file]
    check(file, value)
    if file in ALLOWABLE:
        check_raw(file, value)
    kernel = kernel_with()
    kernel.files.setdefault(f"{CONTAINER}/{file}", "0")
    writer = writer_on(kernel)
    outcomes = writer.put({file: value}, CONTAINER)
    assert {outcome.path for outcome in outcomes} == {f"{CONTAINER}/{file}"}
    assert {outcome.status for outcome in outcomes} == {Status.WRITTEN}
    assert kernel.files[f"{CONTAINER}/{file}"] == value.removeprefix("default ")
    assert {outcome.update.origin for outcome in outcomes} == {"nriplugin"}


def test_cpu_max_is_two_types_and_one_write() -> None:
    """Two writes would have a moment with neither the old nor the new value."""
    types = [u.type for u in updates_of("cpu.max", "50000 20000", CONTAINER)]
    assert types == [Type.CPU_QUOTA, Type.CPU_PERIOD]
    kernel = kernel_with()
    writer_on(kernel).put({"cpu.max": "50000 20000"}, CONTAINER)
    assert kernel.writes == [(f"{CONTAINER}/cpu.max", "50000 20000")]


def test_a_quota_alone_keeps_the_period() -> None:
    """As the kernel does."""
    kernel = kernel_with(files=[(f"{CONTAINER}/cpu.max", "max 20000")])
    writer_on(kernel).put({"cpu.max": "50000"}, CONTAINER)
    assert kernel.files[f"{CONTAINER}/cpu.max"] == "50000 20000"


@pytest.mark.parametrize("old", ["max 100000", "20000 100000", "90000 100000"])
def test_quota_and_burst_together_in_whatever_order(old: str) -> None:
    """The value that the kernel accepts now is written first."""
    kernel = kernel_with(files=[(f"{CONTAINER}/cpu.max", old)])
    kernel.files[f"{CONTAINER}/{BURST}"] = "15000"
    files = {BURST: "40000", "cpu.max": "50000 100000"}
    outcomes = writer_on(kernel).put(files, CONTAINER)
    assert all(outcome.ok for outcome in outcomes)
    assert kernel.files[f"{CONTAINER}/{BURST}"] == "40000"


def test_an_idle_container_is_woken_before_it_gets_a_weight() -> None:
    """The kernel refuses a weight beside cpu.idle=1."""
    kernel = kernel_with(files=[(f"{CONTAINER}/cpu.idle", "1")])
    outcomes = writer_on(kernel).put({"cpu.weight": "59", "cpu.idle": "0"}, CONTAINER)
    assert all(outcome.ok for outcome in outcomes)
    assert kernel.files[f"{CONTAINER}/cpu.weight"] == "59"


def test_a_value_that_the_file_holds_is_not_written() -> None:
    """Also if the kernel shows it in another notation."""
    shown = {
        "cpu.weight": ("59", "59"),
        "cpu.uclamp.min": ("12.5", "12.50"),
        "cpu.uclamp.max": ("100", "max"),
        "memory.high": ("5000", "4096"),
    }
    kernel = kernel_with(
        files=[(f"{CONTAINER}/{file}", there) for file, (_, there) in shown.items()]
    )
    files = {file: wanted for file, (wanted, _) in shown.items()}
    outcomes = writer_on(kernel).put(files, CONTAINER)
    assert [outcome.status for outcome in outcomes] == [Status.SKIPPED] * len(files)
    assert kernel.writes == []
    kernel.files[f"{CONTAINER}/cpu.uclamp.min"] = "12.51"
    writer_on(kernel).put(files, CONTAINER)
    assert kernel.writes == [(f"{CONTAINER}/cpu.uclamp.min", "12.5")]


def test_a_cgroup_that_is_gone_is_no_error() -> None:
    """Containers may end while a decision is made."""
    kernel = kernel_with()
    writer = writer_on(kernel)
    kernel.remove(POD)
    writes = [
        part(BURST, 5000),
        part("memory.low", 8192, Level.ANCESTORS),
        write("cpu.weight", "5", Level.POD),
        write("cpu.weight", "5"),
    ]
    outcomes = writer.carry_out(writes, When.BEFORE, POD, CONTAINER)
    assert [outcome.status for outcome in outcomes] == [Status.GONE] * 2
    assert [o.status for o in writer.put({"cpu.weight": "5"}, CONTAINER)] == [
        Status.GONE
    ]
    assert kernel.writes == []


def submitting(writer: DirectWriter, value: str = "59", **given: bool) -> list[Outcome]:
    """Submit a weight that may be written; return the outcomes so far."""
    outcomes: list[Outcome] = []
    files = {"cpu.weight": value}
    assert writer.submit(
        files, CONTAINER, allowed=lambda: True, done=outcomes.extend, **given
    )
    return outcomes


def test_a_forgotten_cgroup_is_read_again() -> None:
    """A new cgroup of the same name does not hold the old one's values."""
    kernel = kernel_with()
    tree = kernel.tree
    writer = DirectWriter(tree, Executor(tree))
    for forget, held in ((False, "1"), (True, "59")):
        submitting(writer)
        kernel.files[f"{CONTAINER}/cpu.weight"] = "1"
        if forget:
            writer.forget(POD)
        submitting(writer)
        assert kernel.files[f"{CONTAINER}/cpu.weight"] == held


def test_what_the_runtime_may_have_written_is_always_read() -> None:
    """A cached value counts for submitted ones alone, and not for `fresh` ones."""
    kernel = kernel_with()
    tree = kernel.tree
    writer, path = DirectWriter(tree, Executor(tree)), f"{CONTAINER}/cpu.weight"
    for again in (
        lambda: writer.put({"cpu.weight": "59"}, CONTAINER),
        lambda: setattr(writer, "refresh_s", 0.0),
    ):
        submitting(writer)
        kernel.files[path] = "1"
        submitting(writer)
        assert kernel.files[path] == "1"
        again()
        submitting(writer)
        assert kernel.files[path] == "59"
    writer.refresh_s = 60.0
    submitting(writer)
    kernel.files[path] = "1"
    submitting(writer)
    assert kernel.files[path] == "1"
    submitting(writer, fresh=True)
    assert kernel.files[path] == "59"


def test_submitted_files_wait_for_the_queue() -> None:
    """`done` gets the outcomes of all files at once, and each is counted."""
    kernel = kernel_with()
    executor = Executor(kernel.tree)
    queue = WriteQueue(executor, limit=1)
    writer = DirectWriter(kernel.tree, executor, queue=queue)
    first = submitting(writer, "58")
    last = submitting(writer, "59")
    no = {"allowed": lambda: True, "done": first.extend}
    for files, cgroup in (
        ({"pids.max": "7"}, CONTAINER),
        ({"pids.max": "7"}, POD),
        ({}, CONTAINER),
    ):
        assert not writer.submit(files, cgroup, **no)  # type: ignore[arg-type] # both fit
    assert kernel.writes == []
    assert queue.write_next()
    assert kernel.writes == [(f"{CONTAINER}/cpu.weight", "59")]
    assert [o.status for o in (*first, *last)] == [Status.SUPERSEDED, Status.WRITTEN]
    assert writer.counts == {
        ("cpu.weight", "superseded"): 1,
        ("cpu.weight", "written"): 1,
    }


def test_a_writer_whose_queue_does_not_end_keeps_its_journal(tmp_path: Path) -> None:
    """The thread that writes may still need it."""
    kernel = kernel_with()
    with Journal(str(tmp_path)) as journal:
        executor = Executor(kernel.tree, journal=journal)
        writer = DirectWriter(kernel.tree, executor, journal)
        writer.end_queue = lambda: False
        writer.close()
        assert writer.put({"cpu.weight": "59"}, CONTAINER)[0].ok


def test_a_failed_write_does_not_stop_the_others() -> None:
    """Its outcome has the kernel's error."""
    kernel = kernel_with(files=[(f"{CONTAINER}/cpu.idle", "1")])
    outcomes = writer_on(kernel).put(
        {"cpu.weight": "59", "memory.high": "8192"}, CONTAINER
    )
    assert [outcome.status for outcome in outcomes] == [Status.FAILED, Status.WRITTEN]
    assert "cpu.idle is 1" in outcomes[0].reason


def test_a_file_that_no_version_has_is_a_mistake_of_the_callers() -> None:
    """The engine decides about no such file."""
    with pytest.raises(ConfigError, match=r"'cpu\.nonsense' not found"):
        writer_on(kernel_with()).put({"cpu.nonsense": "1"}, CONTAINER)


def test_files_with_a_type_keep_it() -> None:
    """Only files without a type are written as text; on v1 none is added."""
    tree, old = Kernel(2).tree, Kernel(1).tree
    before = {resource.type for resource in tree.registry}
    for file in ALLOWABLE:
        add_raw(tree, file)
        add_raw(old, file)
    added = {resource.type for resource in tree.registry} - before
    assert added == {
        "cpu.uclamp.min",
        "cpu.uclamp.max",
        "memory.swap.high",
        "memory.zswap.max",
        "memory.zswap.writeback",
    }
    assert tree.registry.get("cpu.uclamp.max").controller == "cpu"
    assert {r.type for r in old.registry} == {r.type for r in Kernel(1).tree.registry}


def test_a_burst_is_written_to_cruns_inner_cgroup_too() -> None:
    """Both have the container's quota, and the kernel compares in each."""
    inner = f"{CONTAINER}/container"
    kernel = kernel_with(*CGROUPS, inner)
    for cgroup in (CONTAINER, inner):
        kernel.files[f"{cgroup}/cpu.max"] = "50000 100000"
    writer = writer_on(kernel)
    writer.carry_out(
        [write(BURST, "20000"), write("cpu.weight", "7")], When.BEFORE, POD, CONTAINER
    )
    writer.put({BURST: "10000"}, CONTAINER)
    assert kernel.writes == [
        (f"{CONTAINER}/{BURST}", "20000"),
        (f"{inner}/{BURST}", "20000"),
        (f"{CONTAINER}/cpu.weight", "7"),
        (f"{CONTAINER}/{BURST}", "10000"),
        (f"{inner}/{BURST}", "10000"),
    ]
