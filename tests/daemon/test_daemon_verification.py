"""`nriplugin run` as a process compares files by default, and honours `--shadow`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doors.nri.messages import container_at, pod_at
from support.gopeers import Child, nriplugin_command
from support.harness import PATIENCE_S, PATIENT, wait_until
from support.trees import make_v2

from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from pathlib import Path


def command(tmp_path: Path, socket: str, *options: str) -> list[str]:
    make_v2(tmp_path / "cgroup")
    root = ("--cgroup-root", str(tmp_path / "cgroup"))
    off = ("--read-only", "--control", "off", "--http", "off")
    return list(nriplugin_command(socket, *root, *off, *options))


def test_without_a_configuration_drift_is_found(tmp_path: Path) -> None:
    """The runtime of this test writes nothing, so every file has another value."""
    path, log = str(tmp_path / "nri.sock"), tmp_path / "log"
    with (
        EmbeddedRuntime(path, PATIENT) as runtime,
        log.open("w") as output,
        Child(*command(tmp_path, path), log=output),
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        pod, app = pod_at(), container_at()
        runtime.create_container(pod, app)
        runtime.start_container(pod, app)
        wait_until(lambda: "drift: shop/web/app" in log.read_text())
    text = log.read_text()
    assert "memory.max holds 'max', decided was '1073741824'" in text
    assert "the runtime did not write it" in text


def test_shadow_sends_nothing(tmp_path: Path) -> None:
    """The container is created as it would be without nriplugin."""
    path = str(tmp_path / "nri.sock")
    with (
        EmbeddedRuntime(path, PATIENT) as runtime,
        Child(*command(tmp_path, path, "--shadow")),
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        created = runtime.create_container(pod_at(), container_at())
        assert not created.adjust.ByteSize()
