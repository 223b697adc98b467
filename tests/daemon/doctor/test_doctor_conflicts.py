"""The findings about other plugins, policies, and nriplugin installed twice."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.hosts import daemon_answering

from nriplugin.daemon.doctor import conflicts
from nriplugin.daemon.doctor.conflicts import MUTATION_POLICY, check
from nriplugin.daemon.doctor.unix_sockets import (
    UnixSocket,
    clients_of,
    owners_of,
    sockets_of_kernel,
)

if TYPE_CHECKING:
    from pathlib import Path

    from support.hosts import FakeHost

RUN = "/opt/bin/python3 /opt/bin/nriplugin run"
HOOK = "/etc/containers/oci/hooks.d/90-nriplugin.json"
LISTENING = 10


def test_the_hook_beside_a_daemon_is_a_warning(host: FakeHost) -> None:
    assert host.find(check, "oci-hook") == []
    host.write(HOOK, '{"hook": {"args": ["other"]}}')
    assert host.find(check, "oci-hook") == []
    host.write(HOOK, '{"hook": {"args": ["nriplugin", "hook"]}}')
    assert host.one(check, "oci-hook")[0] == "ok"
    with daemon_answering(host.control):
        assert host.one(check, "oci-hook")[0] == "warning"
    host.process(9, RUN)
    level, text, advice = host.one(check, "oci-hook")
    assert level == "warning"
    assert HOOK in text
    assert "hook uninstall" in advice


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("10-memory-qos", "note"),
        ("99-late", "warning"),
        ("logger", "problem"),
        ("1-short", "problem"),
        ("99-nriplugin", None),
    ],
)
def test_plugins_that_the_runtime_launches(
    host: FakeHost, name: str, level: str | None
) -> None:
    """A name of another form ends the CRI service; an index of 99 is too late."""
    host.write(f"/opt/nri/plugins/{name}.txt", "no program")
    assert host.find(check, "plugin-directory") == []
    host.executable(f"/opt/nri/plugins/{name}")
    found = host.find(check, "plugin-directory")
    assert [one[0] for one in found] == ([] if level is None else [level])


def test_the_plugin_directory_of_the_runtimes_configuration(host: FakeHost) -> None:
    host.write("/etc/crio/crio.conf", "[crio.nri]\nnri_plugin_dir = '/plugins'\n")
    host.executable("/plugins/10-a")
    host.executable("/opt/nri/plugins/10-b")
    ((_, text, _),) = host.find(check, "plugin-directory")
    assert "/plugins/10-a" in text


def test_plugins_that_are_connected(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Processes of others are named, nriplugin's own is not one of them."""
    assert host.find(check, "other-plugins") == []
    # Otherwise the checks dial the socket themselves.
    line = f"0: 2 0 00010000 0001 01 4711 {host.nri_socket}"
    host.write("/proc/1/net/unix", f"Num\n{line}\n")
    own = socket.socket(socket.AF_UNIX)
    with host.listening(host.nri_socket) as server, own:
        assert "nobody" in host.one(check, "other-plugins")[1]
        own.connect(host.nri_socket)
        accepted = server.accept()[0]
        request.addfinalizer(accepted.close)
        # This very process is the client; the fake /proc says who it is.
        inode = os.fstat(own.fileno()).st_ino
        links = host.root / "proc/77/fd"
        links.mkdir(parents=True)
        (links / "5").symlink_to(f"socket:[{inode}]")
        host.process(77, "/usr/bin/memory-qos -idx 10")
        level, text, advice = host.one(check, "other-plugins")
        assert level == "note"
        assert text.endswith("the NRI socket: memory-qos (process 77).")
        assert "coexistence.md" in advice
        host.process(77, RUN)
        level, text, _ = host.one(check, "other-plugins")
        assert (level, "only nriplugin (process 77)" in text) == ("ok", True)
        (links / "5").unlink()
        assert "1 whose process cannot be seen" in host.one(check, "other-plugins")[1]
        monkeypatch.setattr(conflicts, "sockets_of_kernel", list)
        level, text, _ = host.one(check, "other-plugins")
        assert level == "note"
        assert "cannot be seen from here" in text


def test_the_kernel_tells_who_is_connected(tmp_path: Path) -> None:
    """The real netlink and the real /proc, with a client in another process."""
    path = str(tmp_path / "s")
    code = "import socket,sys; s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        client = subprocess.Popen(
            [sys.executable, "-c", f"{code}; sys.stdin.read()", path],
            stdin=subprocess.PIPE,
        )
        accepted = server.accept()[0]
        clients = clients_of(sockets_of_kernel(), {path})
        assert clients is not None
        assert len(clients) == 1
        assert set(owners_of("/proc", clients).values()) == {client.pid}
        assert owners_of("/proc", {1}) == {}
        client.communicate()
        accepted.close()


def test_a_listener_of_another_namespace_is_not_nobody() -> None:
    listener = UnixSocket(1, LISTENING, "/a", 0)
    accepted = UnixSocket(2, 1, "/a", 3)
    assert clients_of([listener, accepted], {"/a"}) == {3}
    assert clients_of([listener], {"/a"}) == set()
    assert clients_of([accepted], {"/a"}) is None
    assert clients_of([listener, accepted], {"/b"}) is None


@pytest.mark.parametrize(
    ("text", "level"),
    [
        (None, None),
        ("mode: strict\n", "warning"),
        ("mode: permissive\n", "note"),
        ("policies: []\n", "warning"),
    ],
)
def test_openshifts_mutation_policy(
    host: FakeHost, text: str | None, level: str | None
) -> None:
    if text is not None:
        host.write(MUTATION_POLICY, text)
    found = host.find(check, "mutation-policy")
    assert [one[0] for one in found] == ([] if level is None else [level])
