"""`nriplugin status` that waits or watches, and on a terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import grpc
import pytest
from support.control_daemon import ControlDaemon, good_status, not_ready
from support.gopeers import ENVIRON
from support.harness import PATIENCE_S, wait_until
from support.terminals import COLOUR, on_terminal

from nriplugin.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[ControlDaemon]:
    with ControlDaemon(tmp_path) as serving:
        serving.answers["Status"] = good_status()
        yield serving


def status(daemon: ControlDaemon, *options: str) -> int:
    return main(["status", "--control", daemon.address, *options])


def test_wait_ends_when_the_daemon_is_ready(
    daemon: ControlDaemon, capsys: Captured
) -> None:
    """... and then prints the state; a wait in vain is exit code 1."""
    daemon.answers["Status"] = [not_ready(), not_ready(), good_status()]
    assert status(daemon, "--wait", "--brief") == 0
    assert "healthy, ready" in capsys.readouterr().out
    daemon.answers["Status"] = not_ready()
    assert status(daemon, "--wait", "--wait-duration", "100ms") == 1
    captured = capsys.readouterr()
    assert "in vain" in captured.err
    assert "not ready" in captured.out


def test_wait_says_what_it_waits_for(tmp_path: Path, capsys: Captured) -> None:
    """After two seconds, and once as long as it is the same."""
    address = f"unix://{tmp_path}/none.sock"
    options = ["--wait", "--wait-duration", "4s", "--control", address]
    assert main(["status", *options]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("nriplugin: waiting up to 4 s; no daemon answers")
    assert len(lines) == 3  # the line at the end of the wait, and the error itself


def test_colours_on_a_terminal_alone(daemon: ControlDaemon) -> None:
    """Good is green, failing is red; NO_COLOR and a pipe have no colour."""
    daemon.answers["Status"] = state = not_ready()
    command = ["status", "--control", daemon.address]
    with on_terminal(*command) as running:
        assert running.wait() == 1
    assert "\x1b[31mhealthy, not ready\x1b[0m" in running.text
    assert "\x1b[1mRuntime\x1b[0m        containerd" in running.text
    lines = COLOUR.sub("", running.text).splitlines()
    assert max(map(len, lines)) <= 80
    with on_terminal(*command, NO_COLOR="1") as plain:
        plain.wait()
    assert "\x1b" not in plain.text
    assert COLOUR.sub("", running.text) == plain.text
    state.ready = True
    with on_terminal(*command) as running:
        assert running.wait() == 0
    assert "\x1b[32mhealthy, ready\x1b[0m" in running.text


def test_a_wide_terminal_is_used(daemon: ControlDaemon) -> None:
    """Texts are wrapped to the terminal's width."""
    with on_terminal("status", "--control", daemon.address, columns=70) as narrow:
        narrow.wait()
    with on_terminal("status", "--control", daemon.address, columns=140) as wide:
        wide.wait()
    assert max(map(len, COLOUR.sub("", narrow.text).splitlines())) <= 70
    assert len(wide.text.splitlines()) < len(narrow.text.splitlines())


def test_watch_draws_again_on_a_terminal(daemon: ControlDaemon) -> None:
    """The screen is cleared first; a low one shows the beginning; Ctrl-C is 130."""
    command = ["status", "--watch", "--control", daemon.address]
    with on_terminal(*command, rows=10) as running:
        wait_until(lambda: running.text.count("\x1b[H\x1b[2J") >= 2)
        daemon.answers["Status"] = (grpc.StatusCode.INTERNAL, "broken")
        wait_until(lambda: "\x1b[31mbroken" in running.text)
        running.process.send_signal(signal.SIGINT)
        assert running.wait() == 130
    first = running.text.split("\x1b[H\x1b[2J")[1]
    assert len(first.splitlines()) == 9
    assert "more lines: make the terminal higher" in first


def test_watch_in_a_pipe(daemon: ControlDaemon) -> None:
    """JSON is one line each; pages follow each other."""
    for options, seen in (
        (["-o", "json"], '{"apiVersion": "nriplugin/'),
        ([], "nriplugin 0.1.0: healthy, ready"),
        (["--brief"], "nriplugin 0.1.0: healthy, ready; "),
        (["-o", "yaml"], "apiVersion: nriplugin/"),
    ):
        command = ["status", "--watch", "--control", daemon.address, *options]
        with subprocess.Popen(
            [sys.executable, "-m", "nriplugin", *command],
            stdout=subprocess.PIPE,
            text=True,
            env=ENVIRON,
        ) as process:
            assert process.stdout is not None
            count = 0
            for line in process.stdout:
                assert "\x1b" not in line
                count += line.startswith(seen)
                if count == 2:
                    break
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            assert process.wait(PATIENCE_S) == 130
