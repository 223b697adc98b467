"""NRI's Plugin service over gRPC gives the live plugin's answers without effects."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from doors.nri.nodes import plugin_on
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from support.harness import container, pod
from support.trees import make_v2

from nriplugin.api import nri_pb2 as nri
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.config import parse_config
from nriplugin.daemon.plugin_service import PluginService
from nriplugin.engine.model import NodeFacts
from nriplugin.errors import ConfigError
from nriplugin.node.direct_writes import DirectWriter
from nriplugin.nri.methods import METHODS, PLUGIN_SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from google.protobuf.message import Message

    from nriplugin.doors.nri.plugin import NodePlugin

APP = {"shares": 1024, "quota_us": 50_000, "limit_bytes": 1 << 28}
FILES = {"cpu.weight": "100", "cpu.max": "50000 100000", "memory.max": "268435456"}
PATIENCE_S = 60


class Client:
    """Calls methods of the service by their names."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel

    def __call__(self, rpc: str, request: Message, response: Any) -> Any:
        call: Any = self.channel.unary_unary(
            f"/{PLUGIN_SERVICE}/{rpc}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response.FromString,
        )
        return call(request, timeout=PATIENCE_S)

    def create(self, **numbers: int) -> dict[str, str]:
        request = nri.CreateContainerRequest(pod=pod(), container=container(**numbers))
        response = self("CreateContainer", request, nri.CreateContainerResponse)
        return dict(response.adjust.linux.resources.unified)


@contextmanager
def serving(plugin: NodePlugin, directory: Path) -> Iterator[Client]:
    service = PluginService(plugin)
    path = str(directory / "plugin.sock")
    service.open(path)
    try:
        with grpc.insecure_channel(f"unix:{path}") as channel:
            yield Client(channel)
    finally:
        service.close()


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


def test_a_stream_that_is_kept_open_leaves_room_for_questions(tmp_path: Path) -> None:
    """A client that keeps its reflection stream open does not block others."""
    done = threading.Event()

    def requests() -> Iterator[bytes]:
        done.wait(PATIENCE_S)
        yield from ()

    with serving(plugin_on(), tmp_path) as client:
        method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        stream: Any = client.channel.stream_stream(method)
        calls = [stream(requests()) for _ in range(2)]
        try:
            assert client.create(**APP) == FILES
        finally:
            done.set()
        assert [list(call) for call in calls] == [[], []]


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


def test_health_and_reflection(tmp_path: Path) -> None:
    """Probes and tools such as grpcurl use these services."""
    with serving(plugin_on(), tmp_path) as client:
        check: Any = client.channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        for service in ("", PLUGIN_SERVICE):
            answer = check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        database = ProtoReflectionDescriptorDatabase(client.channel)
        assert PLUGIN_SERVICE in database.get_services()
        described = database.FindFileContainingSymbol(PLUGIN_SERVICE)
    assert "CreateContainer" in str(described)


def test_only_root_may_ask(tmp_path: Path) -> None:
    """The socket has mode 0600 from its creation on, and is removed at the end."""
    before = os.umask(0)
    try:
        with serving(plugin_on(), tmp_path):
            mode = os.stat(tmp_path / "plugin.sock").st_mode
    finally:
        os.umask(before)
    assert stat.S_IMODE(mode) == 0o600
    assert not (tmp_path / "plugin.sock").exists()


def test_the_socket_of_another_process_is_not_taken(tmp_path: Path) -> None:
    """A second process fails with an error that names the socket."""
    with serving(plugin_on(), tmp_path), pytest.raises(ConfigError, match="--grpc"):
        PluginService(plugin_on()).open(str(tmp_path / "plugin.sock"))


@pytest.mark.parametrize("address", ["/run/x.sock", "tcp://x", "unix://relative"])
def test_a_wrong_address_is_named(address: str) -> None:
    """One line and exit code 2."""
    done = subprocess.run(
        [sys.executable, "-m", "nriplugin", "run", "--grpc", address],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("nriplugin: --grpc: ")
    assert done.stderr.count("\n") == 1
