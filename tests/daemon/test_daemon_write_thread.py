"""The thread that writes what background work submits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from cgroup.kernels import Kernel
from support.harness import PATIENCE_S, wait_until
from support.trees import CONTAINER, POD, make_v2

from nriplugin.cgroup.locate.detect import detect_node
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.queue import WriteQueue
from nriplugin.cgroup.writing.updates import Status, Update
from nriplugin.daemon.assembly import process_on
from nriplugin.daemon.write_thread import WriteThread

if TYPE_CHECKING:
    from pathlib import Path


def test_it_writes_and_ends() -> None:
    """Without waiting for anything that is not under way."""
    kernel = Kernel()
    queue = WriteQueue(Executor(kernel.tree))
    thread = WriteThread(queue)
    queue.submit([Update(Type.PIDS_MAX, CONTAINER, 7)])
    wait_until(lambda: kernel.writes)
    assert thread.end(PATIENCE_S)
    assert kernel.writes == [(f"{CONTAINER}/pids.max", "7")]


def test_a_write_that_does_not_end_is_left() -> None:
    """The end of the process does not wait for it, and what waits is dropped."""
    entered, leave = threading.Event(), threading.Event()

    class Slow(Kernel):
        def write(self, path: str, value: str) -> None:
            entered.set()
            assert leave.wait(PATIENCE_S)
            super().write(path, value)

    kernel = Slow()
    queue = WriteQueue(Executor(kernel.tree))
    thread = WriteThread(queue)
    queue.submit([Update(Type.PIDS_MAX, CONTAINER, 7)])
    assert entered.wait(PATIENCE_S)
    queue.submit([Update(Type.PIDS_MAX, POD, 8)])
    assert not thread.end(0.0)
    leave.set()
    assert thread.end(PATIENCE_S)
    assert kernel.writes == [(f"{CONTAINER}/pids.max", "7")]
    assert queue.counts == {Status.WRITTEN: 1, Status.DROPPED: 1}


def test_a_daemon_knows_its_thread(tmp_path: Path) -> None:
    """From the first need of direct writes on, for `/healthz`."""
    make_v2(tmp_path / "cgroup")
    node = detect_node({}, str(tmp_path), str(tmp_path / "cgroup"))
    process = process_on(
        *(node, "nri"),
        read_only=False,
        config_path=None,
        state_dir=str(tmp_path / "state"),
    )
    assert process.write_thread is None
    process.lifecycle.writer_opening.open()
    thread = process.write_thread
    assert thread is not None
    assert (thread.has_died, thread.busy_s) == (False, 0.0)
    process.lifecycle.close()
    assert not thread.has_died
