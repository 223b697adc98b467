"""Arguments that are no UTF-8: they may name files, and are no reason for a traceback.

A command that can use such a name does; another one says so in one line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.gopeers import ENVIRON
from support.trees import CONTAINER, add_v2, make_v2

if TYPE_CHECKING:
    from pathlib import Path

# The environment of a machine on which text that is not UTF-8 cannot be printed.
STRICT = ENVIRON | {"PYTHONIOENCODING": "utf-8:strict"}
NAME = os.fsdecode(b"\xff")
POD = (
    "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: b}]}}"
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files of such names, in which commands are run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{NAME}.conf").write_text("curve: kep\n")
    (tmp_path / f"wrong{NAME}.conf").write_text("curve: straight\n")
    (tmp_path / f"pod{NAME}.yaml").write_text(POD)
    (tmp_path / f"{NAME}.json").write_text('{"cpu": {"shares": 1024}}')
    (tmp_path / f"{NAME}.d").mkdir()
    (tmp_path / "host" / "proc").mkdir(parents=True)
    (tmp_path / "cgroup").mkdir()
    make_v2(tmp_path / "cgroup")
    add_v2(tmp_path / "cgroup", f"{CONTAINER}/{NAME}")
    return tmp_path


NODE = ["--host-root", "host", "--cgroup-root", "cgroup"]
SERVE = ["--listen", "unix:///tmp/nriplugin-no/a", "--runtime", "unix:///tmp/no/b"]


def run(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    done = subprocess.run(
        [sys.executable, "-m", "nriplugin", *arguments],
        capture_output=True,
        check=False,
        env=STRICT,
        input=given,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    for line in (done.stdout + done.stderr).decode().splitlines():
        assert line.isprintable() or not line
    return done


@pytest.mark.parametrize(
    "arguments",
    [
        ["config", "check", f"{NAME}.conf"],
        ["explain", f"pod{NAME}.yaml", "--config", f"{NAME}.conf"],
        ["convert", f"{NAME}.json"],
        ["detect", "--host-root", NAME, "--cgroup-root", "cgroup"],
        ["detect", "--host-root", "host", "--cgroup-root", f"{NAME}.d"],
        ["detect", "--host-root", "host", "--cgroup-root", NAME, "--json"],
        ["restore", *NODE, "--state-dir", f"{NAME}.d"],
        ["cgroup", "get", "cpu.weight", f"{CONTAINER}/{NAME}", *NODE],
        ["hook", "install", "--hooks-dir", f"{NAME}.d", "--name", f"{NAME}.json"],
        ["hook", "uninstall", "--hooks-dir", f"{NAME}.d"],
    ],
    ids=lambda arguments: " ".join(arguments).encode(errors="replace").decode(),
)
def test_such_a_name_is_as_good_as_any(arguments: list[str]) -> None:
    """A file whose name is not UTF-8 is read, and its name is shown escaped."""
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["config", "check", NAME],
        ["config", "check", f"wrong{NAME}.conf"],
        ["explain", NAME],
        ["explain", f"pod{NAME}.yaml", "--config", NAME],
        ["explain", f"pod{NAME}.yaml", "--node-memory", NAME],
        ["convert", NAME],
        ["convert", "--memory", NAME],
        ["run", "--config", NAME, *NODE],
        ["run", "--name", NAME, *NODE],
        ["run", "--control", f"unix:///dev/null/{NAME}/no.sock", *NODE],
        ["cri-proxy", *SERVE, "--config", NAME, *NODE],
        ["cri-proxy", *SERVE, "--listen", f"unix:///{NAME}/no.sock", *NODE],
        ["cri-proxy", *SERVE, "--runtime", NAME, *NODE],
        ["cri-proxy", *SERVE, "--runtime", f"unix:///{NAME}.sock", *NODE],
        ["cri-proxy", *SERVE, "--socket-mode", NAME, *NODE],
        ["restore", *NODE, "--state-dir", NAME],
        ["cgroup", "get", NAME, *NODE],
        ["cgroup", "get", "cpu.weight", NAME, *NODE],
        ["cgroup", "set", "cpu.weight", "/kubepods", NAME, *NODE],
        [
            *("cgroup", "set", "cpu.weight", f"{CONTAINER}/{NAME}", "3", *NODE),
            *("--state-dir", f"{NAME}.d"),
        ],
        ["load", f"/{NAME}", *NODE],
        ["hook", "install", "--hooks-dir", NAME],
        ["hook", "install", "--hooks-dir", "host", "--config", f"{NAME}.conf"],
        ["hook", "install", "--hooks-dir", "host", "--state-dir", NAME],
        ["hook", "uninstall", "--hooks-dir", "host", "--name", NAME],
    ],
    ids=lambda arguments: " ".join(arguments).encode(errors="replace").decode(),
)
def test_one_that_cannot_be_used_is_named(arguments: list[str]) -> None:
    """The last line on standard error names the argument; the exit code is 2."""
    done = run(*arguments)
    assert done.returncode == 2, done
    *before, last = done.stderr.splitlines()
    assert last.startswith(b"nriplugin: ")
    assert not before or arguments[0] in ("run", "cri-proxy")


@pytest.mark.parametrize(
    "bundle",
    [
        b"/tmp/\xff",
        rb"/tmp/\udcff",
        rb"/tmp/\ud800",
        rb"/tmp/\u001b[31m",
        rb"/tmp/\u0000",
        "/tmp/ü".encode(),
    ],
)
def test_a_bundle_of_any_name(bundle: bytes) -> None:
    """The container starts, and one line says why the hook did nothing."""
    state = b'{"ociVersion": "1.0.2", "id": "a", "pid": 1, "bundle": "%s"}' % bundle
    for policy, code in (("ignore", 0), ("fail", 1)):
        options = ["--failure-policy", policy, *NODE]
        done = run("hook", *options, given=state)
        assert done.returncode == code
        (line,) = done.stderr.splitlines()
        assert line.startswith(b"nriplugin: hook: ")


def test_install_refuses_a_configuration_file_that_json_cannot_name(
    place: Path,
) -> None:
    """JSON cannot hold the name, so the hook could not find the file."""
    run("hook", "install", "--hooks-dir", "host", "--state-dir", NAME)
    assert list((place / "host").glob("*.json")) == []
    run("hook", "install", "--hooks-dir", "host", "--state-dir", "über")
    (path,) = (place / "host").glob("*.json")
    *_, state_dir = json.loads(path.read_text())["hook"]["args"]
    assert state_dir == str(place / "über")
