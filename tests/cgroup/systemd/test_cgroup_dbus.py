"""The connection to a message bus, against a real `dbus-daemon` and bad imitations."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import pytest
from cgroup.buses import FakeSystemd, MessageBus
from support.harness import PATIENCE_S, wait_until

from nriplugin.cgroup.systemd.dbus import PAUSE_S, Bus, BusError
from nriplugin.cgroup.systemd.units import SYSTEMD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
MANAGER = (SYSTEMD, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")


@pytest.fixture
def message_bus(tmp_path: Path) -> Iterator[MessageBus]:
    with MessageBus(tmp_path) as running:
        yield running


def test_a_call_is_answered(message_bus: MessageBus) -> None:
    """The values of the answer come back, whatever signals arrive in between."""
    bus = Bus(message_bus.path, timeout_s=PATIENCE_S)
    (names,) = bus.call(*BUS, "ListNames")
    assert "org.freedesktop.DBus" in names
    assert bus.call(*BUS, "NameHasOwner", "s", (SYSTEMD,)) == (False,)
    bus.close()


def test_one_connection_serves_all_calls(message_bus: MessageBus) -> None:
    """The unique name of the connection stays the same."""
    bus = Bus(message_bus.path, timeout_s=PATIENCE_S)

    def our_names() -> set[str]:
        return {name for name in bus.call(*BUS, "ListNames")[0] if name[0] == ":"}

    first = our_names()
    assert len(first) == 1
    assert our_names() == first
    bus.close()
    assert our_names() != first
    bus.close()


def test_an_error_answer_keeps_its_name(message_bus: MessageBus) -> None:
    """The error is one line with D-Bus's name of it, and the connection still works."""
    bus = Bus(message_bus.path, timeout_s=PATIENCE_S)
    with FakeSystemd(message_bus.path) as systemd:
        name = "org.freedesktop.systemd1.NoSuchUnit"
        systemd.refusals["a.scope"] = (name, "Unit a.scope\nnot loaded.")
        for _ in range(2):
            with pytest.raises(BusError, match=r"^Unit a\.scope not loaded\.$") as got:
                bus.call(
                    *MANAGER, "SetUnitProperties", "sba(sv)", ("a.scope", True, [])
                )
            assert got.value.name == name
    with pytest.raises(BusError) as got:
        bus.call(*MANAGER, "SetUnitProperties", "sba(sv)", ("a.scope", True, []))
    assert got.value.name == "org.freedesktop.DBus.Error.ServiceUnknown"
    bus.close()


def test_a_bus_that_was_restarted_is_connected_to_again(
    message_bus: MessageBus,
) -> None:
    """The call that finds the connection closed makes a new one and succeeds."""
    bus = Bus(message_bus.path, timeout_s=PATIENCE_S)
    bus.call(*BUS, "ListNames")
    message_bus.stop()
    message_bus.start()
    assert bus.call(*BUS, "ListNames")
    message_bus.stop()
    with pytest.raises(BusError, match=r"Connection refused|No such file"):
        bus.call(*BUS, "ListNames")
    message_bus.start()
    assert bus.call(*BUS, "ListNames")
    bus.close()


def test_no_bus_is_an_error_that_names_the_socket(tmp_path: Path) -> None:
    """A missing socket is looked for again at the next call."""
    bus = Bus(str(tmp_path / "none"))
    for _ in range(2):
        with pytest.raises(BusError, match="/none: No such file or directory") as got:
            bus.call(*BUS, "ListNames")
        assert got.value.name == ""


@pytest.fixture
def imitation(
    tmp_path: Path,
) -> Iterator[Callable[[Callable[[socket.socket], None]], str]]:
    """A socket on which every connection is handled by a function, in a thread."""
    listener = socket.socket(socket.AF_UNIX)
    threads: list[threading.Thread] = []

    def start(handle: Callable[[socket.socket], None]) -> str:
        path = str(tmp_path / "imitation")
        listener.bind(path)
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    handle(connection)

        threads.append(threading.Thread(target=serve))
        threads[0].start()
        return path

    yield start
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in threads:
        thread.join()


def until_closed(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


@pytest.mark.parametrize("first", [b"", b"OK 0123\r\n"], ids=["auth", "hello"])
def test_a_bus_that_says_nothing_is_given_up(
    imitation: Callable[[Callable[[socket.socket], None]], str], first: bytes
) -> None:
    """The first call waits for the limit; later calls fail at once for a while."""
    accepted = []

    def handle(connection: socket.socket) -> None:
        accepted.append(connection)
        connection.sendall(first)
        until_closed(connection)

    now = 100.0
    path = imitation(handle)
    bus = Bus(path, timeout_s=0.2, clock=lambda: now)
    with pytest.raises(BusError, match=r"no answer within 0\.2 s"):
        bus.call(*BUS, "ListNames")
    with pytest.raises(BusError, match="did not answer a moment ago"):
        bus.call(*BUS, "ListNames")
    # The thread of the other end may get the connection after it was given up.
    wait_until(lambda: len(accepted) >= 1)
    assert len(accepted) == 1
    now += PAUSE_S
    with pytest.raises(BusError, match="no answer within"):
        bus.call(*BUS, "ListNames")
    wait_until(lambda: len(accepted) >= 2)
    assert len(accepted) == 2


def test_a_bus_that_dribbles_does_not_get_more_time(
    imitation: Callable[[Callable[[socket.socket], None]], str],
) -> None:
    """The limit is for the whole call, not for each wait on the socket."""
    stopped = threading.Event()

    def handle(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"OK 0123\r\n")
        connection.recv(4096)
        try:
            # A header that announces a long message, and then the message in drops.
            connection.sendall(b"l\x02\0\1" + b"\0\0\1\0" + b"\1\0\0\0" + b"\0\0\0\0")
            while not stopped.wait(0.02):
                connection.sendall(b"\0")
        except OSError:
            return

    bus = Bus(imitation(handle), timeout_s=0.3)
    with pytest.raises(BusError, match="no answer within"):
        bus.call(*BUS, "ListNames")
    stopped.set()


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (b"REJECTED EXTERNAL\r\n", "Authentication failed"),
        (b"OK 0123\r\nOK 0123\r\n", "Unexpected data"),
        (b"x" * 9000, "Too much data"),
        (b"", "closed the connection"),
    ],
)
def test_whoever_is_not_a_bus_is_an_error_in_one_line(
    imitation: Callable[[Callable[[socket.socket], None]], str],
    said: bytes,
    match: str,
) -> None:
    """Bytes that are not D-Bus's authentication give an error in one line."""

    def handle(connection: socket.socket) -> None:
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        until_closed(connection)

    with pytest.raises(BusError, match=match) as got:
        Bus(imitation(handle), timeout_s=PATIENCE_S).call(*BUS, "ListNames")
    assert "\n" not in str(got.value)


@pytest.mark.parametrize(
    "garbage", [b"HTTP/1.1 400 Bad Request\r\n\r\n" * 40, bytes(64), b"\xff" * 64]
)
def test_an_answer_that_is_no_message_is_an_error(
    imitation: Callable[[Callable[[socket.socket], None]], str], garbage: bytes
) -> None:
    """Bytes that are not a message give an error, even after authentication."""

    def handle(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(b"OK 0123\r\n")
        connection.recv(4096)
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        until_closed(connection)

    with pytest.raises(BusError):
        Bus(imitation(handle), timeout_s=1).call(*BUS, "ListNames")
