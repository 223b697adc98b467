"""NRI's Plugin service over gRPC gives the live plugin's answers without effects."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from daemon.control_clients import ControlClient, controlled, daemon_of
from doors.nri.nodes import plugin_on
from support.harness import container, pod
from support.trees import make_v2

from nriplugin.api import nri_pb2 as nri
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.engine.model import NodeFacts
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.nri.methods import METHODS, PLUGIN_SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.protobuf.message import Message

    from nriplugin.doors.nri.plugin import NodePlugin

APP = {"shares": 1024, "quota_us": 50_000, "limit_bytes": 1 << 28}
FILES = {"cpu.weight": "100", "cpu.max": "50000 100000", "memory.max": "268435456"}


class Client:
    """Calls methods of the service by their names."""

    def __init__(self, control: ControlClient) -> None:
        self.channel = control.channel
        self._control = control

    def __call__(self, rpc: str, request: Message, response: Any) -> Any:
        return self._control.call(f"/{PLUGIN_SERVICE}/{rpc}", request, response)

    def create(self, **numbers: int) -> dict[str, str]:
        request = nri.CreateContainerRequest(pod=pod(), container=container(**numbers))
        response = self("CreateContainer", request, nri.CreateContainerResponse)
        return dict(response.adjust.linux.resources.unified)


@contextmanager
def serving(plugin: NodePlugin, directory: Path) -> Iterator[Client]:
    with controlled(daemon_of(plugin.lifecycle), directory) as control:
        yield Client(control)


def test_a_dry_run_gives_the_live_plugins_answer(tmp_path: Path) -> None:
    """The answer follows a new configuration at once."""
    plugin = plugin_on()
    with serving(plugin, tmp_path) as client:
        assert client.create(**APP) == FILES
        plugin.apply(parse_config("curve: kep", "test"))
        assert client.create(**APP) == {**FILES, "cpu.weight": "39"}


def test_updates_carry_nriplugins_files_alone(tmp_path: Path) -> None:
    """As on the runtime's own connection."""
    asked = container(**APP).linux.resources
    asked.cpu.cpus = "0-3"
    request = nri.UpdateContainerRequest(
        pod=pod(), container=container(), linux_resources=asked
    )
    with serving(plugin_on(), tmp_path) as client:
        response = client("UpdateContainer", request, nri.UpdateContainerResponse)
    (update,) = response.update
    assert update.linux.resources == nri.LinuxResources(unified=FILES)


def test_every_method_is_there(tmp_path: Path) -> None:
    """Events get empty answers, and an unknown method is not implemented."""
    with serving(plugin_on(), tmp_path) as client:
        for method in METHODS:
            client(method.rpc, method.request(), method.response)
        configured = client(
            "Configure",
            nri.ConfigureRequest(config="nonsense: 1"),
            nri.ConfigureResponse,
        )
        assert configured.events
        client("Synchronize", nri.SynchronizeRequest(), nri.SynchronizeResponse)
        client("Shutdown", nri.Empty(), nri.Empty)
        client("StateChange", nri.StateChangeEvent(), nri.Empty)
        with pytest.raises(grpc.RpcError) as raised:
            client("Dance", nri.Empty(), nri.Empty)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_dry_run_has_no_effects(tmp_path: Path) -> None:
    """Neither cgroups nor the live plugin's state change."""
    tree = make_v2(tmp_path / "cgroup")
    written: list[tuple[str, str]] = []
    executor = Executor(tree, trace=lambda *write: written.append(write))
    facts = NodeFacts(driver="cgroupfs", files=frozenset({"cpu.max.burst", "cpu.max"}))
    plugin = plugin_on(facts, tree, open_writer=lambda: DirectWriter(tree, executor))
    plugin.apply(parse_config("cpuBurst: {enabled: true, percent: 50}", "test"))
    with serving(plugin, tmp_path) as client:
        assert client.create(**APP)["cpu.max.burst"] == "25000"
        client(
            "RemoveContainer",
            nri.RemoveContainerRequest(container=container()),
            nri.RemoveContainerResponse,
        )
    assert not written
    assert len(plugin.lifecycle.inventory) == 0
    plugin.close()


def test_a_failing_handler_is_a_status(tmp_path: Path) -> None:
    """A handler that is configured to fail ends the call with its reason."""
    plugin = plugin_on()
    plugin.apply(parse_config("resources: {failurePolicy: fail}", "test"))
    with serving(plugin, tmp_path) as client, pytest.raises(grpc.RpcError) as raised:
        client.create(shares=1024, quota_us=5)
    assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "cpu.quota: 5, expected 1000" in str(raised.value.details())
