"""A daemon as on a node, without one: `nriplugin run` in a process of its own.

The runtime is the SDK's EmbeddedRuntime, and the cgroups are directories of ordinary
files. `LiveNode` plays kubelet, and writes the files as runc would.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple, Self

from nriplugin.api import nri_pb2 as nri
from nriplugin.convert import convert
from nriplugin.convert.readers import from_nri
from nriplugin.nri.testing.runtime import EmbeddedRuntime
from support.gopeers import ENVIRON
from support.harness import PATIENCE_S, PATIENT, wait_until
from support.jumping_clock import jumping_command
from support.trees import add_v2, make_v2

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CONFIG_FILE = "nriplugin.yaml"
CONTROL = "control.sock"


class LiveContainer(NamedTuple):
    """A container that the runtime knows, and its cgroup's directory."""

    pod: nri.PodSandbox
    container: nri.Container
    directory: Path


class LiveNode:
    """A runtime and a daemon within a `with` block."""

    def __init__(self, directory: Path, config: str = "{}\n") -> None:
        self.directory = directory
        self.cgroups = directory / "cgroup"
        self.address = f"unix://{directory / CONTROL}"
        self.config = directory / CONFIG_FILE
        self.config.write_text(config)
        (directory / "state").mkdir()
        make_v2(self.cgroups, ["/kubepods"])
        self.clock = directory / "clock"  # of the daemon (jumping_clock.py)
        self.runtime = EmbeddedRuntime(str(directory / "nri.sock"), PATIENT)
        self._process: subprocess.Popen[bytes] | None = None
        self._registrations = 0

    def __enter__(self) -> Self:
        self.runtime.start()
        self.start_daemon()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop_daemon()
        self.runtime.stop()

    def start_daemon(self, *options: str) -> None:
        """Start the daemon and wait until it is registered and serves its socket."""
        command = [
            *(sys.executable, "-m", "nriplugin", "run", "--http", "off"),
            *("--nri-socket", "nri.sock", "--config", CONFIG_FILE),
            *("--control", self.address, "--cgroup-root", self.cgroups.name),
            *options,
        ]
        with (self.directory / "daemon.log").open("ab") as log:
            self._process = subprocess.Popen(
                jumping_command(self.clock, command),
                stderr=log,
                cwd=self.directory,
                env=self._environ(),
            )
        self._registrations += 1
        self.runtime.wait_for_plugin(self._registrations, PATIENCE_S)
        wait_until(lambda: self.command("status", "--brief").returncode == 0)

    def stop_daemon(self) -> None:
        """End the daemon as systemd does."""
        if self._process is not None:
            self._process.terminate()
            assert self._process.wait(PATIENCE_S) == 0
            self._process = None

    def kill_daemon(self) -> None:
        """End the daemon with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE_S)
        self._process = None

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of nriplugin beside the daemon; its output is a pipe."""
        return subprocess.run(
            [sys.executable, "-m", "nriplugin", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            cwd=self.directory,
            env=self._environ(),
        )

    def create(
        self,
        namespace: str,
        pod: str,
        container: str,
        resources: nri.LinuxResources,
        *,
        qos: str = "burstable",
        annotations: Mapping[str, str] | None = None,
    ) -> LiveContainer:
        """Create and start a container in a pod of its own."""
        number = len(self.runtime.pods) + 1
        uid = f"7b0f0a2e-5d6c-4c1f-9c39-{number:012x}"
        parent = f"/kubepods/pod{uid}" if not qos else f"/kubepods/{qos}/pod{uid}"
        sandbox = nri.PodSandbox(
            id=f"{number:02x}" * 32,
            uid=uid,
            name=pod,
            namespace=namespace,
            annotations=annotations,
        )
        sandbox.linux.cgroup_parent = parent
        made = nri.Container(
            id=f"{number:02x}{number * 7:02x}" * 16,
            pod_sandbox_id=sandbox.id,
            name=container,
        )
        made.linux.cgroups_path = f"{parent}/{made.id}"
        made.linux.resources.CopyFrom(resources)
        if qos:
            add_v2(self.cgroups, f"/kubepods/{qos}")
        add_v2(self.cgroups, parent)
        self.runtime.run_pod_sandbox(sandbox)
        created = self.runtime.create_container(sandbox, made)
        add_v2(self.cgroups, made.linux.cgroups_path)
        directory = self.cgroups / made.linux.cgroups_path.strip("/")
        unified = created.adjust.linux.resources.unified
        write(directory, {**dict(convert(from_nri(resources)).files), **unified})
        self.runtime.start_container(sandbox, made)
        return LiveContainer(sandbox, made, directory)

    def _environ(self) -> dict[str, str]:
        environ = {k: v for k, v in ENVIRON.items() if k != "NRIPLUGIN_CGROUP_VERSION"}
        return environ | {
            "NRIPLUGIN_CONTROL": self.address,
            "NRIPLUGIN_STATE_DIR": str(self.directory / "state"),
        }


def write(directory: Path, files: Mapping[str, str]) -> None:
    """Write cgroup files, as a runtime or another program does."""
    for name, value in files.items():
        (directory / name).write_text(f"{value}\n")


def resources(
    shares: int, quota_us: int = 0, memory_mib: int = 0
) -> nri.LinuxResources:
    """Return the numbers that kubelet sends."""
    result = nri.LinuxResources()
    result.cpu.shares.value = shares
    result.cpu.period.value = 100_000
    if quota_us:
        result.cpu.quota.value = quota_us
    if memory_mib:
        result.memory.limit.value = memory_mib << 20
    return result
