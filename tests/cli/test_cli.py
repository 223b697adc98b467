"""The command line as a user types it: a process, its output, its exit code."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.gopeers import ENVIRON, Child
from support.harness import PATIENCE_S, PATIENT, container, pod, wait_until
from support.processes import Asking

from nriplugin.cli.main import COMMANDS
from nriplugin.cli.parser import parser_of
from nriplugin.nri.testing.runtime import EmbeddedRuntime


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
    assert cli("--version").stdout.startswith("nriplugin 0.")
    assert json.loads(cli("version", "--json").stdout)["nri"].startswith("0.12")


@pytest.mark.parametrize("command", [[], ["run"], ["demo"], ["version"]])
def test_help_is_there(command: list[str]) -> None:
    """Every command has a help text."""
    done = cli(*command, "--help")
    assert done.returncode == 0
    assert "usage: nriplugin" in done.stdout


def test_every_help_fits_a_terminal_and_explains_every_option(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No line is longer than 80 characters; no option or argument is a bare name."""
    monkeypatch.setenv("COLUMNS", "80")
    _, commands = parser_of(COMMANDS, COMMANDS)
    parsers: list[argparse.ArgumentParser] = [*commands.values()]
    for parser in parsers:  # which grows
        assert max(map(len, parser.format_help().splitlines())) <= 80, parser.prog
        for action in parser._actions:
            assert action.help or action.choices, (parser.prog, action)
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
    assert len(parsers) > len(COMMANDS)


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


@pytest.mark.parametrize(
    ("arguments", "usage", "advice"),
    [
        (["rnu"], "usage: nriplugin [-h]", "did you mean 'run'?"),
        (["run", "--nme", "x"], "usage: nriplugin run ", "did you mean '--name'?"),
        (["cgroup", "get", "--jsn", "x"], "usage: nriplugin cgroup get ", "'--json'?"),
        (["convert", "--curve", "keb"], "usage: nriplugin convert ", "mean 'kep'?"),
        (["status", "-o", "jsn"], "usage: nriplugin status ", "mean 'json'?"),
    ],
)
def test_the_usage_is_that_of_what_was_called(
    arguments: list[str], usage: str, advice: str
) -> None:
    """With the nearest word that would be accepted, and no name of a Python class."""
    done = cli(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(usage)
    assert advice in done.stderr
    assert "<" not in done.stderr


def test_demo_prints_a_table_and_json() -> None:
    """`demo` prints a table for people, and with --json one object per step.

    There is a value before and after, an annotation, a refusal and a resize.
    """
    done = cli("demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert "cpu.max.burst  -             25000" in done.stdout
    assert "refused: memory.max.cgroup2.nri.io: not an allowed file" in done.stdout
    steps = [json.loads(line) for line in cli("demo", "--json").stdout.splitlines()]
    assert steps[1]["went_out"]["cpu.max"] == "200000 100000"
    web, resized = steps[2], steps[-2]
    assert web["before"].keys() == {"cpu.weight", "cpu.max", "memory.max"}
    assert web["went_out"]["pids.max"] == "500"
    assert int(resized["went_out"]["cpu.max.burst"]) == 50_000
    assert steps[0]["apiVersion"] == "nriplugin/v1alpha1"


def test_demo_takes_a_configuration_and_pods(tmp_path: Path) -> None:
    """The same steps for somebody's own files; a mistake in them is exit code 2."""
    config, pods = tmp_path / "config.yaml", tmp_path / "pods.yaml"
    config.write_text("curve: kep")
    pods.write_text(
        "kind: Deployment\nmetadata: {name: own}\nspec: {template: {spec: {containers: "
        "[{name: app, resources: {limits: {cpu: 1}}}]}}}"
    )
    files = ("--config", str(config), "--pods", str(pods))
    lines = cli("demo", *files, "-o", "json").stdout.splitlines()
    created = json.loads(lines[1])
    assert created["subject"] == "default/own/app (Burstable)"
    assert created["went_out"]["cpu.weight"] == "39"
    assert created["before"]["cpu.weight"] == "100"
    pods.write_text("kind: Service\n")
    done = cli("demo", *files)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no pods, expected a manifest with pods" in done.stderr


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
    with EmbeddedRuntime(path, PATIENT) as runtime, Child(*command) as child:
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
        with EmbeddedRuntime(path, PATIENT) as runtime:
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
        print("stuck", file=sys.stderr, flush=True)
        threading.Event().wait()
run(Stuck(), socket_path=sys.argv[1])
"""


def test_a_second_sigterm_does_not_wait(tmp_path: Path) -> None:
    """The first SIGTERM waits for the request under way; the second ends `run` at
    once.
    """
    path = str(tmp_path / "nri.sock")
    said = tmp_path / "said"
    with (
        said.open("w") as log,
        EmbeddedRuntime(path, PATIENT) as runtime,
        Child(sys.executable, "-c", STUCK, path, log=log) as child,
    ):
        runtime.wait_for_plugin(timeout_s=PATIENCE_S)
        asking = Asking(lambda: runtime.start_container(pod(), container()))
        wait_until(lambda: "stuck" in said.read_text())
        child.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not catches_sigterm(child.process.pid))
        child.process.send_signal(signal.SIGTERM)
        assert child.process.wait(PATIENCE_S) == -signal.SIGTERM
        asking.result()  # the runtime has noticed the end


def catches_sigterm(pid: int) -> bool:
    status = dict(
        line.split(":", 1)
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
    )
    return bool(int(status["SigCgt"], 16) & 1 << (signal.SIGTERM - 1))
