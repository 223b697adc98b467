"""Fake hosts for `nriplugin doctor`: directories with the files of a node."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from nriplugin.api import control_pb2, cri_pb2
from nriplugin.cgroup.locate.detect import detect_node
from nriplugin.daemon.doctor import answers
from nriplugin.daemon.doctor.host import ExaminedHost, HostOptions
from nriplugin.kube import kubelet_config
from nriplugin.sockets import target_of
from support.harness import PATIENCE_S
from support.trees import make

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding

    Check = Callable[[ExaminedHost], Iterator[CheckFinding]]

ALL_CONTROLLERS = "cpuset cpu io memory hugetlb pids\n"
IN_A_POD = "0::/kubepods/besteffort/pod7b0f0a2e-5d6c-4c1f-9c39-1f5a2a0f4b11/abc\n"


class FakeHost:
    """A node made of plain files; `root` is its `/`."""

    def __init__(self, directory: Path, version: int = 2) -> None:
        self.directory = directory
        self.root = directory / "host"
        self.cgroups = self.root / "sys/fs/cgroup"
        self.cgroups.parent.mkdir(parents=True)
        make(version, self.cgroups)
        if version == 2:
            self.write("/sys/fs/cgroup/cgroup.subtree_control", ALL_CONTROLLERS)
        self.state = directory / "state"
        self.state.mkdir()
        self.nri_socket = str(directory / "nri.sock")
        self.control = str(directory / "control.sock")
        self.write("/proc/swaps", "Filename Type Size Used Priority\n")
        self.config: str | None = None

    def write(self, path: str, text: str) -> Path:
        """Write a file of the host."""
        file = self.root / path.strip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def executable(self, path: str) -> None:
        """Write a program of the host."""
        self.write(path, "#!/bin/sh\n").chmod(0o755)

    def process(
        self, pid: int, command: str, cgroup: str = "0::/system.slice\n", **environ: str
    ) -> None:
        """Add a process with this command line."""
        words = command.split()
        self.write(f"/proc/{pid}/cmdline", "\0".join(words) + "\0")
        self.write(f"/proc/{pid}/cgroup", cgroup)
        self.write(f"/proc/{pid}/status", "Name:\tx\nUid:\t0\t0\t0\t0\n")
        variables = [f"{name}={value}" for name, value in environ.items()]
        self.write(f"/proc/{pid}/environ", "\0".join(variables))
        program = self.root / f"proc/{pid}/exe"
        if not program.is_symlink():
            program.symlink_to(words[0])

    def kubelet(self, config: str) -> None:
        """Write kubelet's configuration."""
        self.write("/var/lib/kubelet/config.yaml", config)

    def arguments(self) -> list[str]:
        """Return the options of `nriplugin doctor` for this host."""
        given = [
            *("--host-root", str(self.root), "--cgroup-root", str(self.cgroups)),
            *("--nri-socket", self.nri_socket, "--control", f"unix://{self.control}"),
            *("--state-dir", str(self.state)),
        ]
        return given if self.config is None else [*given, "--config", self.config]

    def examined(self) -> ExaminedHost:
        """Return the host as the checks see it, with nothing found out yet."""
        node = detect_node(
            {}, str(self.root), str(self.cgroups), kubelet=kubelet_config
        )
        options = HostOptions(
            self.nri_socket, self.control, str(self.state), self.config
        )
        return ExaminedHost(node, options)

    def find(self, check: Check, name: str) -> list[tuple[str, str, str]]:
        """Return level, text and advice of the findings of one name."""
        return [
            (str(one.level), one.text, one.advice)
            for one in check(self.examined())
            if one.check == name
        ]

    def one(self, check: Check, name: str) -> tuple[str, str, str]:
        """Return the only finding of a name."""
        (found,) = self.find(check, name)
        return found

    @contextmanager
    def listening(self, path: str) -> Iterator[socket.socket]:
        """Listen on a unix socket, which may be on the host."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.bind(path)
            server.listen(8)
            yield server
        os.unlink(path)


@contextmanager
def answering(path: str, service: str, method: str, answer: Any) -> Iterator[None]:
    """Serve one method of a gRPC service, with always the same answer.

    An exception as the answer becomes the status INTERNAL.
    """

    def handle(_: bytes, context: grpc.ServicerContext) -> bytes:
        if isinstance(answer, Exception):
            context.abort(grpc.StatusCode.INTERNAL, str(answer))
        data: bytes = answer.SerializeToString()
        return data

    Path(path).parent.mkdir(parents=True, exist_ok=True)
    handlers: Any = {method: grpc.unary_unary_rpc_method_handler(handle)}
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, handlers),)
    )
    server.add_insecure_port(target_of(path))
    server.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            # Doctor's own second may be too short for an answer on a busy machine.
            patch.setattr(answers, "TIMEOUT_S", int(PATIENCE_S))
            yield
    finally:
        server.stop(None).wait()


def daemon_answering(path: str, **fields: Any) -> Any:
    """Serve Status as a daemon does, which is healthy unless the fields say else."""
    healthy = {"version": "0.0", "door": "nri", "pid": 77, "healthy": True}
    status = control_pb2.StatusResponse(**{**healthy, "ready": True, **fields})
    return answering(path, "nriplugin.control.v1.Control", "Status", status)


def runtime_answering(path: str, name: str, version: str) -> Any:
    """Serve CRI's Version as a runtime does."""
    answer = cri_pb2.VersionResponse(runtime_name=name, runtime_version=version)
    return answering(path, "runtime.v1.RuntimeService", "Version", answer)
