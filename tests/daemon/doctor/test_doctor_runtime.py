"""The findings about the runtime: its version, and NRI in its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.hosts import daemon_answering, runtime_answering

from nriplugin.daemon.doctor.runtime_config import check
from nriplugin.daemon.doctor.runtime_files import containerd_settings, crio_settings

if TYPE_CHECKING:
    from support.hosts import FakeHost

CONTAINERD = "/etc/containerd/config.toml"
NRI = "[plugins.'io.containerd.nri.v1.nri']\n"
CRI_SOCKET = "/run/containerd/containerd.sock"


def containerd_answering(host: FakeHost, version: str) -> Any:
    return runtime_answering(f"{host.root}{CRI_SOCKET}", "containerd", version)


def test_a_machine_without_a_runtime(host: FakeHost) -> None:
    level, text, _ = host.one(check, "runtime")
    assert level == "note"
    assert "No containerd and no CRI-O" in text
    assert host.find(check, "nri-enabled") == []


def test_the_version_comes_from_cri_or_from_the_daemon(host: FakeHost) -> None:
    host.write(CONTAINERD, "version = 3\n")
    level, text, advice = host.one(check, "runtime")
    assert level == "note"
    assert "whose version is not known" in text
    assert "containerd --version" in advice
    runtime = {"name": "containerd", "version": "2.4.2"}
    with daemon_answering(host.control, runtime=runtime):
        assert "containerd 2.4.2, by the daemon" in host.one(check, "runtime")[1]
    with containerd_answering(host, "v2.1.4"):
        level, text, _ = host.one(check, "runtime")
    assert level == "ok"
    assert "containerd v2.1.4, by " in text
    assert text.endswith(f"configuration: {CONTAINERD}.")


def test_a_pod_does_not_see_the_configuration(host: FakeHost) -> None:
    """The daemon tells the version, and the socket that NRI is on, whatever it is."""
    runtime = {"name": "v2", "version": "1.7.30"}
    with daemon_answering(host.control, runtime=runtime):
        _, text, _ = host.one(check, "runtime")
        assert (
            f"1.7.30, by the daemon; configuration: not to be seen ({CONTAINERD})"
            in text
        )
        assert host.one(check, "nri-enabled")[0] == "problem"
        with host.listening(host.nri_socket):
            assert host.one(check, "nri-enabled")[0] == "ok"
            host.write(CONTAINERD, "version = 2\n")
            assert host.one(check, "nri-enabled")[0] == "warning"


def test_a_runtime_without_nri_is_a_problem(host: FakeHost) -> None:
    with containerd_answering(host, "1.6.30"):
        level, _, advice = host.one(check, "runtime")
        assert level == "problem"
        assert "CRI proxy" in advice
        host.process(9, "nriplugin cri-proxy")
        assert host.one(check, "runtime")[0] == "ok"


@pytest.mark.parametrize(
    ("text", "version", "level", "words"),
    [
        (f"version = 2\n{NRI}disable = false\n", None, "ok", "in /etc/containerd"),
        (f"version = 3\n{NRI}disable = true\n", None, "problem", "is off"),
        ("version = 3\n", None, "ok", "only containerd 2 reads"),
        ("version = 2\n", None, "warning", "not known"),
        ("version = 2\n", "v1.7.30", "problem", "by default of containerd v1.7.30"),
        ("version = 2\n", "v2.0.0", "ok", "by default of containerd v2.0.0"),
        # In the first format plugins have short names, so this section is not read.
        (f"{NRI}disable = false\n", "1.7.1", "problem", "by default"),
        ("[plugins.nri]\ndisable = false\n", "1.7.1", "ok", "in /etc/containerd"),
        (
            "version = 2\ndisabled_plugins = ['io.containerd.nri.v1.nri']\n"
            f"{NRI}disable = false\n",
            *("v2.0.0", "problem", "is off"),
        ),
    ],
)
def test_nri_in_containerd(
    host: FakeHost, text: str, version: str | None, level: str, words: str
) -> None:
    """What the file says counts, else the default of the version."""
    host.write(CONTAINERD, text)
    if version is None:
        found = host.one(check, "nri-enabled")
    else:
        with containerd_answering(host, version):
            found = host.one(check, "nri-enabled")
    assert found[0] == level
    assert words in found[1]
    assert ("disable = false" in found[2]) is (level != "ok")


def test_imports_of_containerd_win(host: FakeHost) -> None:
    """Relative paths and patterns are understood, and circles end."""
    imports = "version = 2\nimports = ['conf.d/*.toml', '/etc/more.toml']\n"
    host.write(CONTAINERD, f"{imports}{NRI}disable = true\nsocket_path = '/a.sock'\n")
    host.write("/etc/containerd/conf.d/1.toml", f"version = 2\n{NRI}disable = false\n")
    host.write("/etc/containerd/conf.d/ignored", f"{NRI}disable = true\n")
    host.write("/etc/more.toml", f"version = 2\nimports = ['{CONTAINERD}']\n")
    files = host.examined().files
    found = containerd_settings(files)
    assert found.nri is True
    assert found.nri_file == "/etc/containerd/conf.d/1.toml"
    assert found.socket_path == "/a.sock"
    assert found.errors == ()
    assert set(found.files) == {CONTAINERD, found.nri_file, "/etc/more.toml"}
    # containerd 1.7 replaces the whole section.
    assert containerd_settings(files, merges=False).socket_path is None
    host.write("/etc/containerd/conf.d/1.toml", f"{NRI}disable = true\n")
    assert containerd_settings(host.examined().files).nri is False


def test_the_configuration_that_the_process_was_started_with(host: FakeHost) -> None:
    """k3s has another file; a process in a pod does not count."""
    host.write("/k3s/config.toml", f"version = 2\n{NRI}disable = true\n")
    host.process(9, "containerd -c /k3s/config.toml --root /x")
    assert "/k3s/config.toml" in host.one(check, "nri-enabled")[1]
    pod = "0::/kubepods/pod7b0f0a2e-5d6c-4c1f-9c39-1f5a2a0f4b11/abc\n"
    host.process(9, "containerd -c /k3s/config.toml", cgroup=pod)
    assert host.find(check, "nri-enabled") == []


@pytest.mark.parametrize(
    ("main", "drop_in", "version", "level", "words"),
    [
        ("", "", None, "ok", "by default of CRI-O from 1.30"),
        ("", "", "1.29.1", "problem", "by default of CRI-O 1.29.1"),
        ("", "", "1.36.3", "ok", "by default"),
        ("[crio.nri]\nenable_nri = false\n", "", None, "problem", "/crio.conf."),
        (
            *("[crio.nri]\nenable_nri = false\n", "[crio.nri]\nenable_nri = true\n"),
            *("1.36.3", "ok", "10-nri.conf"),
        ),
        ("", "[crio.nri]\nenable_nri = false\n", "1.36.3", "problem", "10-nri.conf"),
    ],
)
def test_nri_in_crio(
    host: FakeHost, main: str, drop_in: str, version: str | None, level: str, words: str
) -> None:
    """The directory wins over the file."""
    host.write("/etc/crio/crio.conf", main)
    host.write("/etc/crio/crio.conf.d/10-nri.conf", drop_in)
    if version is None:
        found = host.one(check, "nri-enabled")
    else:
        with runtime_answering(f"{host.root}/run/crio/crio.sock", "cri-o", version):
            found = host.one(check, "nri-enabled")
    assert found[0] == level
    assert words in found[1]
    assert ("enable_nri = true to" in found[2]) is (level == "problem")


def test_the_last_file_of_crio_wins(host: FakeHost) -> None:
    host.write("/etc/crio/crio.conf.d/00-first", "[crio.nri]\nenable_nri = false\n")
    host.write("/etc/crio/crio.conf.d/99/last", "[crio.nri]\nenable_nri = true\n")
    runtime = "[crio.runtime]\ncgroup_manager = 'cgroupfs'\n"
    host.write("/etc/crio/crio.conf.d/50", f"{runtime}[crio.nri]\nnri_listen='/x'\n")
    found = crio_settings(host.examined().files)
    assert (found.nri, found.systemd, found.socket_path) == (True, False, "/x")


def test_nri_that_is_off_only_after_the_next_restart(host: FakeHost) -> None:
    """The socket is live: the running runtime has not read the file."""
    host.write(CONTAINERD, f"version = 2\n{NRI}disable = true\n")
    with host.listening(host.nri_socket):
        level, text, _ = host.one(check, "nri-enabled")
    assert level == "warning"
    assert "until it is restarted" in text
    assert host.one(check, "nri-enabled")[0] == "problem"
    host.process(9, "nriplugin cri-proxy")
    assert host.one(check, "nri-enabled")[0] == "note"


def test_a_file_that_the_runtime_cannot_read(host: FakeHost) -> None:
    host.write(CONTAINERD, "version = 2\nimports = ['/etc/gone.toml']\n")
    level, text, _ = host.one(check, "runtime-config")
    assert level == "warning"
    assert "/etc/gone.toml: No such file" in text
    host.write("/etc/gone.toml", "version = = 2\n")
    assert "not TOML" in host.one(check, "runtime-config")[1]
    host.write("/etc/gone.toml", "")
    assert host.find(check, "runtime-config") == []


def test_connections_may_be_forbidden(host: FakeHost) -> None:
    """Then only plugins work that the runtime launches."""
    host.write(CONTAINERD, f"version = 3\n{NRI}disable_connections = true\n")
    level, text, advice = host.one(check, "nri-connections")
    assert level == "problem"
    assert "disable_connections = true" in text
    assert "disable_connections = false" in advice
    host.executable("/opt/nri/plugins/99-nriplugin")
    assert host.one(check, "nri-connections")[0] == "ok"
    host.write(CONTAINERD, "version = 3\n")
    assert host.find(check, "nri-connections") == []


def test_the_socket_may_be_elsewhere(host: FakeHost) -> None:
    host.write(CONTAINERD, f"version = 3\n{NRI}socket_path = '/run/x.sock'\n")
    level, _, advice = host.one(check, "nri-socket-path")
    assert level == "warning"
    assert "--nri-socket /run/x.sock" in advice
    host.nri_socket = "/run/x.sock"
    assert host.find(check, "nri-socket-path") == []
