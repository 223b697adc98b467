"""The control API of real processes: `run` with a runtime, and `cri-proxy`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from daemon.control_clients import ControlClient
from doors.cri.fakes import Client, FakeRuntime
from doors.nri.messages import container_at, pod_at
from support.harness import PATIENCE_S, PATIENT, wait_until
from support.trees import QOS, make_v2

from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def daemon(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of nriplugin on a tree of plain files; it ends with SIGTERM."""
    root = tmp_path / "cgroup"
    if not root.exists():
        make_v2(root, ("/", "/kubepods", QOS))
    command = [sys.executable, "-m", "nriplugin", *arguments]
    command += ["--http", "off", "--cgroup-root", str(root)]
    with (tmp_path / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield process
        assert process.poll() is None, (tmp_path / "log").read_text()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()


@contextmanager
def running(tmp_path: Path, *options: str) -> Iterator[tuple[EmbeddedRuntime, int]]:
    """`nriplugin run`, registered with an embedded runtime."""
    socket = str(tmp_path / "nri.sock")
    with EmbeddedRuntime(socket, PATIENT) as runtime:
        arguments = ("run", "--nri-socket", socket, *options)
        with daemon(tmp_path, *arguments) as process:
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            yield runtime, process.pid


def has_grpc(pid: int) -> bool:
    return "cygrpc" in Path(f"/proc/{pid}/maps").read_text()


def test_run_with_a_runtime(tmp_path: Path) -> None:
    """Decisions of a real process are seen, counted and explained."""
    config = tmp_path / "config.yaml"
    config.write_text("curve: kep")
    path = str(tmp_path / "run" / "control.sock")
    options = ("--control", f"unix://{path}", "--config", str(config))
    with running(tmp_path, *options) as (runtime, pid), ControlClient(path) as client:
        events = client.watch()
        runtime.run_pod_sandbox(pod_at())
        runtime.create_container(pod_at(), container_at())
        created = next(event for event in events if event.kind == "created")
        assert (created.pod, created.files["cpu.weight"]) == ("web", "20")
        found = client.status()
        assert (found.pid, found.ready, found.containers.managed) == (pid, True, 1)
        (one,) = client.why("shop/web").containers
        assert one.state == "managed"
        config.write_text("curve: quadratic")
        assert client.reload().applied
        created = next(event for event in events if event.kind == "reloaded")
        assert has_grpc(pid)
    assert not os.path.exists(path)


def test_off_keeps_grpc_out_of_the_process(tmp_path: Path) -> None:
    """Its memory and its threads are for those who use them."""
    with running(tmp_path, "--control", "off") as (runtime, pid):
        runtime.run_pod_sandbox(pod_at())
        adjusted = runtime.create_container(pod_at(), container_at()).adjust
        assert adjusted.linux.resources.unified["cpu.weight"] == "59"
        assert not has_grpc(pid)


def test_the_cri_proxy_has_the_same_api(tmp_path: Path) -> None:
    """With another door, and without NRI's service."""
    fake = FakeRuntime(str(tmp_path / "runtime.sock"))
    fake.start()
    path, listen = str(tmp_path / "control.sock"), str(tmp_path / "proxy.sock")
    options = ("--listen", f"unix://{listen}", "--runtime", f"unix://{fake.path}")
    try:
        with (
            daemon(tmp_path, "cri-proxy", *options, "--control", f"unix://{path}"),
            ControlClient(path) as client,
        ):
            wait_until(lambda: os.path.exists(listen))
            with Client(listen) as kubelet:
                kubelet.create(kubelet.run_pod(), cpu_shares=512)
            found = client.status("pod")
            assert (found.door, found.runtime.name) == ("cri", "fake")
            assert (found.ready, found.containers.managed) == (True, 1)
            (group,) = found.groups
            (one,) = client.why(group.name).containers
            weights = [file for file in one.files if file.file == "cpu.weight"]
            assert [(one.decided, one.native) for one in weights] == [("59", "59")]
    finally:
        fake.stop()


@pytest.mark.parametrize(
    "options",
    [
        ("--control", "/run/x.sock"),
        ("--control", "tcp://x"),
        ("--control-group", "no-such-group"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, options: tuple[str, str]) -> None:
    """One line and exit code 2."""
    root = tmp_path / "cgroup"
    make_v2(root)
    command = [sys.executable, "-m", "nriplugin", "run", *options]
    done = subprocess.run(
        [*command, "--cgroup-root", str(root)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"nriplugin: {options[0]}: ")
    assert done.stderr.count("\n") == 1


def test_killed_clients_leave_nothing_behind(tmp_path: Path) -> None:
    """Streams of clients that are gone end, and their descriptors are closed."""
    path = str(tmp_path / "control.sock")
    with (
        running(tmp_path, "--control", f"unix://{path}"),
        ControlClient(path) as client,
    ):
        before = client.status().process.open_files
        others = [ControlClient(path) for _ in range(10)]
        for other in others:
            other.watch()
        assert client.status().process.open_files > before
        for other in others:
            other.channel.close()
        wait_until(lambda: client.status().process.open_files <= before)
        with pytest.raises(grpc.RpcError):
            client.status("nonsense")
