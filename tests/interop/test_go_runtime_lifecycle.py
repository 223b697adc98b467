from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from support.gopeers import Child, nriplugin_command, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future
    from pathlib import Path

    from support.gopeers import CallLog, GoRuntime, Starter

pytestmark = pytest.mark.needs_go

RESTARTS = 20


def footprint(child: Child) -> tuple[int, int]:
    """Return how many descriptors and threads a process has."""
    proc = f"/proc/{child.process.pid}"
    return len(os.listdir(f"{proc}/fd")), len(os.listdir(f"{proc}/task"))


def test_restarts_of_the_runtime(
    runtime: GoRuntime, observer: Starter, log: CallLog
) -> None:
    """After each restart the plugin registers once, and nothing piles up in it."""
    runtime.start(containers=3)
    with observer() as child:
        runtime.wait_sync()
        assert runtime.create()
        before = footprint(child)
        for restart in range(1, RESTARTS + 1):
            runtime("shutdown")
            runtime.start()
            assert len(runtime.wait_sync(restart + 1)) == restart + 1
            assert runtime("plugins")["connected"] == 1
            assert runtime.create()
        assert footprint(child) == before
        assert len(runtime.wait_sync(RESTARTS + 1)) == RESTARTS + 1
        assert child.terminate() == 0
    connection = ["Configure", "Synchronize", "CreateContainer", "Disconnected"]
    methods = [line["method"] for line in log.lines()]
    assert methods == connection * (RESTARTS + 1)


def test_the_runtime_carries_on_without_a_killed_plugin(
    runtime: GoRuntime, nriplugin: Starter
) -> None:
    """A plugin that dies costs its adjustments, and a new one takes its place."""
    runtime.start(containers=3)
    with nriplugin() as child:
        runtime.wait_sync()
        assert runtime.create()
        child.process.kill()
        child.process.wait()
        assert runtime.create() is None
        runtime.wait_connections(0)
    with nriplugin():
        runtime.wait_sync(2)
        assert runtime.create()
        assert runtime("plugins")["connected"] == 1


@contextmanager
def in_the_middle_of_a_request(
    runtime: GoRuntime, observer: Starter, log: CallLog, hold: Path
) -> Iterator[tuple[Child, Future[Any]]]:
    """A plugin that answers CreateContainer only when `hold` is gone."""
    hold.touch()
    runtime.start()
    with observer() as child, ThreadPoolExecutor(1) as other:
        runtime.wait_sync()
        pod = {"id": "p1", "annotations": {"hold": str(hold)}}
        adjust = other.submit(runtime.create, pod=pod)
        log.wait_for("CreateContainer")
        yield child, adjust


def test_a_plugin_killed_while_it_answers(
    runtime: GoRuntime, observer: Starter, log: CallLog, tmp_path: Path
) -> None:
    """A container whose plugin dies in the middle of its request is created."""
    request = in_the_middle_of_a_request(runtime, observer, log, tmp_path / "hold")
    with request as (child, adjust):
        child.process.kill()
        assert adjust.result() is None
        runtime.wait_connections(0)


def test_sigterm_ends_the_plugin(runtime: GoRuntime, nriplugin: Starter) -> None:
    """A plugin that is asked to end closes the connection and exits with 0."""
    runtime.start()
    with nriplugin() as child:
        runtime.wait_sync()
        assert runtime.create()
        assert child.terminate() == 0
        runtime.wait_connections(0)
        assert runtime.create() is None


def test_sigterm_lets_the_request_under_way_end(
    runtime: GoRuntime, observer: Starter, log: CallLog, tmp_path: Path
) -> None:
    """A plugin that is asked to end while it answers still answers."""
    hold = tmp_path / "hold"
    with in_the_middle_of_a_request(runtime, observer, log, hold) as (child, adjust):
        child.process.terminate()
        hold.unlink()
        assert adjust.result()
        assert child.process.wait(60) == 0


def test_the_plugin_waits_for_the_runtime(runtime: GoRuntime, tmp_path: Path) -> None:
    """A plugin that is started first registers when the runtime appears."""
    said = tmp_path / "stderr"
    with (
        said.open("w") as file,
        Child(*nriplugin_command(runtime.socket), log=file),
    ):
        until(lambda: "No such file" in said.read_text(), "the plugin found nobody")
        runtime.start(containers=3)
        (sync,) = runtime.wait_sync()
        assert sync["error"] == ""
        assert runtime.create()
        assert runtime("plugins")["connected"] == 1


def test_sigterm_while_there_is_no_runtime(tmp_path: Path) -> None:
    """A plugin that waits for a runtime can be ended as any other."""
    said = tmp_path / "stderr"
    with (
        said.open("w") as file,
        Child(*nriplugin_command(str(tmp_path / "none.sock")), log=file) as child,
    ):
        until(lambda: "No such file" in said.read_text(), "the plugin found nobody")
        assert child.terminate() == 0


def test_two_plugins_take_turns(
    runtime: GoRuntime, observer: Starter, nriplugin: Starter
) -> None:
    """Two plugins on the SDK both adjust a container, without a conflict."""
    runtime.start(containers=3)
    with nriplugin("--idx", "10", "--name", "first"), observer():
        runtime.wait_sync(2)
        adjust = runtime.create()
        assert adjust["linux"]["resources"]["unified"]["cpu.weight"] == "59"
        assert adjust["annotations"]["observer/seen"] == "c900000"
        assert runtime("plugins")["connected"] == 2
