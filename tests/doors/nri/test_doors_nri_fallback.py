"""Updates that the handlers do not answer, of containers with nriplugin's values."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from doors.nri.messages import GIB, asking, container_at, pod_at, updating
from doors.nri.nodes import Node, background_of, configure, plugin_on
from support.harness import (
    PATIENCE_S,
    PATIENT,
    be_late,
    connected,
    raw_peer,
    wait_until,
)
from support.trees import CONTAINER

from nriplugin.api import nri_pb2 as nri
from nriplugin.doors.nri.plugin import NodePlugin
from nriplugin.engine.allowed_files import ALLOWABLE, OWNABLE
from nriplugin.engine.decision import When
from nriplugin.engine.model import NodeFacts
from nriplugin.errors import RequestFails

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.nri import Runner

RECORD = (
    "cpu.max=100000 100000;cpu.max.burst=50000;cpu.weight=59;memory.high=980111360;"
    "memory.max=1073741824"
)
DOUBLE: dict[str, Any] = {"shares": 1024, "quota_us": 200_000, "limit_bytes": 2 * GIB}
CONVERTED = {
    "cpu.weight": "100",
    "cpu.max": "200000 100000",
    "memory.max": str(2 * GIB),
}


def ours() -> nri.Container:
    """Return a container that has files from nriplugin."""
    app = container_at()
    app.annotations["managed.cgroup2.nri.io"] = RECORD
    files = dict(part.split("=") for part in RECORD.split(";"))
    app.linux.resources.unified.update(files)
    return app


def fallback(plugin: NodePlugin, app: nri.Container, asked: nri.LinuxResources) -> Any:
    response = plugin.fallback_update(updating(pod_at(), app, asked))
    if response is None:
        return None
    (update,) = response.update
    return dict(update.linux.resources.unified)


@pytest.mark.parametrize(
    "config",
    ["", "cpuBurst: {enabled: true, percent: 50}", "resources: {enabled: false}"],
)
def test_the_conversion_alone_is_answered(config: str) -> None:
    """Values that a handler set for the old numbers are taken back."""
    plugin = plugin_on(NodeFacts(files=OWNABLE))
    configure(plugin, config)
    neutral = {"cpu.max.burst": "0", "memory.high": "max"}
    assert fallback(plugin, ours(), asking(**DOUBLE)) == CONVERTED | neutral


def test_without_values_from_nriplugin_the_answer_is_empty() -> None:
    """The runtime then writes what it would write without nriplugin."""
    assert fallback(plugin_on(), container_at(), asking(**DOUBLE)) is None
    inactive = plugin_on(NodeFacts(cgroup_version=1))
    assert fallback(inactive, ours(), asking(**DOUBLE)) is None


@pytest.mark.parametrize("where", ["asked", "stored"])
@pytest.mark.parametrize("policy", ["", "failurePolicy: ignore"])
def test_numbers_without_a_conversion_fail_the_update(where: str, policy: str) -> None:
    """Unless the configuration asks to go on after any failure."""
    plugin = plugin_on()
    configure(plugin, policy)
    app, asked = ours(), asking(**DOUBLE)
    if where == "asked":
        asked = asking(quota_us=5)
    else:
        app.linux.resources.memory.limit.value = -7
    if policy:
        assert fallback(plugin, app, asked) is None
    else:
        with pytest.raises(RequestFails, match="the runtime"):
            fallback(plugin, app, asked)


def test_a_handler_that_breaks_does_not_lose_the_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On the wire: the runtime gets the conversion, and no error."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    plugin = plugin_on()
    monkeypatch.setattr(plugin.lifecycle, "use_of", broken)
    request = nri.UpdateContainerRequest(
        pod=pod_at(), container=ours(), linux_resources=asking(**DOUBLE)
    )
    with raw_peer(plugin) as peer:
        peer.begin(runtime_name="containerd", runtime_version="v2.4.0")
        answer = peer.ask("UpdateContainer", request, nri.UpdateContainerResponse)
    (update,) = answer.update
    assert CONVERTED.items() <= dict(update.linux.resources.unified).items()


class Slow(NodePlugin):
    """A plugin whose updates take as long as a test wants, and are late at once."""

    def __init__(self) -> None:
        facts = NodeFacts(files=ALLOWABLE, kernel=(6, 1))
        super().__init__(plugin_on(facts).lifecycle)
        self.release = threading.Event()
        self.runner: Runner | None = None

    def update_container(self, request: Any) -> Any:
        assert self.runner is not None
        be_late(self.runner._session)
        assert self.release.wait(PATIENCE_S)
        return super().update_container(request)


@pytest.mark.parametrize("nri_version", ["0.12.5", "0.12.0"])
def test_a_late_decision_is_sent_as_an_update(tmp_path: Path, nri_version: str) -> None:
    """The runtime gets an unsolicited update, if its release takes such."""
    plugin = Slow()
    configure(plugin, "memoryQoSLevel: {enabled: true, level: BE}")
    background = background_of(plugin)
    behaviour = replace(PATIENT, nri_version=nri_version)
    high = {"memory.high": str(int(2 * GIB * 0.8) // 4096 * 4096)}
    with connected(plugin, tmp_path, behaviour) as (runtime, runner):
        plugin.runner = runner
        updated = runtime.update_container(pod_at(), ours(), asking(**DOUBLE))
        files = dict(updated.resources.unified)
        assert CONVERTED.items() <= files.items()
        assert files["memory.high"] == "max"
        plugin.release.set()
        # A second request is answered when the late handler is back.
        runtime.stop_container(pod_at(), container_at(number=2))
        background.work_when_time_is_up()
        if nri_version == "0.12.5":
            wait_until(lambda: bool(runtime.updates))
            ((update,),) = runtime.updates
            sent = dict(update.linux.resources.unified)
            assert (CONVERTED | high).items() <= sent.items()
        else:
            assert runtime.updates == []


def test_a_decision_that_the_fallback_replaced_is_sent_as_an_update() -> None:
    """The runtime has written the fallback's answer, without the handlers' files."""
    node = Node("cpuBurst: {enabled: true, percent: 50}")
    asked = asking(**DOUBLE)
    response = node.plugin.fallback_update(updating(pod_at(), ours(), asked))
    assert response is not None
    for update in response.update:
        for file, value in update.linux.resources.unified.items():
            node.kernel.write(f"{CONTAINER}/{file}", value)
    assert node.of_container("cpu.max.burst") == "0"
    node.background.work_when_time_is_up()
    assert node.of_container("cpu.max.burst") == "100000"
    known = node.plugin.lifecycle.inventory.get("c1")
    assert known is not None
    assert known.files["cpu.max.burst"] == "100000"


def test_a_late_decision_is_dropped_after_another_update() -> None:
    """The numbers of the other update count."""
    node = Node("cpuBurst: {enabled: true, percent: 50}")
    node.plugin.fallback_update(updating(pod_at(), ours(), asking(**DOUBLE)))
    node.update(asking(quota_us=20_000), ours())
    node.post_update()
    node.written()
    node.background.work_when_time_is_up()
    assert node.written() == {}


def test_a_late_decision_is_written_when_the_runtime_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its direct writes before the answer may have caused the delay."""
    node = Node("cpuBurst: {enabled: true, percent: 50}")
    request = updating(pod_at(), ours(), asking(**DOUBLE))

    writer = node.plugin.lifecycle.pending.writer
    assert writer is not None
    carry_out = writer.carry_out

    def slow(writes: Any, when: When, *cgroups: Any) -> Any:
        if when is When.BEFORE:
            node.plugin.fallback_update(request)
            return []
        return carry_out(writes, when, *cgroups)

    monkeypatch.setattr(writer, "carry_out", slow)
    node.plugin.update_container(request)
    for file, value in CONVERTED.items():
        node.kernel.write(f"{CONTAINER}/{file}", value)
    node.post_update()
    node.background.work()
    assert node.of_container("cpu.max.burst") == "100000"
