"""The thread that writes what background work submits."""

from __future__ import annotations

import threading

from cgroup.kernels import Kernel
from support.harness import PATIENCE_S, wait_until
from support.trees import CONTAINER, POD

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.queue import WriteQueue
from nriplugin.cgroup.writing.updates import Status, Update
from nriplugin.daemon.write_thread import WriteThread


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
