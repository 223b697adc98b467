"""Repair: files that another process changed are written again, if it is on."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from doors.nri.messages import FILES, GIB, asking, container_at
from doors.nri.messages import unified_of as files_of
from doors.nri.nodes import Node, configure, plugin_on
from support.harness import PATIENCE_S, wait_until
from support.trees import CONTAINER, POD

from nriplugin.api import nri_pb2 as nri
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.writing.queue import WriteQueue
from nriplugin.cgroup.writing.updates import Status
from nriplugin.errors import JournalError
from nriplugin.state import pending_updates
from nriplugin.state.repair_backoff import WAITS_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REPAIR = "repair: {enabled: true, everySeconds: 30}"
AT = CONTAINER.removeprefix(f"{POD}/")


@pytest.fixture
def node() -> Node:
    """A node with a container that holds exactly its decided values."""
    node = Node(REPAIR)
    for file, value in files_of(node.create()).items():
        node.kernel.write(f"{CONTAINER}/{file}", value)
    node.start()
    node.written()
    return node


def repair(node: Node) -> None:
    """Have all containers compared, and what is wrong put right."""
    node.verify()


def test_drift_is_repaired(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Only changed files are written, and the log names each."""
    caplog.set_level("INFO")
    repair(node)
    assert node.written() == {}
    node.kernel.files[f"{CONTAINER}/cpu.max"] = "max 100000"
    node.kernel.files[f"{CONTAINER}/memory.max"] = "max"
    repair(node)
    assert node.written() == {
        f"{AT}/{file}": FILES[file] for file in ("cpu.max", "memory.max")
    }
    assert f"repair: {CONTAINER}/cpu.max: {FILES['cpu.max']}" in caplog.messages
    repair(node)
    assert node.written() == {}


def test_a_write_that_was_not_tried_is_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the state directory has room again, the next comparison repairs the file."""

    def full(*_: object) -> None:
        raise JournalError("disk is full")

    with Journal(str(tmp_path)) as journal:
        node = Node(REPAIR, journal=journal)
        for file, value in files_of(node.create()).items():
            node.kernel.write(f"{CONTAINER}/{file}", value)
        node.start()
        node.kernel.files[f"{CONTAINER}/cpu.max"] = "max 100000"
        node.written()
        with monkeypatch.context() as patch:
            patch.setattr(journal, "record", full)
            for _ in range(2 * len(WAITS_S)):
                node.verify(30)
            assert node.written() == {}
        node.verify(30)
        assert node.written() == {f"{AT}/cpu.max": FILES["cpu.max"]}


def test_a_container_that_is_being_made_has_not_drifted() -> None:
    """Until the start, the runtime still has to write the container's files."""
    node = Node(REPAIR)
    node.create()
    repair(node)
    assert node.written() == {}
    node.start()
    repair(node)
    assert node.written() != {}


@pytest.mark.parametrize("state", [nri.CONTAINER_CREATED, nri.CONTAINER_RUNNING])
def test_a_container_that_synchronize_lists_as_created_has_not_drifted(
    state: nri.ContainerState.ValueType,
) -> None:
    """The runtime's list says which containers have started."""
    node = Node(REPAIR)
    app = container_at(unified=FILES)
    app.state = state
    node.synchronize([app])
    repair(node)
    assert (node.written() == {}) is (state == nri.CONTAINER_CREATED)


def test_after_an_update_repair_uses_its_values(node: Node) -> None:
    """The earlier values are not written again."""
    node.update(asking(limit_bytes=2 * GIB))
    node.kernel.write(f"{CONTAINER}/memory.max", str(2 * GIB))
    node.post_update()
    node.written()
    repair(node)
    assert node.written() == {}


def test_after_an_update_the_first_repair_is_at_once(node: Node) -> None:
    """Earlier repairs of the same value do not make it wait."""
    path = f"{CONTAINER}/cpu.max"
    for _ in range(2):
        node.kernel.files[path] = "max 100000"
        repair(node)
        assert node.written() == {f"{AT}/cpu.max": FILES["cpu.max"]}
        node.kernel.files[path] = "max 100000"
        node.verify(seconds=40)  # less than the wait before a second repair
        assert node.written() == {}
        node.update(asking(limit_bytes=GIB))
        node.post_update()
        node.written()


def test_a_value_that_an_update_sets_explicitly_is_not_repaired(node: Node) -> None:
    """It was asked for, and the runtime has written it."""
    node.update(asking({"memory.max": str(3 * GIB)}, limit_bytes=2 * GIB))
    node.kernel.write(f"{CONTAINER}/memory.max", str(3 * GIB))
    node.post_update()
    node.written()
    repair(node)
    assert node.written() == {}


def test_updates_while_repair_was_off_are_not_repaired(node: Node) -> None:
    """Repair may be switched off for a while and on again."""
    for config in ("", "resources: {enabled: false}"):
        configure(node.plugin, config)
        node.update(asking(limit_bytes=2 * GIB))
        node.kernel.write(f"{CONTAINER}/memory.max", str(2 * GIB))
        node.post_update()
        configure(node.plugin, REPAIR)
        node.written()
        repair(node)
        assert node.written() == {}


@pytest.mark.parametrize("patience_s", [0.0, 1000.0])
def test_a_container_that_is_being_updated_is_left_alone(
    patience_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the update's time limit is over."""
    monkeypatch.setattr(pending_updates, "UPDATE_LIMIT_S", patience_s)
    node = Node(REPAIR)
    node.create()
    node.start()
    node.update(asking(limit_bytes=2 * GIB))
    repair(node)
    assert (node.written() == {}) is (patience_s > 0)


def test_a_container_that_changes_while_others_are_repaired_is_left_alone() -> None:
    """The entry from the beginning of the round is old by then."""
    node = Node(REPAIR)
    second = container_at(f"{POD}/{2:064x}", 2)
    node.kernel.add(f"{POD}/{2:064x}")
    node.create()
    node.create(second)
    node.start()
    node.start(second)
    write = node.kernel.write
    happens: list[Callable[[], object]] = [
        lambda: node.update(asking(limit_bytes=2 * GIB), second),
        lambda: node.post_update(second),
    ]

    def interrupted(path: str, value: str) -> None:
        while happens:
            happens.pop(0)()
        write(path, value)

    node.kernel.write = interrupted  # type: ignore[method-assign]
    node.verify(looks=3)  # the containers that have just started wait at the first
    written = node.written()
    assert written
    assert not any(f"{2:064x}" in path for path in written)


def test_a_slow_file_holds_up_no_comparison() -> None:
    """Another thread writes; meanwhile nothing is counted, and nothing tried again."""
    entered, leave, stop = threading.Event(), threading.Event(), threading.Event()

    class Slow(Kernel):
        def write(self, path: str, value: str) -> None:
            entered.set()
            assert leave.wait(PATIENCE_S)
            super().write(path, value)

    node = Node(REPAIR, kernel=Slow())
    node.create()
    node.start()
    for file, value in FILES.items():
        node.kernel.files[f"{CONTAINER}/{file}"] = value
    writer = node.plugin.lifecycle.pending.writer
    assert writer is not None
    queue = writer.queue = WriteQueue(writer._executor)
    thread = threading.Thread(target=queue.run, args=(stop,))
    thread.start()
    try:
        node.kernel.files[f"{CONTAINER}/cpu.weight"] = "77"
        node.verify()
        assert entered.wait(PATIENCE_S)
        for _ in range(3):
            node.verify()
        counts = node.plugin.lifecycle.verification
        assert (counts.repairs, counts.failed_repairs) == ({}, {})
    finally:
        leave.set()
        wait_until(lambda: queue.counts[Status.WRITTEN] == 1)
        stop.set()
        queue.wake()
        thread.join(PATIENCE_S)
    node.verify()
    assert node.of_container("cpu.weight") == "59"
    assert (counts.repairs, counts.failed_repairs) == ({"cpu.weight": 1}, {})
    assert node.kernel.writes == [(f"{CONTAINER}/cpu.weight", "59")]


@pytest.mark.parametrize("happens", ["an update", "a withdrawal"])
def test_a_repair_that_waits_too_long_is_not_done(node: Node, happens: str) -> None:
    """What is right at its submission may be wrong when its turn comes."""
    lifecycle = node.plugin.lifecycle
    writer = lifecycle.pending.writer
    assert writer is not None
    queue = writer.queue = WriteQueue(writer._executor)
    node.kernel.files[f"{CONTAINER}/memory.max"] = "max"
    node.verify()
    assert len(queue) == 1
    if happens == "an update":
        node.update(asking(limit_bytes=2 * GIB))
    else:
        lifecycle.withdraw()
    assert queue.write_next()
    assert node.kernel.writes == []
    assert queue.counts == {Status.DROPPED: 1}
    assert lifecycle.pending.being_written == []


def test_a_container_without_a_cgroup_is_no_trouble(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """It has ended or is not created yet; the others are repaired."""
    node.create(container_at(f"{POD}/{2:064x}", 2))
    node.create(container_at("nowhere", 3))
    node.kernel.files[f"{CONTAINER}/memory.max"] = "max"
    caplog.clear()
    repair(node)
    assert node.written() == {f"{AT}/memory.max": FILES["memory.max"]}
    assert [line.partition(":")[0] for line in caplog.messages] == ["drift"]


def test_a_container_that_is_removed_is_forgotten_everywhere(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inventory forgets it at once, the journal's entries go with a job."""
    node.kernel.files[f"{CONTAINER}/memory.max"] = "max"
    repair(node)
    node.written()
    forgotten: list[str] = []
    monkeypatch.setattr(
        node.plugin.lifecycle.pending.writer, "forget", forgotten.append
    )
    node.remove()
    assert len(node.plugin.lifecycle.inventory) == 0
    assert forgotten == []
    node.background.work()
    assert forgotten == [CONTAINER]
    node.kernel.files[f"{CONTAINER}/memory.max"] = "max"
    repair(node)
    assert node.written() == {}


def test_repair_can_be_switched_off_again(node: Node) -> None:
    """A reload of the configuration does it; drift is still found."""
    configure(node.plugin, "")
    node.kernel.files[f"{CONTAINER}/memory.max"] = "max"
    repair(node)
    assert node.written() == {}
    assert node.plugin.lifecycle.inventory.drift_of("c1") == ("memory.max",)


def test_without_direct_writes_repair_is_off_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The configuration asks for something that this node cannot do."""

    plugin = plugin_on()
    configure(plugin, REPAIR)
    assert caplog.messages == [
        "repair: on, but direct writes are off: only a runtime with NRI 0.12.1 or "
        "later can put values right"
    ]


def test_the_last_attempt_may_succeed() -> None:
    """Repair gives up only if the file has drifted once more after it."""
    node = Node("repair: {enabled: true}")
    node.create()
    node.start()
    node.verify()
    path = f"{CONTAINER}/cpu.weight"
    repairs = node.plugin.lifecycle.verifier.repairs
    for _ in range(len(WAITS_S) - 1):
        node.kernel.files[path] = "77"
        node.verify(1800)
    assert node.plugin.lifecycle.verification.repairs["cpu.weight"] == len(WAITS_S)
    assert node.of_container("cpu.weight") == "59"
    node.verify()
    assert not repairs.gave_up("c1", "cpu.weight")
    node.kernel.files[path] = "77"
    node.verify()
    assert repairs.gave_up("c1", "cpu.weight")
    assert node.of_container("cpu.weight") == "77"
