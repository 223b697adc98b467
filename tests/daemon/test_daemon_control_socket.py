"""The control socket: its permissions, who may call what, and what takes its place."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from daemon.control_clients import ControlClient, controlled, daemon_of
from doors.nri.nodes import plugin_on
from support.harness import PATIENCE_S, wait_until

from nriplugin.daemon.control import listener
from nriplugin.daemon.control.listener import ControlListener
from nriplugin.daemon.control.peers import Access, Peer, access_of, group_id, peer_of
from nriplugin.daemon.control.server import ControlServer
from nriplugin.daemon.control_service import serving_control
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.process import DaemonProcess

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")

NOBODY = 65534
GROUP = 4242  # of no user of this machine

# Becomes another user with some groups, and calls methods.
CALLER = """
import os, sys
import grpc
from nriplugin.api import control_pb2 as c
path, uid, gid, groups = sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4]
os.setgroups([int(one) for one in groups.split(",") if one])
os.setgid(gid)
os.setuid(uid)
channel = grpc.insecure_channel(f"unix:{path}")
for name in ("Status", "Explain", "Reload", "Restore", "Withdraw"):
    call = channel.unary_unary(
        f"/nriplugin.control.v1.Control/{name}",
        request_serializer=lambda message: message.SerializeToString(),
    )
    try:
        call(getattr(c, f"{name}Request")(), timeout=60)
        print(name, "OK")
    except grpc.RpcError as exc:
        print(name, exc.code().name)
call = channel.unary_unary("/nri.pkg.api.v1alpha1.Plugin/Shutdown")
try:
    call(b"", timeout=60)
    print("Plugin OK")
except grpc.RpcError as exc:
    print("Plugin", exc.code().name)
"""


def called_by(path: str, uid: int, gid: int, groups: str = "") -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", CALLER, path, str(uid), str(gid), groups],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    pairs = [line.split() for line in done.stdout.splitlines()]
    return dict(pairs)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that every user can enter, unlike pytest's."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def process() -> DaemonProcess:
    return daemon_of(plugin_on().lifecycle)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_root_may_connect(process: DaemonProcess, tmp_path: Path) -> None:
    """The modes do not depend on the umask; nothing but the lock stays at the end."""
    before = os.umask(0)
    try:
        with controlled(process, tmp_path):
            assert mode_of(tmp_path / "control.sock") == 0o600
            assert mode_of(tmp_path / "control.sock.private") == 0o700
    finally:
        os.umask(before)
    assert [path.name for path in tmp_path.iterdir()] == ["control.sock.lock"]


@as_root
def test_what_others_may_call(process: DaemonProcess, open_directory: Path) -> None:
    """Root everything; the group, also as one of several, what changes nothing."""
    reading = {
        "Status": "OK",
        "Explain": "OK",
        "Plugin": "UNIMPLEMENTED",
        **dict.fromkeys(("Reload", "Restore", "Withdraw"), "PERMISSION_DENIED"),
    }
    with controlled(process, open_directory, str(GROUP)) as client:
        path = open_directory / "control.sock"
        assert (mode_of(path), path.stat().st_gid) == (0o660, GROUP)
        assert called_by(client.path, NOBODY, GROUP) == reading
        assert called_by(client.path, NOBODY, NOBODY, f"7,{GROUP},9") == reading
        stranger = called_by(client.path, NOBODY, NOBODY)
        assert set(stranger.values()) == {"UNAVAILABLE"}
        root = called_by(client.path, 0, 0)
        assert (root["Status"], root["Restore"], root["Plugin"]) == ("OK", "OK", "OK")
        assert root["Reload"] == "FAILED_PRECONDITION"


@as_root
def test_credentials_count_beside_the_mode(
    process: DaemonProcess, open_directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody who changes the mode of the file lets nobody in."""
    with controlled(process, open_directory) as client:
        os.chmod(client.path, 0o666)  # noqa: S103 - that is the test
        found = called_by(client.path, NOBODY, NOBODY)
        assert set(found.values()) == {"UNAVAILABLE"}
    assert f"user {NOBODY} may not use it" in caplog.text


def test_who_may_do_what() -> None:
    """Root and the daemon's own user everything, the group may read."""
    own = 1000
    assert access_of(Peer(1, 0, frozenset()), None, own) is Access.ALL
    assert access_of(Peer(1, own, frozenset()), None, own) is Access.ALL
    member, other = Peer(1, 7, frozenset({7, 5})), Peer(1, 7, frozenset({7}))
    assert access_of(member, 5, own) is Access.READING
    assert access_of(member, None, own) is Access.NONE
    assert access_of(other, 5, own) is Access.NONE


def test_the_kernel_says_who_has_connected() -> None:
    """Here it is this process."""
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        peer = peer_of(one)
    assert (peer.pid, peer.uid) == (os.getpid(), os.geteuid())
    assert peer.groups == {os.getegid(), *os.getgroups()}


def test_groups_are_given_by_name_or_number() -> None:
    """A group that this machine lacks is the user's mistake."""
    assert group_id("--control-group", "root") == 0
    assert group_id("--control-group", "123") == 123
    with pytest.raises(ConfigError, match="--control-group: 'no-such', expected the"):
        group_id("--control-group", "no-such")


def listener_of(process: DaemonProcess, path: str) -> ControlListener:
    return ControlListener(
        *("--control", path, None),
        lambda access: ControlServer(process, access),
        look_s=0.05,
    )


def works(path: str) -> bool:
    with ControlClient(path) as client:
        return bool(client.status().version)


def test_a_socket_of_another_process_is_waited_for(
    process: DaemonProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A second daemon serves without the control API until the first has left."""
    caplog.set_level(logging.INFO)
    path = str(tmp_path / "control.sock")
    other = daemon_of(plugin_on().lifecycle, "cri")
    with controlled(process, tmp_path) as client:
        with serving_control(other, f"unix://{path}"):
            assert "another process serves it" in caplog.text
            assert client.status().door == "nri"
        assert client.status().door == "nri"
        listener = listener_of(other, path)
        listener.start()
    try:
        wait_until(lambda: "serving" in caplog.text)
        with ControlClient(path) as client:
            assert client.status().door == "cri"
    finally:
        listener.close()
    assert not os.path.exists(path)


def test_a_removed_directory_is_made_again(
    process: DaemonProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its socket is back after the next look."""
    caplog.set_level(logging.INFO)
    directory = tmp_path / "run"
    directory.mkdir()
    path = str(directory / "control.sock")
    listener = listener_of(process, path)
    listener.open()
    listener.start()
    try:
        assert works(path)
        shutil.rmtree(directory)
        wait_until(lambda: "serving" in caplog.text)
        assert works(path)
    finally:
        listener.close()
    assert [one.name for one in directory.iterdir()] == ["control.sock.lock"]


def test_what_a_dead_process_left_is_replaced(
    process: DaemonProcess, tmp_path: Path
) -> None:
    """Its socket, and its directory with the servers' sockets."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "control.sock"))
    private = tmp_path / "control.sock.private"
    private.mkdir(0o755)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(private / "all"))
    with controlled(process, tmp_path) as client:
        assert client.status().version
        assert mode_of(private) == 0o700


def test_a_link_is_not_followed(process: DaemonProcess, tmp_path: Path) -> None:
    """Somebody else may have put it there."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "control.sock.private").symlink_to(tmp_path / "elsewhere")
    with (
        pytest.raises(ConfigError, match="expected a place"),
        controlled(process, tmp_path),
    ):
        pass
    assert not list((tmp_path / "elsewhere").iterdir())


def test_many_connections(process: DaemonProcess, tmp_path: Path) -> None:
    """Silent connections are limited, and others are served beside them."""
    with controlled(process, tmp_path) as client:
        assert client.status().version
        silent = []
        for _ in range(100):
            one = socket.socket(socket.AF_UNIX)
            one.connect(client.path)
            one.settimeout(PATIENCE_S)
            silent.append(one)
        assert client.status().version
        # One that is too many is closed; a served one gets gRPC's settings.
        assert silent[-1].recv(1) == b""
        assert silent[0].recv(1) != b""
        for one in silent:
            one.close()
        wait_until(lambda: works(client.path))


def test_large_answers_pass(tmp_path: Path) -> None:
    """More than a buffer of the listener and of the kernel, in both directions."""
    process = daemon_of(plugin_on().lifecycle)
    pods = "---\n".join(
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: p{number}}}, spec: "
        "{containers: [{name: a, resources: {limits: {cpu: 1, memory: 1Gi}}}]}}\n"
        for number in range(450)
    )
    with controlled(process, tmp_path) as client:
        text = client.explain(pods)
    assert len(text) > 450_000
    assert text.count('"kind": "Pod"') == 450


@pytest.mark.parametrize(
    ("address", "group", "named"),
    [
        ("/run/x.sock", None, "--control: '/run/x.sock'"),
        ("tcp://x", None, "--control: 'tcp://x'"),
        ("unix:///dev/null/x.sock", None, "--control: /dev/null: File exists"),
        ("off", "root", "--control-group: 'root', expected --control to be on"),
        (None, "no-such-group", "--control-group: 'no-such-group', expected"),
    ],
)
def test_mistakes_of_the_user(
    process: DaemonProcess, address: str | None, group: str | None, named: str
) -> None:
    """One line that names the option, the value and what was expected."""
    with pytest.raises(ConfigError) as raised, serving_control(process, address, group):
        pass
    assert str(raised.value).startswith(named)


@as_root
def test_connections_of_root_leave_those_of_the_group(
    process: DaemonProcess, open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the two has its own number of connections."""
    monkeypatch.setattr(listener, "MAX_CONNECTIONS", 1)
    path = str(open_directory / "control.sock")
    with (
        serving_control(process, f"unix://{path}", str(GROUP)),
        socket.socket(socket.AF_UNIX) as first,
        socket.socket(socket.AF_UNIX) as second,
    ):
        first.settimeout(PATIENCE_S)
        second.settimeout(PATIENCE_S)
        first.connect(path)
        assert first.recv(1)  # the server's greeting: the connection is forwarded
        second.connect(path)
        assert not second.recv(1)
        assert called_by(path, NOBODY, GROUP)["Status"] == "OK"
