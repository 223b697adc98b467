"""The command line as a user types it: a process, its output, its exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.gopeers import ENVIRON, Child
from support.harness import PATIENCE_S, container, pod, wait_until

from nriplugin.nri.testing.runtime import Behaviour, EmbeddedRuntime


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nriplugin", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=ENVIRON,
    )


def test_version() -> None:
    """`version` prints one line, or with --json one object."""
    assert cli("version").stdout.startswith("nriplugin 0.")
    assert json.loads(cli("version", "--json").stdout)["nri"].startswith("0.12")


@pytest.mark.parametrize("command", [[], ["run"], ["demo"], ["version"]])
def test_help_is_there(command: list[str]) -> None:
    """Every command has a help text."""
    done = cli(*command, "--help")
    assert done.returncode == 0
    assert "usage: nriplugin" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--idx", "5"], "idx: '5', expected two digits"),
        (["run", "-name", "a,b"], "name: 'a,b', expected letters"),
        (["run", "--config", "/nonexistent/x.yaml"], "/nonexistent/x.yaml"),
        (["run", "--nri-socket", "x" * 200], "--nri-socket: 'x"),
    ],
)
def test_a_users_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], message: str
) -> None:
    """The line names the field, the value and what was expected; no traceback."""
    done = cli(*arguments, "--control", "off")
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [[], ["rnu"], ["run", "--nme", "x"]])
def test_an_unknown_word_is_exit_code_2(arguments: list[str]) -> None:
    """argparse lists the commands or options that exist."""
    done = cli(*arguments)
    assert done.returncode == 2
    assert "usage:" in done.stderr


def test_demo_prints_a_table_and_json() -> None:
    """`demo` prints a table for people, and with --json one object per step."""
    assert "cpu.weight = 174" in cli("demo").stdout
    steps = [json.loads(line) for line in cli("demo", "--json").stdout.splitlines()]
    assert steps[1]["went_out"]["cpu.max"] == "200000 100000"


def test_output_cut_short_is_not_a_traceback() -> None:
    """`nriplugin demo | head -1` prints its line and no error."""
    command = f"{sys.executable} -m nriplugin demo | head -1"
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, env=ENVIRON
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    "spelling",
    [
        ("--name", "--idx", "--config", "--nri-socket"),
        ("-name", "-idx", "-config", "-socket-path"),
    ],
    ids=["ours", "as Go plugins"],
)
def test_run_serves_until_sigterm(tmp_path: Path, spelling: tuple[str, ...]) -> None:
    """`run` registers and answers requests, with either spelling of its options."""
    path = str(tmp_path / "nri.sock")
    config = tmp_path / "config.yaml"
    config.write_text("failurePolicy: ignore\n")
    command = [sys.executable, "-m", "nriplugin", "run", "--control", "off"]
    for option, value in zip(spelling, ("me", "42", str(config), path), strict=True):
        command += [option, value]
    with EmbeddedRuntime(path) as runtime, Child(*command) as child:
        link = runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        assert (link.idx, link.name) == ("42", "me")
        created = runtime.create_container(pod(), container(shares=1024))
        assert created.adjust.linux.resources.unified["cpu.weight"] == "100"
        child.process.send_signal(signal.SIGTERM)
        assert child.process.wait(PATIENCE_S) == 0


def test_run_sends_nothing_on_cgroup_v1(tmp_path: Path) -> None:
    """A runtime on cgroup v1 would fail on a v2 value, so no value is sent."""
    path = str(tmp_path / "nri.sock")
    environ = {**ENVIRON, "NRIPLUGIN_CGROUP_VERSION": "1"}
    command = [sys.executable, "-m", "nriplugin", "run", "--control", "off"]
    command += ["--nri-socket", path, "--read-only"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ)
    try:
        with EmbeddedRuntime(path) as runtime:
            runtime.wait_for_plugin(timeout_s=PATIENCE_S)
            app = container(shares=1024)
            created = runtime.create_container(pod(), app)
            updated = runtime.update_container(pod(), app, app.linux.resources)
            process.terminate()
            _, log = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert not created.adjust.HasField("linux")
    assert not updated.resources.unified
    assert "inactive: cgroup v1, and direct writes are off: --read-only" in log


STUCK = """
import sys, threading
from nriplugin.nri import Plugin, run
class Stuck(Plugin):
    def start_container(self, pod, container):
        threading.Event().wait()
run(Stuck(), socket_path=sys.argv[1])
"""


def test_a_second_sigterm_does_not_wait(tmp_path: Path) -> None:
    """The first SIGTERM waits for the request under way; the second ends `run` at
    once.
    """
    path = str(tmp_path / "nri.sock")
    brief = Behaviour(request_timeout_s=0.2)
    stuck = Child(sys.executable, "-c", STUCK, path)
    with EmbeddedRuntime(path, brief) as runtime, stuck as child:
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        runtime.start_container(pod(), container())  # answered by the watchdog
        child.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not catches_sigterm(child.process.pid))
        child.process.send_signal(signal.SIGTERM)
        assert child.process.wait(PATIENCE_S) == -signal.SIGTERM


def catches_sigterm(pid: int) -> bool:
    status = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return bool(int(status["SigCgt"], 16) & 1 << (signal.SIGTERM - 1))
