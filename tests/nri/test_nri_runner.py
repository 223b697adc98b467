from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from support.harness import (
    PATIENCE_S,
    PATIENT,
    Recorder,
    connected,
    container,
    pod,
    running,
)

from nriplugin.errors import ConfigError
from nriplugin.nri import Plugin, Runner
from nriplugin.nri.backoff import Backoff
from nriplugin.nri.launch import Launch, launch_from
from nriplugin.nri.runner import REMIND_S, Trouble
from nriplugin.nri.testing.runtime import EmbeddedRuntime
from nriplugin.stopping import stopping_on_signals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import FrameType

    from nriplugin.api import nri_pb2 as nri


def test_registers_when_the_socket_appears(tmp_path: Path) -> None:
    """The runtime may start after the plugin."""
    path = str(tmp_path / "nri.sock")
    plugin = Recorder()
    with running(plugin, path), EmbeddedRuntime(path, PATIENT) as runtime:
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)


def test_dials_again_after_a_restart_and_gets_all_state(tmp_path: Path) -> None:
    """The plugin registers exactly once for each start of the runtime."""
    plugin = Recorder()
    with connected(plugin, tmp_path) as (runtime, runner):
        runtime.run_pod_sandbox(pod())
        runtime.create_container(pod(), container())
        for restart in range(1, 6):
            runtime.stop()
            runtime.start()
            runtime.wait_for_plugin(restart + 1, timeout_s=PATIENCE_S)
            assert len(runtime.registrations) == restart + 1
        assert runner.stats.connections == 6
    assert plugin.synchronized == [([], [])] + [(["p1"], ["c1"])] * 5
    assert len(plugin.ends) == 6


def test_a_socket_nobody_listens_on_is_waited_for(tmp_path: Path) -> None:
    """The runner waits at a socket that a dead runtime left behind."""
    path = str(tmp_path / "nri.sock")
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(path)
    with running(Recorder(), path), EmbeddedRuntime(path, PATIENT) as runtime:
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)


def test_stops_while_waiting(tmp_path: Path) -> None:
    """`stop` ends a runner that waits to dial again."""
    with running(Recorder(), str(tmp_path / "absent")) as runner:
        runner.stop()


def test_a_socket_that_can_never_be_dialled_is_an_error(tmp_path: Path) -> None:
    """A directory or a path that is too long is an error: it will not pass."""
    path = str(tmp_path / ("x" * 200))
    with pytest.raises(OSError, match="too long"):
        Runner(Recorder(), Launch("test", "10", path, None)).run()


@pytest.mark.parametrize("name", ["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EINTR"])
def test_a_node_out_of_resources_is_waited_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner waits on a node that is out of descriptors or memory."""
    attempts: list[str] = []

    def connect(launch: Launch) -> socket.socket:
        attempts.append(name)
        if len(attempts) == 2:
            runner.stop()
        raise OSError(getattr(errno, name), name)

    monkeypatch.setattr(Launch, "connect", connect)
    runner = Runner(Recorder(), Launch("test", "10", "/somewhere", None))
    runner.run()
    assert len(attempts) == 2


def test_a_plugin_without_handlers_is_refused() -> None:
    """A plugin without handlers is refused: an empty mask means all events."""
    with pytest.raises(ConfigError, match="no handlers"):
        Runner(Plugin(), Launch("test", "10", "/nowhere", None))


def test_a_failing_disconnected_does_not_end_the_runner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If the plugin's `disconnected` fails, the next connection works."""

    class Clumsy(Recorder):
        def disconnected(self, reason: str) -> None:
            raise RuntimeError("clumsy")

    with connected(Clumsy(), tmp_path) as (runtime, _):
        runtime.stop()
        runtime.start()
        runtime.wait_for_plugin(2, timeout_s=PATIENCE_S)
    assert "clumsy" in caplog.text


class Picky(Recorder):
    def configure(self, request: nri.ConfigureRequest) -> None:
        raise ConfigError("field x: 'y', expected z")


def test_a_refused_configuration_ends_the_runner(tmp_path: Path) -> None:
    """A ConfigError of the plugin ends the runner; it does not dial again."""
    path = str(tmp_path / "nri.sock")
    with EmbeddedRuntime(path, PATIENT), pytest.raises(ConfigError, match="field x"):
        Runner(Picky(), Launch("test", "10", path, None)).run()


def test_stops_after_the_request_under_way(tmp_path: Path) -> None:
    """`stop` lets the request under way be answered."""
    entered, release = threading.Event(), threading.Event()

    class Slow(Recorder):
        def start_container(self, pod: object, container: object) -> None:
            entered.set()
            assert release.wait(PATIENCE_S)

    with connected(Slow(), tmp_path) as (runtime, runner):
        thread = threading.Thread(
            target=runtime.start_container, args=(pod(), container())
        )
        thread.start()
        assert entered.wait(PATIENCE_S)
        runner.stop()
        release.set()
        thread.join(PATIENCE_S)
        assert all("no answer" not in reason for reason in runtime.dropped)


def test_a_signal_stops_the_runner(tmp_path: Path) -> None:
    """SIGTERM ends `run` in the main thread, and the old signal handlers return."""
    before = signal.getsignal(signal.SIGTERM)
    path = str(tmp_path / "nri.sock")
    with EmbeddedRuntime(path, PATIENT) as runtime:
        runner = Runner(Recorder(), Launch("test", "10", path, None))

        def interrupt() -> None:
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with stopping_on_signals(runner.stop):
            runner.run()
        thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_may_come_at_any_step_of_the_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A signal ends the runner at any step, also while its thread takes a lock."""
    caplog.set_level(logging.ERROR)
    waits: list[None] = []

    def next_delay_s(backoff: Backoff, lived_s: float | None) -> float:
        waits.append(None)
        return 1e-4

    monkeypatch.setattr(Backoff, "next_delay_s", next_delay_s)
    launch = Launch("test", "10", str(tmp_path / "absent"), None)
    step = 0
    while len(waits) < 2:  # the signal came before the second sleep
        waits.clear()
        runner = Runner(Recorder(), launch)
        with stopping_on_signals(runner.stop), signalled_at(step):
            runner.run()
        step += 1


@contextmanager
def signalled_at(step: int) -> Iterator[None]:
    """Send SIGTERM to this thread at the given step of Python code."""
    left = step

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        if left == 0:
            signal.raise_signal(signal.SIGTERM)
        left -= 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


SCRIPT = """#!{python}
import os, sys
sys.path[:0] = {path!r}
from nriplugin.nri import Plugin, run
class Launched(Plugin):
    def configure(self, request):
        with open({out!r}, "w") as file:
            print(sorted(os.environ), request.config, file=file)
    def start_container(self, pod, container):
        pass
run(Launched())
"""


def test_a_launched_plugin_serves_on_descriptor_3(tmp_path: Path) -> None:
    """A launched plugin has three variables, and ends with its connection."""
    script, out = tmp_path / "20-launched", tmp_path / "out"
    script.write_text(
        SCRIPT.format(python=sys.executable, path=sys.path[1:], out=str(out))
    )
    script.chmod(0o755)
    runtime = EmbeddedRuntime(behaviour=replace(PATIENT, config="some: config"))
    pid = runtime.launch(str(script), name="launched", idx="20")
    link = runtime.wait_for_plugin(timeout_s=PATIENCE_S)
    assert (link.idx, link.name) == ("20", "launched")
    runtime.start_container(pod(), container())
    runtime.stop()
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    names, _, config = out.read_text().strip().partition("] ")
    assert names.count("NRI_PLUGIN_") == 3
    assert "PATH" not in names
    assert config == "some: config"


def test_name_and_index_default_and_come_from_the_runtime() -> None:
    """Arguments win over the environment, which wins over the defaults."""
    assert launch_from({}) == Launch("nriplugin", "99", "/var/run/nri/nri.sock", None)
    environ = {
        "NRI_PLUGIN_NAME": "theirs",
        "NRI_PLUGIN_IDX": "07",
        "NRI_PLUGIN_SOCKET": "3",
    }
    assert launch_from(environ) == Launch("theirs", "07", "", 3)
    mine = launch_from(environ, name="mine", idx="11", socket_path="/s")
    assert mine == Launch("mine", "11", "/s", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"idx": "5"}, "idx: '5', expected two digits"),
        ({"idx": "٣٤"}, "expected two digits"),
        ({"idx": "abc"}, "idx: 'abc'"),
        ({"name": "foo,bar"}, "name: 'foo,bar', expected letters"),
        ({"environ": {"NRI_PLUGIN_SOCKET": "x"}}, "NRI_PLUGIN_SOCKET: 'x'"),
    ],
)
def test_what_no_runtime_accepts_is_refused_here(
    arguments: dict[str, object], message: str
) -> None:
    """The error names the field, the value and what was expected."""
    environ = arguments.pop("environ", {})
    with pytest.raises(ConfigError, match=message):
        launch_from(environ, **arguments)  # type: ignore[arg-type] # a table of both


def test_importing_the_sdk_stays_small() -> None:
    """Importing the SDK loads no event loop, YAML, gRPC or SSL."""
    code = "import sys, nriplugin.cli.run; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"asyncio", "ssl", "yaml", "msgspec", "grpc", "sqlite3"}


def test_a_runtime_that_is_away_is_logged_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Once per reason, and then every few minutes with the number of attempts."""
    now = [100.0]
    trouble = Trouble("/nri.sock", lambda: now[0])
    for _ in range(3):
        trouble.note("No such file", connected=False)
        now[0] += 1.0
    trouble.note("refused", connected=False)
    now[0] += REMIND_S
    trouble.note("refused", connected=False)
    assert caplog.messages == [
        "not connected to /nri.sock: No such file",
        "not connected to /nri.sock: refused",
        "not connected to /nri.sock for 603 s, after 5 attempts: refused",
    ]
    trouble.note("refused", connected=True)  # a connection that has worked
    assert caplog.messages[3:] == ["not connected to /nri.sock: refused"]
