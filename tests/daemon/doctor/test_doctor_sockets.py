"""The findings about sockets, and about who answers on them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from support.hosts import answering, daemon_answering, runtime_answering

from nriplugin import __version__
from nriplugin.api import control_pb2
from nriplugin.daemon.doctor.sockets import check

if TYPE_CHECKING:
    from pathlib import Path

    from support.hosts import FakeHost


def test_a_runtime_that_listens_is_fine(host: FakeHost) -> None:
    """The socket's mode is shown."""
    with host.listening(host.nri_socket):
        os.chmod(host.nri_socket, 0o660)
        level, text, advice = host.one(check, "nri-socket")
    assert (level, advice) == ("ok", "")
    assert text.endswith("nri.sock (mode 0660).")


def test_a_missing_nri_socket_is_a_problem(host: FakeHost) -> None:
    """The advice says where to turn NRI on."""
    level, text, advice = host.one(check, "nri-socket")
    assert level == "problem"
    assert "it does not exist" in text
    assert "nri-enabled" in advice
    assert "--nri-socket" in advice


def test_a_dead_nri_socket_is_a_problem(host: FakeHost, tmp_path: Path) -> None:
    """A runtime that was killed leaves its socket behind."""
    with host.listening(str(tmp_path / "other")):
        os.link(tmp_path / "other", host.nri_socket)
    level, text, advice = host.one(check, "nri-socket")
    assert level == "problem"
    assert "no process listens on it" in text
    assert "Restart the runtime" in advice


def test_a_file_in_the_place_of_the_nri_socket(host: FakeHost, tmp_path: Path) -> None:
    (tmp_path / "nri.sock").write_text("")
    level, text, _ = host.one(check, "nri-socket")
    assert (level, "it is not a socket" in text) == ("problem", True)


def test_the_kernels_list_is_asked_before_the_socket_is_dialled(
    host: FakeHost,
) -> None:
    """A runtime logs every connection that does not register, so none is made."""
    line = f"0000: 00000002 00000000 00010000 0001 01 4711 {host.nri_socket}\n"
    host.write(
        "/proc/1/net/unix", f"Num RefCount Protocol Flags Type St Inode Path\n{line}"
    )
    with host.listening(host.nri_socket) as server:
        server.setblocking(False)
        assert host.one(check, "nri-socket")[0] == "ok"
        with pytest.raises(BlockingIOError):
            server.accept()
        host.write("/proc/1/net/unix", "Num\n")
        with daemon_answering(host.control):
            assert host.one(check, "nri-socket")[0] == "ok"
        with pytest.raises(BlockingIOError):
            server.accept()
        assert host.one(check, "nri-socket")[0] == "ok"
        server.accept()[0].close()


@pytest.mark.parametrize("way", ["proxy", "hook", "daemon"])
def test_a_way_without_nri_needs_no_nri_socket(host: FakeHost, way: str) -> None:
    """With the CRI proxy or the hook, the missing socket is only a note."""
    if way == "proxy":
        host.process(9, "/usr/bin/python3 /opt/bin/nriplugin cri-proxy --listen x")
    elif way == "hook":
        host.write(
            "/etc/containers/oci/hooks.d/90-nriplugin.json",
            '{"hook": {"args": ["nriplugin", "hook"]}}',
        )
    if way == "daemon":
        with daemon_answering(host.control, door="cri"):
            level, _, advice = host.one(check, "nri-socket")
    else:
        level, _, advice = host.one(check, "nri-socket")
    assert level == "note"
    assert "needs no NRI socket" in advice


def test_a_daemon_that_is_connected_uses_another_nri_socket(host: FakeHost) -> None:
    """Nothing stops nriplugin then: only the option is missing."""
    runtime = control_pb2.RuntimeStatus(connected=True)
    with daemon_answering(host.control, door="nri", runtime=runtime):
        level, text, advice = host.one(check, "nri-socket")
    assert (level, "it does not exist" in text) == ("note", True)
    assert "Give the socket that process 77 uses with --nri-socket" in advice


def test_no_daemon_is_a_note(host: FakeHost) -> None:
    level, text, advice = host.one(check, "control-socket")
    assert level == "note"
    assert "No daemon of nriplugin is running" in text
    assert "systemctl enable --now nriplugin" in advice
    assert host.find(check, "daemon") == []


def test_a_daemon_without_its_socket_is_named(host: FakeHost) -> None:
    host.process(9, "/opt/bin/python3 -m nriplugin run")
    level, text, _ = host.one(check, "control-socket")
    assert level == "note"
    assert "although nriplugin runs as process 9" in text


def test_a_daemon_of_this_version_is_fine(host: FakeHost) -> None:
    with daemon_answering(host.control, version=__version__):
        level, text, _ = host.one(check, "control-socket")
        assert level == "ok"
        assert f"`nriplugin run` {__version__} answers" in text
        assert "as process 77" in text
        assert host.one(check, "daemon")[0] == "ok"


def test_a_daemon_of_another_version_is_a_warning(host: FakeHost) -> None:
    with daemon_answering(host.control, version="9.9"):
        level, text, advice = host.one(check, "control-socket")
    assert level == "warning"
    assert "9.9" in text
    assert f"This command has version {__version__}" in text
    assert "Restart the daemon" in advice


def test_a_daemon_that_is_not_ready_is_a_problem(host: FakeHost) -> None:
    """The reasons are those that the daemon gives."""
    with daemon_answering(host.control, ready=False, problems=["not registered"]):
        level, text, _ = host.one(check, "daemon")
    assert level == "problem"
    assert "not ready: not registered" in text
    with daemon_answering(host.control, withdrawn=True):
        level, text, _ = host.one(check, "daemon")
    assert level == "problem"
    assert "withdraw" in text


def test_a_socket_that_does_not_answer_is_a_warning(host: FakeHost) -> None:
    """A process that accepts and is silent is given up on after a second."""
    with host.listening(host.control):
        level, text, _ = host.one(check, "control-socket")
    assert level == "warning"
    assert "does not answer: DEADLINE_EXCEEDED" in text
    service = "nriplugin.control.v1.Control"
    with answering(host.control, service, "Status", ValueError("out of order")):
        level, text, _ = host.one(check, "control-socket")
    assert level == "warning"
    assert "INTERNAL: out of order" in text


def test_without_grpcio_only_listening_is_seen(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    cri = f"{host.root}/run/containerd/containerd.sock"
    with host.listening(host.control), host.listening(cri):
        for name in ("control-socket", "cri-socket"):
            level, text, advice = host.one(check, name)
            assert level == "note"
            assert "grpcio" in text
            assert "pip install grpcio grpcio-health-checking" in advice


def test_the_control_socket_may_be_left_out(host: FakeHost) -> None:
    host_without = host.examined()
    host_without.options = host_without.options._replace(control=None)
    found = [one for one in check(host_without) if one.check == "control-socket"]
    assert [str(one.level) for one in found] == ["note"]
    assert "--control off" in found[0].text


def test_a_runtime_tells_its_version(host: FakeHost) -> None:
    """The path is that on the host, which has /var/run as a link."""
    host.write("/run/x", "")
    (host.root / "var").mkdir(exist_ok=True)
    (host.root / "var/run").symlink_to("/run")
    host.kubelet("containerRuntimeEndpoint: unix:///var/run/cri/some.sock\n")
    with runtime_answering(f"{host.root}/run/cri/some.sock", "containerd", "v2.1.4"):
        level, text, _ = host.one(check, "cri-socket")
    assert level == "ok"
    assert text == "containerd v2.1.4 answers on /var/run/cri/some.sock."


def test_a_runtime_that_is_gone_is_a_warning(host: FakeHost) -> None:
    assert host.one(check, "cri-socket")[0] == "note"
    path = f"{host.root}/run/crio/crio.sock"
    with host.listening(f"{path}.other"):
        os.link(f"{path}.other", path)
    level, text, _ = host.one(check, "cri-socket")
    assert level == "warning"
    assert "/run/crio/crio.sock does not answer: no process listens on it" in text
