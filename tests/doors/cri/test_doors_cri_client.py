"""The CRI client against a real gRPC server that plays the runtime."""

from __future__ import annotations

import builtins
import subprocess
import sys
import threading
from concurrent import futures
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from support.harness import wait_until

from nriplugin.api import cri_pb2
from nriplugin.cgroup.guest import GuestFiles
from nriplugin.doors.cri.client import SERVICE, RuntimeClient
from nriplugin.errors import CgroupError, ConfigError, RPCError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNNING = cri_pb2.CONTAINER_RUNNING


class FakeRuntime:
    """Lists containers, and runs commands in this process instead of in them."""

    def __init__(self, path: str) -> None:
        self.containers = [
            ("c1", "s1", "app", RUNNING),
            ("c2", "s1", "init", cri_pb2.CONTAINER_EXITED),
            ("c3", "s2", "other", RUNNING),
        ]
        self.requests: list[cri_pb2.ExecSyncRequest] = []
        self.hanging = threading.Event()
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "ListContainers": grpc.unary_unary_rpc_method_handler(
                self.list_containers,
                cri_pb2.ListContainersRequest.FromString,
                cri_pb2.ListContainersResponse.SerializeToString,
            ),
            "ExecSync": grpc.unary_unary_rpc_method_handler(
                self.exec_sync,
                cri_pb2.ExecSyncRequest.FromString,
                cri_pb2.ExecSyncResponse.SerializeToString,
            ),
        }
        handler = grpc.method_handlers_generic_handler(SERVICE, handlers)
        self._server.add_generic_rpc_handlers((handler,))
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def stop(self) -> None:
        self.hanging.set()
        self._server.stop(None).wait()

    def list_containers(
        self, request: cri_pb2.ListContainersRequest, context: grpc.ServicerContext
    ) -> cri_pb2.ListContainersResponse:
        return cri_pb2.ListContainersResponse(
            containers=[
                cri_pb2.Container(
                    id=identity,
                    pod_sandbox_id=sandbox,
                    metadata=cri_pb2.ContainerMetadata(name=name),
                    state=state,
                )
                for identity, sandbox, name, state in self.containers
            ]
        )

    def exec_sync(
        self, request: cri_pb2.ExecSyncRequest, context: grpc.ServicerContext
    ) -> cri_pb2.ExecSyncResponse:
        self.requests.append(request)
        if request.container_id == "hangs":
            self.hanging.wait()
        if request.container_id not in {one[0] for one in self.containers}:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such\ncontainer")
        done = subprocess.run(list(request.cmd), capture_output=True, check=False)
        return cri_pb2.ExecSyncResponse(
            exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr
        )


@pytest.fixture
def socket_path(tmp_path: Path) -> str:
    return str(tmp_path / "cri.sock")


@pytest.fixture
def runtime(socket_path: str) -> Iterator[FakeRuntime]:
    running = FakeRuntime(socket_path)
    yield running
    running.stop()


@pytest.fixture
def client(runtime: FakeRuntime, socket_path: str) -> Iterator[RuntimeClient]:
    with RuntimeClient(socket_path) as connected:
        yield connected


def test_the_containers_that_have_not_ended(client: RuntimeClient) -> None:
    """Of every pod, those that were created or run."""
    assert [one.id for one in client.live_containers()] == ["c1", "c3"]


def test_a_command_is_run_with_its_arguments(
    client: RuntimeClient, runtime: FakeRuntime
) -> None:
    """Exit code and both outputs come back as bytes; the request has a timeout."""
    argv = ["sh", "-c", 'printf "%s\\377" "$1"; echo no >&2; exit 3', "sh", "a' $(b)\n"]
    assert client.exec_sync("c1", argv) == (3, b"a' $(b)\n\xff", b"no\n")
    (request,) = runtime.requests
    assert list(request.cmd) == argv
    assert request.timeout > 0


def test_a_guests_files_through_the_runtime(
    client: RuntimeClient, tmp_path: Path
) -> None:
    """GuestFiles reads a container's file by a command that runs over gRPC."""
    (tmp_path / "guest" / "pod 1").mkdir(parents=True)
    (tmp_path / "guest" / "pod 1" / "cpu.max").write_text("max 100000\n")
    files = GuestFiles(partial(client.exec_sync, "c1"), str(tmp_path / "guest"))
    assert files.children("/") == ["pod 1"]
    assert files.read("/pod 1/cpu.max") == "max 100000\n"
    files.write("/pod 1/cpu.max", "50000 100000")
    assert files.read("/pod 1/cpu.max") == "50000 100000"
    gone = GuestFiles(partial(client.exec_sync, "c9"), str(tmp_path / "guest"))
    with pytest.raises(CgroupError, match="cannot be asked: ExecSync: no such cont"):
        gone.read("/pod 1/cpu.max")


def test_an_error_status_is_an_error_in_one_line(client: RuntimeClient) -> None:
    """The error has the runtime's status code and text."""
    with pytest.raises(RPCError, match=r"^ExecSync: no such container \(code 5\)$"):
        client.exec_sync("c9", ["true"])


def test_a_runtime_that_is_not_there_yet(socket_path: str) -> None:
    """A call fails at once, and the same client works when the runtime is up."""
    with RuntimeClient(socket_path) as client:
        with pytest.raises(RPCError, match=r"^ListContainers: .*\(code 14\)$"):
            client.live_containers()
        runtime = FakeRuntime(socket_path)

        def answers() -> bool:
            try:
                return bool(client.live_containers())
            except RPCError:
                return False

        wait_until(answers)
        runtime.stop()


def test_a_runtime_that_hangs_is_given_up(
    runtime: FakeRuntime, socket_path: str
) -> None:
    """The client waits a little longer than the command's own timeout."""
    with RuntimeClient(socket_path, timeout_s=1) as client:
        with pytest.raises(TimeoutError, match="ExecSync"):
            client.exec_sync("hangs", ["true"])
        files = GuestFiles(partial(client.exec_sync, "hangs"))
        with pytest.raises(CgroupError, match="in time"):
            files.read("/x")


@pytest.mark.parametrize(
    "path", ["", "run/cri.sock", "unix:///run/cri.sock", "tcp://h"]
)
def test_a_socket_is_an_absolute_path(path: str) -> None:
    """The error names the path."""
    with pytest.raises(ConfigError, match=r"CRI socket: .*, expected an absolute path"):
        RuntimeClient(path)


def test_without_grpcio_the_user_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names the extra that brings grpcio."""
    real = builtins.__import__

    def without_grpc(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "grpc":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_grpc)
    with pytest.raises(ConfigError, match=r"expected nriplugin\[cri\]"):
        RuntimeClient("/run/cri.sock")


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("nriplugin.doors.cri.client", ["grpc", "google.protobuf"]),
        ("nriplugin.cgroup.systemd.units", ["jeepney"]),
        ("nriplugin.cgroup.tasks.states", ["pyroute2"]),
        ("nriplugin.cgroup.guest", ["grpc", "subprocess"]),
    ],
)
def test_importing_costs_little(module: str, heavy: list[str]) -> None:
    """Importing the module does not import its heavy dependencies."""
    code = f"import sys, {module}; print(*(m for m in {heavy} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
