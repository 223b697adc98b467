"""`nriplugin doctor` as a user types it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from support.gopeers import ENVIRON
from support.hosts import FakeHost

from nriplugin.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the developer's own decides."""
    for name in ("NRIPLUGIN_HOST_ROOT", "CGROUP_DRIVER", "NRIPLUGIN_CONTROL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def host(tmp_path_factory: pytest.TempPathFactory) -> FakeHost:
    """A node on which nothing stops nriplugin but the missing NRI socket.

    The path of a socket has at most 107 bytes, so the directory has a short name.
    """
    host = FakeHost(tmp_path_factory.mktemp("d"))
    host.write("/etc/crio/crio.conf", "[crio.nri]\nenable_nri = true\n")
    return host


def doctor(
    host: FakeHost, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    code = main(["doctor", *host.arguments(), *arguments])
    return code, capsys.readouterr().out


def on_terminal(host: FakeHost, **environ: str) -> str:
    """Run the command on a terminal of 80 columns; return what it prints."""
    leader, follower = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "nriplugin", "doctor", *host.arguments()],
            stdout=follower,
            env={
                **ENVIRON,
                "COLUMNS": "80",
                "TERM": "xterm",
                "NO_COLOR": "",
                **environ,
            },
        )
        os.close(follower)
        parts = []
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the process has closed its end
                break
            if not part:
                break
            parts.append(part)
        process.wait(60)
    finally:
        os.close(leader)
    return b"".join(parts).decode().replace("\r\n", "\n")


def test_a_problem_is_exit_code_1(
    host: FakeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = doctor(host, capsys)
    assert code == 1
    assert "problem nri-socket: The NRI socket " in " ".join(text.split())
    assert text.endswith("\n1 problem.\n")


def test_warnings_and_notes_are_exit_code_0(
    host: FakeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    with host.listening(host.nri_socket):
        code, text = doctor(host, capsys)
        assert code == 0
        assert "note     control-socket: " in text
        assert text.endswith("\nNothing is in nriplugin's way.\n")
        host.executable("/opt/nri/plugins/99-late")
        code, text = doctor(host, capsys)
    assert code == 0
    assert text.endswith("\n1 warning.\n")


@pytest.mark.parametrize(
    ("kind", "parse"), [("json", json.loads), ("yaml", yaml.safe_load)]
)
def test_findings_for_programs(
    host: FakeHost, capsys: pytest.CaptureFixture[str], kind: str, parse: Any
) -> None:
    """A list of findings with the same four keys; the advice is empty only for ok."""
    code, text = doctor(host, capsys, "-o", kind)
    findings = parse(text)["findings"]
    assert code == 1
    for one in findings:
        assert list(one) == ["check", "level", "text", "advice"]
        assert bool(one["advice"]) is (one["level"] != "ok")
    levels = {one["check"]: one["level"] for one in findings}
    assert levels["nri-socket"] == "problem"
    assert levels["nri-enabled"] == levels["cgroup-version"] == "ok"


def test_a_pipe_has_80_columns_and_no_colour(
    host: FakeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    """The texts are wrapped; only a path that is longer than a line is broken."""
    _, text = doctor(host, capsys)
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text


def test_a_terminal_has_colours_unless_they_are_not_wanted(host: FakeHost) -> None:
    coloured = on_terminal(host)
    assert "\x1b[31mproblem" in coloured
    assert max(len(COLOUR.sub("", line)) for line in coloured.splitlines()) <= 80
    plain = on_terminal(host, NO_COLOR="1")
    assert "\x1b" not in plain
    assert "problem  nri-socket" in plain


def test_names_of_others_are_escaped(
    host: FakeHost, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file may have a name with control characters."""
    host.executable("/opt/nri/plugins/10-\x1b[31mred")
    _, text = doctor(host, capsys)
    assert r"10-\x1b[31mred" in text
    assert "\x1b" not in text


def test_mistakes_are_exit_code_2(
    host: FakeHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["doctor", "--control", "/run/x"]) == 2
    assert "--control: '/run/x', expected unix://" in capsys.readouterr().err
    monkeypatch.setenv("NRIPLUGIN_CONTROL", "nonsense")
    assert main(["doctor"]) == 2
    assert "NRIPLUGIN_CONTROL: 'nonsense'" in capsys.readouterr().err
    code, text = doctor(host, capsys, "--control", "off")
    assert code == 1
    assert "because of --control off" in text


def test_mute_processes(host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
    """Processes that accept and say nothing are given up on, and named."""
    cri = f"{host.root}/run/crio/crio.sock"
    containerd = f"{host.root}/run/containerd/containerd.sock"
    with (
        host.listening(host.control),
        host.listening(cri),
        host.listening(containerd),
    ):
        _, text = doctor(host, capsys, "-o", "json")
    silent = [
        one for one in json.loads(text)["findings"] if "does not answer" in one["text"]
    ]
    assert len(silent) == 3


def test_this_very_machine_is_only_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On any machine there is a page, and no check fails."""
    control = f"unix://{tmp_path}/none.sock"
    assert main(["doctor", "-o", "json", "--control", control]) in (0, 1)
    findings = json.loads(capsys.readouterr().out)["findings"]
    checks = {one["check"] for one in findings}
    assert "check-failed" not in checks
    assert {"nri-socket", "cgroup-version", "kernel", "state-directory"} <= checks
