"""Explain, Reload, Restore and Withdraw over the control API."""

from __future__ import annotations

import json
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
from cgroup.kernels import Kernel
from daemon.control_clients import SERVICE, ControlClient, controlled, daemon_of
from doors.nri.messages import container_at, creation, pod_at, seen
from doors.nri.nodes import FACTS, Node, configure, plugin_on
from support.trees import POD

from nriplugin.api import control_pb2 as control
from nriplugin.api import view_pb2 as view
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cli.main import main
from nriplugin.config import parse_config
from nriplugin.daemon import control_service
from nriplugin.daemon.config_watch import ConfigWatch
from nriplugin.daemon.control_service import serving_control
from nriplugin.errors import ConfigError
from nriplugin.explain import TYPICAL_NODE
from nriplugin.kube import manifests
from nriplugin.node.direct_writes import DirectWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.daemon.process import DaemonProcess

BURST = f"{POD}/cpu.max.burst"
MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec:
  containers:
  - name: app
    resources: {requests: {cpu: 500m}, limits: {cpu: 1, memory: 1Gi}}
"""


def details(raised: pytest.ExceptionInfo[grpc.RpcError]) -> str:
    return f"{raised.value.code().name}: {raised.value.details()}"


# Explain


def test_explain_is_that_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same document, by the configuration and the facts in force."""
    (tmp_path / "pod.yaml").write_text(MANIFEST)
    (tmp_path / "config.yaml").write_text("curve: kep")
    plugin = plugin_on(TYPICAL_NODE)
    configure(plugin, "curve: kep")
    with controlled(daemon_of(plugin.lifecycle), tmp_path) as client:
        found = client.explain(MANIFEST)
    arguments = ["explain", str(tmp_path / "pod.yaml"), "--json"]
    assert main([*arguments, "--config", str(tmp_path / "config.yaml")]) == 0
    assert found == capsys.readouterr().out.rstrip("\n")
    assert json.loads(found)["pods"][0]["containers"][0]["files"][0]["value"] == "20"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ("{", "manifest: line 2, column 1: not YAML"),
        ("kind: Pod", "manifest: "),
        (MANIFEST.replace("500m", "many"), "manifest: "),
        ("x" * 65537, "manifest: 65537 characters, expected at most 65536"),
        ("[" * 30000, "manifest: line 1: too much, expected at most 100 nested"),
    ],
)
def test_a_wrong_manifest(manifest: str, expected: str, tmp_path: Path) -> None:
    """One line with the place, and INVALID_ARGUMENT."""
    with (
        controlled(daemon_of(plugin_on().lifecycle), tmp_path) as client,
        pytest.raises(grpc.RpcError) as raised,
    ):
        client.explain(manifest)
    assert details(raised).startswith(f"INVALID_ARGUMENT: {expected}")
    assert "\n" not in details(raised)


def test_one_manifest_is_explained_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second call is refused while the first one takes memory."""
    with controlled(daemon_of(plugin_on(TYPICAL_NODE).lifecycle), tmp_path) as client:
        refused = []

        def read_manifests(documents: list[object]) -> None:
            with pytest.raises(grpc.RpcError) as raised:
                client.explain(MANIFEST)
            refused.append(details(raised))
            raise ConfigError("the first one")

        with monkeypatch.context() as patch:
            patch.setattr(manifests, "read_manifests", read_manifests)
            with pytest.raises(grpc.RpcError) as raised:
                client.explain(MANIFEST)
        assert details(raised) == "INVALID_ARGUMENT: manifest: the first one"
        assert refused == [
            "RESOURCE_EXHAUSTED: another manifest is being explained, expected one at "
            "a time"
        ]
        assert client.explain(MANIFEST)


# Reload


@contextmanager
def with_file(tmp_path: Path, text: str) -> Iterator[tuple[ControlClient, Path, Node]]:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    node = Node("{}")
    process = daemon_of(node.plugin.lifecycle, config_path=str(file))
    watch = ConfigWatch(
        *(str(file), parse_config, node.plugin.apply), status=process.config
    )
    process.config_watch = watch
    node.plugin.apply(watch.initial())
    with controlled(process, tmp_path) as client:
        yield client, file, node


def test_reload_answers_with_the_outcome(tmp_path: Path) -> None:
    """A valid text is in force at once; a wrong one is named, and the old one stays."""
    with with_file(tmp_path, "curve: kep") as (client, file, node):
        first = client.status().configuration
        assert (first.path, first.reloads, first.error) == (str(file), 0, "")
        file.write_text("curve: proportional")
        answer = client.reload()
        assert (answer.applied, answer.error) == (True, "")
        assert answer.configuration.reloads == 1
        assert answer.configuration.hash not in ("", first.hash)
        assert client.status().node.curve == "proportional"
        file.write_text("curve: no-such")
        answer = client.reload()
        assert not answer.applied
        assert "curve" in answer.error
        assert answer.configuration.failures == 1
        assert answer.configuration.failed_at > 0
        assert client.status().node.curve == "proportional"
        kinds = [event.kind.value for event in node.plugin.lifecycle.events.since(0)[0]]
    assert kinds == ["reloaded", "rejected"]


def test_without_a_file_there_is_nothing_to_reload(tmp_path: Path) -> None:
    """FAILED_PRECONDITION, in one line."""
    with (
        controlled(daemon_of(plugin_on().lifecycle), tmp_path) as client,
        pytest.raises(grpc.RpcError) as raised,
    ):
        client.reload()
    assert details(raised).startswith("FAILED_PRECONDITION: no configuration file")


# Restore and Withdraw


def test_restore_puts_direct_writes_back(tmp_path: Path) -> None:
    """A dry run only says so; then the originals are back, and nothing is left."""
    kernel = Kernel(2)
    kernel.files[f"{POD}/cpu.max"] = "400000 100000"

    def open_writer() -> DirectWriter:
        journal = Journal(str(tmp_path / "state"))
        executor = Executor(kernel.tree, journal=journal, refresh_s=0.0)
        return DirectWriter(kernel.tree, executor, journal)

    plugin = plugin_on(FACTS, kernel.tree, open_writer=open_writer)
    configure(plugin, "cpuBurst: {enabled: true, percent: 50}")
    with closing(plugin):
        plugin.create_container(creation(pod_at(), container_at()))
        plugin.start_container(b"", seen(view.Container, container_at()))
        assert kernel.files[BURST] == "50000"
        with controlled(daemon_of(plugin.lifecycle), tmp_path) as client:
            dry = client.restore(dry_run=True)
            assert {one.status for one in dry.files} == {"would be restored"}
            assert kernel.files[BURST] == "50000"
            done = client.restore()
            assert {one.status for one in done.files} == {"restored"}
            (burst,) = done.files
            assert (f"{burst.cgroup}/{burst.file}", burst.value) == (BURST, "0")
            assert kernel.files[BURST] == "0"
            assert not client.restore().files


def test_without_direct_writes_nothing_is_restored(tmp_path: Path) -> None:
    """The runtime's own values are the runtime's."""
    node = Node("{}")
    node.create(container_at())
    with controlled(daemon_of(node.plugin.lifecycle), tmp_path) as client:
        assert not client.restore().files


def test_withdraw_is_passed_on(tmp_path: Path) -> None:
    """daemon/withdrawal.py does it; a dry run changes nothing."""
    process = daemon_of(plugin_on().lifecycle)
    with controlled(process, tmp_path) as client:
        for dry_run in (True, False):
            request = control.WithdrawRequest(dry_run=dry_run)
            client.call(f"/{SERVICE}/Withdraw", request, control.WithdrawResponse)
            assert process.withdrawn is not dry_run


# A service that cannot be on


@pytest.fixture
def process() -> DaemonProcess:
    return daemon_of(plugin_on().lifecycle)


def test_without_grpcio_the_daemon_serves_all_the_same(
    process: DaemonProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """One warning, unless the user asked for the control API."""
    monkeypatch.setitem(sys.modules, "nriplugin.daemon.control.server", None)
    default = f"unix://{tmp_path}/run/control.sock"
    monkeypatch.setattr(control_service, "DEFAULT_CONTROL", default)
    with serving_control(process, None):
        pass
    (record,) = caplog.records
    assert record.getMessage() == (
        "the control API is off: --control: grpcio is not installed, "
        "expected nriplugin[grpc]"
    )
    with pytest.raises(ConfigError, match="grpcio is not installed"):
        control_service._listener(process, default, None)


def test_a_default_directory_that_cannot_be_made(
    process: DaemonProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As for a user other than root: one warning, and the daemon serves."""
    monkeypatch.setattr(control_service, "DEFAULT_CONTROL", "unix:///dev/null/c.sock")
    with serving_control(process, None):
        pass
    (record,) = caplog.records
    assert "the control API is off: --control: /dev/null" in record.getMessage()


def test_the_default_directory_is_made(
    process: DaemonProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With everyone allowed to enter: the socket itself is protected."""
    directory = tmp_path / "run" / "nriplugin"
    address = f"unix://{directory}/control.sock"
    monkeypatch.setattr(control_service, "DEFAULT_CONTROL", address)
    with (
        serving_control(process, None),
        ControlClient(f"{directory}/control.sock") as client,
    ):
        assert client.status().version
        assert directory.stat().st_mode & 0o777 == 0o755


def test_a_defect_does_not_keep_the_daemon_from_serving(
    process: DaemonProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    """Whatever goes wrong here, containers matter more."""

    def broken(*arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(control_service, "_listener", broken)
    with serving_control(process, f"unix://{tmp_path}/control.sock"):
        pass
    assert "the control API is off" in caplog.text
