"""What systemd is told, over a real datagram socket."""

from __future__ import annotations

import itertools
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from support.daemons import daemon_on_runtime
from support.harness import PATIENCE_S
from support.processes import OFF, Daemon

from nriplugin.daemon import systemd_notify
from nriplugin.daemon.systemd_notify import SystemdNotifier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.daemon.process import DaemonProcess

    Message = dict[str, str]


class Systemd:
    """The end of the socket that systemd has."""

    def __init__(self, address: str) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.settimeout(PATIENCE_S)
        self.sock.bind("\0" + address[1:] if address[0] == "@" else address)
        self.environ = {"NOTIFY_SOCKET": address}

    def receive(self) -> Message:
        """Return the next message."""
        lines = self.sock.recv(65536).decode().split("\n")
        return {line.partition("=")[0]: line.partition("=")[2] for line in lines}

    def receive_until(self, key: str, value: str) -> list[Message]:
        """Return all messages up to one with this line."""
        messages = [self.receive()]
        while messages[-1].get(key) != value:
            messages.append(self.receive())
        return messages

    def waiting(self) -> list[Message]:
        """Return the messages that have arrived by now."""
        messages = []
        self.sock.setblocking(False)
        try:
            while True:
                messages.append(self.receive())
        except BlockingIOError:
            return messages
        finally:
            self.sock.settimeout(PATIENCE_S)


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    systemd = Systemd(str(tmp_path / "notify"))
    yield systemd
    systemd.sock.close()


def test_ready_does_not_wait_for_the_runtime(
    process: DaemonProcess, systemd: Systemd
) -> None:
    """The unit is started when the daemon serves; the status says what is missing."""
    SystemdNotifier(process, systemd.environ).serving()
    assert systemd.receive() == {
        "READY": "1",
        "STATUS": "not connected to the runtime: not connected yet",
    }


def test_the_status_follows_the_connection(
    process: DaemonProcess, systemd: Systemd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line is sent when it has changed, and not again and again."""
    monkeypatch.setattr(systemd_notify, "INTERVAL_S", 0.01)
    connection = process.lifecycle.connection
    with SystemdNotifier(process, systemd.environ) as notifier:
        notifier.serving()
        connection.configured("containerd", "2.3.0")
        connection.synchronized(0)
        systemd.receive_until("STATUS", "connected to containerd 2.3.0")
        process.config.refused("line 3:\nunknown key")
        systemd.receive_until(
            "STATUS", "the old configuration is in force: line 3: unknown key"
        )
        process.config.error = ""
        systemd.receive_until("STATUS", "connected to containerd 2.3.0")
    assert systemd.waiting() == [{"STOPPING": "1", "STATUS": "stopping"}]


def test_the_watchdog_is_fed_while_the_threads_work(
    process: DaemonProcess, systemd: Systemd
) -> None:
    """A stuck thread ends the signs of life, after which systemd restarts the unit."""
    environ = {**systemd.environ, "WATCHDOG_USEC": "20000"}
    with SystemdNotifier(process, environ):
        for _ in range(3):
            systemd.receive_until("WATCHDOG", "1")
        # Another time whenever it is asked for, so that every look sends a status.
        times = itertools.count(1000)
        process.late_s = lambda: float(next(times))
        while "requests are not decided" not in systemd.receive().get("STATUS", ""):
            pass
        said = [systemd.receive() for _ in range(3)]
    said += systemd.waiting()
    assert [message for message in said if "WATCHDOG" in message] == []
    assert said[-1]["STOPPING"] == "1"


def test_a_path_that_is_not_utf_8(process: DaemonProcess, systemd: Systemd) -> None:
    """It is in the status as far as it can be read."""
    process.config.refused("/etc/\udcff.yaml: no such file")
    SystemdNotifier(process, systemd.environ).serving()
    assert "/etc/?.yaml: no such file" in systemd.receive()["STATUS"]


def test_a_failure_does_not_end_the_signs_of_life(
    process: DaemonProcess,
    systemd: Systemd,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """systemd must not kill a daemon because its state cannot be told."""

    def fail(process: DaemonProcess) -> list[str]:
        raise LookupError("no such state")

    monkeypatch.setattr(systemd_notify, "ready", fail)
    environ = {**systemd.environ, "WATCHDOG_USEC": "20000"}
    with SystemdNotifier(process, environ):
        for _ in range(3):
            systemd.receive_until("WATCHDOG", "1")
    assert "systemd: not notified: LookupError('no such state')" in caplog.messages


@pytest.mark.parametrize(
    "environ",
    [{}, {"WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "x"}],
)
def test_no_sign_of_life_that_nobody_asked_for(
    process: DaemonProcess,
    systemd: Systemd,
    monkeypatch: pytest.MonkeyPatch,
    environ: Message,
) -> None:
    """The watchdog is off, or is another process's."""
    monkeypatch.setattr(systemd_notify, "INTERVAL_S", 0.001)
    with SystemdNotifier(process, {**systemd.environ, **environ}):
        systemd.receive()  # the first status
        process.lifecycle.connection.synchronized(0)
        systemd.receive()
    assert [m for m in systemd.waiting() if "WATCHDOG" in m] == []


def test_a_reload(process: DaemonProcess, systemd: Systemd) -> None:
    """systemd waits from RELOADING to READY, also if the reload fails."""
    notifier = SystemdNotifier(process, systemd.environ)
    with suppress(LookupError), notifier.reloading():
        message = systemd.receive()
        assert message["RELOADING"] == "1"
        assert int(message["MONOTONIC_USEC"]) > 0
        raise LookupError
    assert systemd.receive()["READY"] == "1"


def test_a_socket_that_is_in_no_directory(process: DaemonProcess) -> None:
    """systemd in a container has such a name."""
    systemd = Systemd(f"@nriplugin-test-{os.getpid()}")
    with systemd.sock:
        SystemdNotifier(process, systemd.environ).serving()
        assert systemd.receive()["READY"] == "1"


@pytest.mark.parametrize("path", ["", "/nowhere/at/all", "vsock:2:1234"])
def test_without_systemd(process: DaemonProcess, path: str) -> None:
    """Nothing is sent, and nothing fails."""
    with SystemdNotifier(process, {"NOTIFY_SOCKET": path}) as notifier:
        notifier.serving()
        with notifier.reloading():
            pass


def test_a_daemon_under_systemd(tmp_path: Path, systemd: Systemd) -> None:
    """A real process from its start over a reload to its end."""
    file = tmp_path / "config.yaml"
    file.write_text("curve: kep\n")
    environ = {**systemd.environ, "WATCHDOG_USEC": "200000"}
    options = "--config", str(file)
    with daemon_on_runtime(tmp_path, *options, environ=environ) as daemon:
        first = systemd.receive()
        assert first["READY"] == "1"
        # The connection may have been made before or after that.
        connected = "connected to containerd 2.3.0"
        if first["STATUS"] != connected:
            systemd.receive_until("STATUS", connected)
        systemd.receive_until("WATCHDOG", "1")
        daemon.process.send_signal(1)
        systemd.receive_until("RELOADING", "1")
        systemd.receive_until("READY", "1")
        daemon.wait_for("is in force")
        assert daemon.end() == 0
        systemd.receive_until("STOPPING", "1")
    assert systemd.waiting() == []


def test_a_mistake_in_the_configuration_is_never_ready(
    tmp_path: Path, systemd: Systemd
) -> None:
    """The start of the unit fails, as it has to."""
    file = tmp_path / "config.yaml"
    file.write_text("curve: bent\n")
    options = "--config", str(file), *OFF
    daemon = Daemon(tmp_path / "log", "run", *options, **systemd.environ)
    code = daemon.process.wait(PATIENCE_S)
    assert (code, systemd.waiting()) == (2, [])
