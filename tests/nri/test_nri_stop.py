"""`Plugin.stop`: from any thread, from any handler, before `run`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from support.harness import PATIENCE_S, Recorder, connected, container, pod

from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import Plugin, Runner
from nriplugin.nri.launch import Launch
from nriplugin.nri.testing import PluginRuntime

if TYPE_CHECKING:
    from pathlib import Path


class StopsItself(Plugin):
    def __init__(self, handler: str) -> None:
        self._at = handler

    def _reach(self, handler: str) -> None:
        if handler == self._at:
            self.stop()

    def synchronize(self, pods: object, containers: object) -> None:
        self._reach("synchronize")

    def create_container(
        self, request: nri.CreateContainerRequest
    ) -> nri.CreateContainerResponse:
        self._reach("create_container")
        response = nri.CreateContainerResponse()
        response.adjust.annotations["answered"] = "yes"
        return response

    def post_create_container(
        self, pod: nri.PodSandbox, container: nri.Container
    ) -> None:
        self._reach("post_create_container")


@pytest.mark.parametrize("handler", ["create_container", "post_create_container"])
def test_a_handler_stops_its_plugin(handler: str) -> None:
    """A plugin that stops itself in a handler ends, and that request is answered."""
    with PluginRuntime() as runtime:
        running = runtime.run_plugin(StopsItself(handler))
        created = runtime.create_container(pod(), container())
        assert created.adjust.annotations["answered"] == "yes"
        running.wait()


def test_synchronize_may_stop_the_plugin(tmp_path: Path) -> None:
    """A plugin that stops in Synchronize was registered, and ends."""
    with PluginRuntime() as runtime:
        launch = Launch("test", "10", runtime.socket_path, None)
        Runner(StopsItself("synchronize"), launch).run()


def test_any_thread_may_stop_the_plugin(tmp_path: Path) -> None:
    """`stop` on another thread ends `run`, also between two requests."""
    with PluginRuntime() as runtime:
        plugin = Recorder()
        running = runtime.run_plugin(plugin)
        thread = threading.Thread(target=plugin.stop)
        thread.start()
        running.wait()
        thread.join(PATIENCE_S)
    assert plugin.ends == ["stopped"]


def test_stop_ends_the_wait_for_a_runtime(tmp_path: Path) -> None:
    """`stop` ends a plugin that has no connection."""
    plugin = Recorder()
    runner = Runner(plugin, Launch("test", "10", str(tmp_path / "absent"), None))
    thread = threading.Thread(target=runner.run)
    thread.start()
    plugin.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_a_stop_before_run_is_not_lost(tmp_path: Path) -> None:
    """`run` returns at once after an earlier `stop`; the `run` after it serves."""
    plugin = Recorder()
    plugin.stop()
    Runner(plugin, Launch("test", "10", str(tmp_path / "absent"), None)).run()
    with connected(plugin, tmp_path) as (runtime, _):
        runtime.run_pod_sandbox(pod())
    assert plugin.seen == [("run_pod_sandbox", "p1", "")]
