"""What `live` and `ready` say about a daemon, with real threads that hang."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from cgroup.kernels import Kernel
from support.harness import be_late, connected, container, pod, wait_until
from support.trees import CONTAINER

from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.queue import WriteQueue
from nriplugin.cgroup.writing.updates import Update
from nriplugin.daemon import health
from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.health import WITHDRAWN, live, ready
from nriplugin.daemon.process import DaemonProcess
from nriplugin.daemon.write_thread import WriteThread
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.doors.nri.responses import adjustment
from nriplugin.engine.model import NodeFacts
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.nri import Runner


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread counts as stuck as soon as it is late."""
    monkeypatch.setattr(health, "REQUEST_STUCK_S", 0.0)
    monkeypatch.setattr(health, "BACKGROUND_STUCK_S", 0.0)


class Hanging(NodePlugin):
    """Does not come back from CreateContainer until it is told to."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        super().__init__(lifecycle)
        self.let_go = threading.Event()
        self.runner: Runner | None = None

    def create_container(self, request: Any) -> None:
        assert self.runner is not None
        be_late(self.runner._session)
        self.let_go.wait(60)


def test_a_new_process_is_live_and_not_ready(process: DaemonProcess) -> None:
    """It has no connection, which a restart would not change."""
    assert live(process) == []
    assert ready(process) == ["not connected to the runtime: not connected yet"]


@pytest.mark.usefixtures("impatient")
def test_a_handler_that_hangs_and_comes_back(tmp_path: Path) -> None:
    """The request thread is stuck exactly as long as the handler is late."""
    background = BackgroundThread()
    lifecycle = Lifecycle(background, render=adjustment)
    process = DaemonProcess("nri", lifecycle, background)
    plugin = Hanging(lifecycle)
    with connected(plugin, tmp_path) as (runtime, runner):
        plugin.runner = runner
        process.late_s = lambda: runner.late_s
        assert (live(process), ready(process)) == ([], [])
        # Answered by the SDK's watchdog, while the handler does not come back.
        runtime.create_container(pod(), container())
        wait_until(lambda: live(process))
        (problem,) = live(process)
        assert problem.startswith("requests are not decided about since ")
        assert ready(process) == []
        plugin.let_go.set()
        wait_until(lambda: not live(process))
    assert live(process) == []
    (problem,) = ready(process)
    assert problem.startswith("not connected to the runtime: ")


@pytest.mark.usefixtures("impatient")
def test_a_background_job_that_hangs(process: DaemonProcess) -> None:
    """The background thread is stuck while its job does not end."""
    let_go = threading.Event()

    def hang() -> None:
        let_go.wait(60)

    process.background.soon(hang)
    wait_until(lambda: live(process))
    (problem,) = live(process)
    assert problem.startswith("the background thread has one job since ")
    let_go.set()
    wait_until(lambda: not live(process))


class Blocking(Kernel):
    """Does not come back from a write until it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def write(self, path: str, value: str) -> None:
        assert self.let_go.wait(60)
        super().write(path, value)


@pytest.mark.usefixtures("impatient")
def test_a_repair_that_hangs(process: DaemonProcess) -> None:
    """The thread of direct writes is stuck while its write does not end."""
    kernel = Blocking()
    queue = WriteQueue(Executor(kernel.tree))
    thread = process.write_thread = WriteThread(queue)
    assert live(process) == []
    queue.submit([Update(Type.PIDS_MAX, CONTAINER, 7)])
    wait_until(lambda: live(process))
    (problem,) = live(process)
    assert problem.startswith("a direct write does not end since ")
    kernel.let_go.set()
    wait_until(lambda: not live(process))
    assert thread.end()
    assert live(process) == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_of_direct_writes_that_died(process: DaemonProcess) -> None:
    """Without it nothing that has drifted is put right any more."""

    def end_the_thread(_: object) -> None:
        raise SystemExit

    queue = WriteQueue(Executor(Kernel().tree))
    process.write_thread = WriteThread(queue)
    queue.submit([Update(Type.PIDS_MAX, CONTAINER, 7)], done=end_the_thread)
    wait_until(lambda: live(process))
    assert live(process) == ["the thread of direct writes has ended"]


def test_patience(process: DaemonProcess) -> None:
    """A late request and a long job are no reason for a restart at once."""
    process.late_s = lambda: 29.0
    assert live(process) == []
    process.late_s = lambda: 31.0
    assert live(process) == ["requests are not decided about since 31 s"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_background_thread_that_died(process: DaemonProcess) -> None:
    """Nothing ends the thread but `stop`, so its end is a defect."""

    def end_the_thread() -> None:
        raise SystemExit

    process.background.soon(end_the_thread)
    wait_until(lambda: live(process))
    assert live(process) == ["the background thread has ended"]


def test_a_background_thread_that_was_stopped(process: DaemonProcess) -> None:
    """At the end of the process the thread ends, too."""
    process.background.soon(lambda: None)
    process.background.stop()
    assert live(process) == []


def test_withdrawn_is_not_ready(process: DaemonProcess) -> None:
    """A daemon that decides nothing any more is live, and not ready."""
    process.lifecycle.connection.synchronized(0)
    assert ready(process) == []
    process.withdrawn = True
    assert ready(process) == [WITHDRAWN]
    assert live(process) == []


def test_cgroup_v1_is_ready(tmp_path: Path) -> None:
    """A daemon that does direct writes only, or nothing, is ready when registered."""
    background = BackgroundThread()
    facts = NodeFacts(cgroup_version=1)
    lifecycle = Lifecycle(background, facts, render=adjustment)
    process = DaemonProcess("nri", lifecycle, background)
    with connected(NodePlugin(lifecycle), tmp_path):
        assert ready(process) == []
