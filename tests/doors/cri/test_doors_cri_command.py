"""`nriplugin cri-proxy` as a process, before a runtime that is played."""

from __future__ import annotations

import builtins
import os
import signal
import socket
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from doors.cri.fakes import Client, FakeRuntime, in_threads, rpc
from support.harness import PATIENCE_S, wait_until
from support.trees import QOS, make_v2

from nriplugin.api import cri_pb2 as cri
from nriplugin.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESOURCES: dict[str, Any] = {"cpu_shares": 512, "memory_limit_in_bytes": 1 << 27}
FILES = {"cpu.weight": "59", "memory.max": "134217728"}


class Process:
    """The command as a process, with its log."""

    def __init__(
        self,
        fake: FakeRuntime,
        tmp_path: Path,
        *options: str,
        name: str = "proxy",
        log: str = "proxy.log",
        alone: bool = True,
    ) -> None:
        self.path = str(tmp_path / f"{name}.sock")
        self.log = tmp_path / log
        argv = ["-m", "nriplugin", "cri-proxy", "--listen", f"unix://{self.path}"]
        argv += ["--runtime", f"unix://{fake.path}", "--read-only", *options]
        argv += ["--cgroup-root", str(tmp_path / "cgroup")]
        # Their default addresses would be those of other processes, too.
        argv += ["--control", "off", "--http", "off"]
        with self.log.open("ab") as output:
            before = self.log.stat().st_size
            self._process = subprocess.Popen(
                [sys.executable, *argv], stdout=output, stderr=output
            )
        self._before = before
        if alone:
            wait_until(self.settled)
            assert self.exit_code() is None, self.log.read_text()

    def settled(self) -> bool:
        """Whether the process serves, or has ended."""
        log = self.log.read_bytes()[self._before :]
        return b"serving" in log or self.exit_code() is not None

    def exit_code(self) -> int | None:
        return self._process.poll()

    def end(self, number: int = signal.SIGTERM) -> int:
        self._process.send_signal(number)
        return self._process.wait(PATIENCE_S)

    def has_logged(self, text: bytes) -> bool:
        return text in self.log.read_bytes()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)


@pytest.fixture
def cgroups(tmp_path: Path) -> None:
    """A cgroup v2 tree of plain files."""
    (tmp_path / "cgroup").mkdir()
    make_v2(tmp_path / "cgroup", ("/", "/kubepods", QOS))


@pytest.fixture
def process(fake: FakeRuntime, cgroups: None, tmp_path: Path) -> Iterator[Process]:
    running = Process(fake, tmp_path)
    yield running
    if running._process.poll() is None:
        running.end(signal.SIGKILL)


def grown(made: list[str], beyond: int) -> bool:
    return len(made) > beyond


def unified(fake: FakeRuntime) -> list[dict[str, str]]:
    kind = cri.CreateContainerRequest
    requests = fake.requests(rpc("CreateContainer"), kind)
    return [dict(one.config.linux.resources.unified) for one in requests]


def test_it_serves_until_sigterm(process: Process, fake: FakeRuntime) -> None:
    """Only root may connect, and the socket is removed at the end."""
    assert os.stat(process.path).st_mode & 0o777 == 0o600
    with Client(process.path) as kubelet:
        kubelet.create(kubelet.run_pod(), **RESOURCES)
    assert unified(fake) == [FILES]
    assert process.end() == 0
    assert not os.path.exists(process.path)
    log = process.log.read_text()
    assert f"serving unix://{process.path} for the runtime at unix://{fake.path}" in log
    assert "runtime: fake 1.2.3, 0 pods, 0 containers\n" in log
    assert "curve: quadratic (no container to learn from" in log
    assert "Traceback" not in log


def test_an_open_stream_does_not_delay_its_end(
    process: Process, fake: FakeRuntime
) -> None:
    """kubelet's event stream never ends by itself, so the proxy cancels it."""
    release = threading.Event()

    def stream(requests: Any, context: Any) -> Iterator[bytes]:
        yield b"1"
        release.wait(PATIENCE_S)

    fake.streams[rpc("GetContainerEvents")] = stream
    with Client(process.path) as kubelet:
        start: Any = kubelet.channel.unary_stream(rpc("GetContainerEvents"))
        call = start(b"")
        assert next(call) == b"1"
        assert process.end() == 0
        release.set()
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_the_mode_of_the_socket(
    fake: FakeRuntime, cgroups: None, tmp_path: Path
) -> None:
    """The socket has the mode of --socket-mode under any umask."""
    running = Process(fake, tmp_path, "--socket-mode", "0660")
    assert os.stat(running.path).st_mode & 0o777 == 0o660
    running.end()


def test_a_second_one_does_not_take_the_socket(
    process: Process, fake: FakeRuntime, capfd: pytest.CaptureFixture[str]
) -> None:
    """gRPC alone would replace the socket of the first process silently."""
    argv = ["--listen", f"unix://{process.path}", "--runtime", f"unix://{fake.path}"]
    assert main(["cri-proxy", *argv]) == 2
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.endswith("another process serves it, expected one that is free")
    with Client(process.path) as kubelet:
        assert kubelet.raw(rpc("Status"), b"x") == b"echo:x"


def test_of_several_that_start_at_once_one_serves(
    fake: FakeRuntime, cgroups: None, tmp_path: Path
) -> None:
    """Exactly one process serves, also if the runtime answers slowly."""
    release = threading.Event()
    version = fake.answers[rpc("Version")]

    def slow(request: bytes, context: Any) -> bytes:
        release.wait(PATIENCE_S)
        return version(request, context)

    fake.answers[rpc("Version")] = slow
    started = [
        Process(fake, tmp_path, log=f"{number}.log", alone=False) for number in range(3)
    ]
    try:
        wait_until(lambda: all(one.settled() for one in started))
        release.set()
        (serves,) = [one for one in started if one.exit_code() is None]
        with Client(serves.path) as kubelet:
            assert kubelet.raw(rpc("Status"), b"x") == b"echo:x"
        for other in started:
            if other is not serves:
                assert other.exit_code() == 2
                last = other.log.read_text().splitlines()[-1]
                assert last.startswith(f"nriplugin: --listen: {serves.path}: another")
        assert serves.end() == 0
    finally:
        release.set()
        for one in started:
            if one.exit_code() is None:
                one.end(signal.SIGKILL)


def test_an_address_means_the_same_file_to_all(
    cgroups: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """gRPC, kubelet and the check for a free socket decode an address alike."""
    runtime = FakeRuntime(str(tmp_path / "r%2541.sock"))
    runtime.start()
    process = Process(
        runtime, tmp_path, "--runtime", f"unix://{tmp_path}/r%2541.sock", name="p%41%ff"
    )
    try:
        path = os.fsencode(tmp_path) + b"/pA\xff.sock"
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        with Client(f"{tmp_path}/pA%ff.sock") as kubelet:
            assert kubelet.raw(rpc("Status"), b"x") == b"echo:x"
        argv = ["--listen", f"unix://{tmp_path}/%70A%ff.sock"]
        argv += ["--runtime", f"unix://{tmp_path}/r%2541.sock"]
        assert main(["cri-proxy", *argv]) == 2
        assert "another process serves it" in capfd.readouterr().err
        argv[1] = f"unix://{tmp_path}/%72%2541.sock"
        assert main(["cri-proxy", *argv]) == 2
        assert "expected another than --runtime" in capfd.readouterr().err
        assert process.end() == 0
        assert not os.path.lexists(path)
    finally:
        if process.exit_code() is None:
            process.end(signal.SIGKILL)
        runtime.stop()


def test_killed_and_started_again_under_load(
    process: Process, fake: FakeRuntime, tmp_path: Path
) -> None:
    """Each creation either failed or was done completely, and none is lost."""
    with Client(process.path) as kubelet:
        sandbox_id = kubelet.run_pod()
    stop = threading.Event()
    made: list[str] = []
    errors: list[grpc.StatusCode] = []

    def load(number: int) -> None:
        # Each thread has its own connection: `kubelet`'s waits between its attempts.
        with Client(str(tmp_path / "proxy.sock")) as client:
            while not stop.is_set():
                try:
                    made.append(client.create(sandbox_id, **RESOURCES))
                except grpc.RpcError as exc:
                    errors.append(exc.code())
                    stop.wait(0.01)

    loaders = [threading.Thread(target=load, args=(one,)) for one in range(4)]
    for thread in loaders:
        thread.start()
    try:
        for _ in range(2):
            wait_until(partial(grown, made, len(made) + 10))
            process.end(signal.SIGKILL)
            process = Process(fake, tmp_path)
        wait_until(partial(grown, made, len(made) + 10))
    finally:
        stop.set()
        for thread in loaders:
            thread.join(PATIENCE_S)
    assert set(errors) <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    assert set(made) <= set(fake.containers)
    assert unified(fake) == [FILES] * len(unified(fake))
    with Client(process.path) as kubelet:
        for one in (made[0], made[-1]):
            kubelet.update(one, cpu_shares=1024)
    kind = cri.UpdateContainerResourcesRequest
    updates = fake.requests(rpc("UpdateContainerResources"), kind)
    assert [dict(one.linux.unified) for one in updates] == [{"cpu.weight": "100"}] * 2
    process.end()


def test_many_creations_at_once(process: Process, fake: FakeRuntime) -> None:
    """Each container gets its own files."""
    with Client(process.path) as kubelet:
        sandbox_id = kubelet.run_pod()
        made = in_threads(
            30,
            lambda number: kubelet.create(
                sandbox_id, memory_limit_in_bytes=(number + 1) << 20
            ),
        )
    assert all(isinstance(one, str) for one in made), made
    assert {
        one: made_of.config.linux.resources.unified["memory.max"]
        for one, made_of in fake.containers.items()
    } == {one: str((number + 1) << 20) for number, one in enumerate(made)}


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00" * 10_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 10_000,
        os.urandom(100_000),
    ],
    ids=["http1", "zeros", "http2", "random"],
)
def test_garbage_on_the_socket(process: Process, garbage: bytes) -> None:
    """Other clients are served as before, and the log has no traceback."""
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(process.path)
            try:
                client.sendall(garbage)
            except OSError:
                continue  # it has seen enough
    with Client(process.path) as kubelet:
        assert kubelet.raw(rpc("Status"), b"x") == b"echo:x"
    assert "Traceback" not in process.log.read_text()


def test_a_configuration_that_changes(
    fake: FakeRuntime, cgroups: None, tmp_path: Path
) -> None:
    """SIGHUP applies a valid file; an invalid one changes nothing."""
    config = tmp_path / "config.yaml"
    config.write_text("curve: kep\n")
    running = Process(fake, tmp_path, "--config", str(config))
    with Client(running.path) as kubelet:
        sandbox_id = kubelet.run_pod()
        kubelet.create(sandbox_id, cpu_shares=1024)
        for text, expected in (
            ("curve: proportional\n", b"is in force"),
            ("curve: straight\n", b"the old one stays in force"),
        ):
            config.write_text(text)
            running.signal(signal.SIGHUP)
            wait_until(partial(running.has_logged, expected))
            kubelet.create(sandbox_id, cpu_shares=1024)
    assert [one["cpu.weight"] for one in unified(fake)] == ["39", "100", "100"]
    assert running.end() == 0


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--listen", "/a", "--runtime", "unix:///b"], "--listen: '/a', expected unix"),
        (["--listen", "unix:///a", "--runtime", "b"], "--runtime: 'b', expected unix"),
        (
            ["--listen", "unix:///a", "--runtime", "unix:///a"],
            "expected another than --runtime",
        ),
        (
            ["--listen", "unix:///a", "--runtime", "unix:///b", "--socket-mode", "x"],
            "--socket-mode: 'x', expected octal",
        ),
        (
            ["--listen", "unix:///no/a.sock", "--runtime", "unix:///b"],
            "--listen: /no/a.sock, expected a directory that is there",
        ),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    argv: list[str], expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The last line on standard error names the mistake."""
    assert main(["cri-proxy", *argv]) == 2
    assert expected in capfd.readouterr().err.splitlines()[-1]


def test_without_grpcio_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """grpcio is an optional dependency."""
    real = builtins.__import__

    def without_grpc(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("grpc"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_grpc)
    argv = ["--listen", "unix:///run/a.sock", "--runtime", "unix:///run/b.sock"]
    assert main(["cri-proxy", *argv]) == 2
    assert "expected nriplugin[cri]" in capsys.readouterr().err
