"""`nriplugin events` against a daemon with chosen events."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from support.control_daemon import NOW, ControlDaemon, good_status
from support.gopeers import ENVIRON
from support.harness import PATIENCE_S, wait_until
from support.terminals import COLOUR, on_terminal

from nriplugin.api import control_pb2 as control
from nriplugin.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Captured = pytest.CaptureFixture[str]

CREATED = control.Event(
    number=1,
    at=NOW,
    kind="created",
    container_id="0123",
    namespace="shop",
    pod="web-0",
    container="nginx",
    files={"cpu.weight": "35", "cpu.max": "50000 100000", "memory.max": "1" * 12},
)
DRIFTED = control.Event(number=2, at=NOW, kind="drifted", text="cpu.weight is 100")
CREATED_LINE = (
    "2027-01-15T08:00:00Z created      shop/web-0/nginx "
    "cpu.max=50000 100000, cpu.weight=35, memory.max=111111111111"
)
DRIFTED_LINE = "2027-01-15T08:00:00Z drifted      cpu.weight is 100"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[ControlDaemon]:
    with ControlDaemon(tmp_path) as serving:
        serving.answers["Status"] = good_status()
        yield serving


@contextmanager
def piped(daemon: ControlDaemon, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = ["events", "--control", daemon.address, *options]
    with subprocess.Popen(
        [sys.executable, "-m", "nriplugin", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRON,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def test_one_line_each_and_at_once(daemon: ControlDaemon) -> None:
    """A line is there before the next event comes; Ctrl-C ends it with 130."""
    with piped(daemon) as process:
        daemon.events.put(CREATED)
        assert line_of(process) == CREATED_LINE
        daemon.events.put(DRIFTED)
        assert line_of(process) == DRIFTED_LINE
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    assert daemon.requests == [control.WatchRequest()]


def test_values_and_text_are_separated(daemon: ControlDaemon, capsys: Captured) -> None:
    event = control.Event(kind="drifted", at=NOW, pod="p", text="it is 100")
    event.files["cpu.weight"] = "35"
    daemon.events.put(event)
    assert main(["events", "--control", daemon.address, "--count", "1"]) == 0
    assert capsys.readouterr().out.endswith("p cpu.weight=35; it is 100\n")


def test_values_of_shadow_mode(daemon: ControlDaemon, capsys: Captured) -> None:
    """They are told apart from those that are in force."""
    new = control.Event(kind="created", at=NOW, pod="p")
    new.shadow.update({"cpu.weight": "59", "cpu.max": "max 100000"})
    known = control.Event(kind="updated", at=NOW, pod="p", text="resized")
    known.files["cpu.weight"] = "35"
    known.shadow["cpu.weight"] = "59"
    daemon.events.put(new)
    daemon.events.put(known)
    assert main(["events", "--control", daemon.address, "--count", "2"]) == 0
    not_set = "shadow mode, not set: "
    first, second = capsys.readouterr().out.splitlines()
    assert first.endswith(f" p {not_set}cpu.max=max 100000, cpu.weight=59")
    assert second.endswith(f" p cpu.weight=35; {not_set}cpu.weight=59; resized")


def test_count_and_kind_and_all(daemon: ControlDaemon, capsys: Captured) -> None:
    """--count counts the events that --kind lets through."""
    for event in (CREATED, DRIFTED, CREATED, DRIFTED):
        daemon.events.put(event)
    options = ["--all", "--count", "2", "--kind", "drifted", "rejected"]
    assert main(["events", "--control", daemon.address, *options]) == 0
    assert capsys.readouterr().out.splitlines() == [DRIFTED_LINE, DRIFTED_LINE]
    assert daemon.requests == [control.WatchRequest(all=True)]


def test_json_is_one_line_each(daemon: ControlDaemon, capsys: Captured) -> None:
    """Each has all fields."""
    daemon.events.put(CREATED)
    options = ["-o", "json", "--count", "1"]
    assert main(["events", "--control", daemon.address, *options]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    event = json.loads(line)
    assert event["files"]["cpu.max"] == "50000 100000"
    assert event["text"] == ""
    assert event["at"] == NOW


def test_lost_events_are_told_of(daemon: ControlDaemon, capsys: Captured) -> None:
    """... on standard error."""
    daemon.events.put(control.Event(number=9, at=NOW, kind="created", lost=7))
    assert main(["events", "--control", daemon.address, "--count", "1"]) == 0
    assert "7 events were not seen" in capsys.readouterr().err


def test_an_unknown_kind_and_hostile_text(
    daemon: ControlDaemon, capsys: Captured
) -> None:
    """An event of a newer daemon is shown, and control sequences are escaped."""
    daemon.events.put(control.Event(kind="new\x1b", at=NOW, text="a\nb"))
    assert main(["events", "--control", daemon.address, "--count", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert r"new\x1b" in line
    assert r"a\x0ab" in line


def test_wrapped_and_coloured_on_a_terminal(daemon: ControlDaemon) -> None:
    """At 80 columns, without a loss."""
    daemon.events.put(CREATED)
    daemon.events.put(DRIFTED)
    command = ["events", "--control", daemon.address, "--count", "2"]
    with on_terminal(*command) as running:
        assert running.wait() == 0
    assert "\x1b[33mdrifted" in running.text
    lines = COLOUR.sub("", running.text).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("    ")
    assert " ".join(lines[0].split() + lines[1].split()) == (
        " ".join(CREATED_LINE.split())
    )


def test_the_end_of_the_daemon(daemon: ControlDaemon, capsys: Captured) -> None:
    """Without --follow it is an error of one line."""
    daemon.events.put(CREATED)
    daemon.events.put(None)
    assert main(["events", "--control", daemon.address]) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [CREATED_LINE]
    assert captured.err == (
        f"nriplugin: the daemon at {daemon.address} has ended the connection; if it "
        "runs, its log says why; --follow would wait for the next one\n"
    )


def test_follow_goes_on_with_the_next_daemon(tmp_path: Path) -> None:
    """All events of a new process are shown, and of the same one those after the last.

    A stream that ends while its process lives on is taken up where it ended.
    """
    with ControlDaemon(tmp_path) as first:
        first.answers["Status"] = good_status()
        with piped(first, "--follow") as process:
            first.events.put(DRIFTED)
            assert line_of(process) == DRIFTED_LINE
            first.events.put(None)
            first.events.put(DRIFTED)
            assert line_of(process) == DRIFTED_LINE
            watches = [r for r in first.requests if isinstance(r, control.WatchRequest)]
            assert watches == [control.WatchRequest(), control.WatchRequest(after=2)]
            first.__exit__()
            with ControlDaemon(tmp_path) as second:
                second.answers["Status"] = state = good_status()
                state.started_at += 100
                wait_until(second.watched.is_set)
                second.events.put(CREATED)
                assert line_of(process) == CREATED_LINE
            assert control.WatchRequest(all=True) in second.requests


def test_no_daemon(tmp_path: Path, capsys: Captured) -> None:
    """Also --follow wants one at the beginning: the address may be mistyped."""
    address = f"unix://{tmp_path}/none.sock"
    for options in ([], ["--follow"]):
        assert main(["events", "--control", address, *options]) == 1
        assert "no daemon answers at" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--count", "0"], "--count: '0', expected a whole number from 1 to 999999999"),
        (["--count", "1" * 20], f"--count: '{'1' * 20}', expected a whole number"),
        (["--count", "1" * 5000], "expected a whole number"),
        (["--count", "few"], "--count: 'few', expected a whole number"),
        (["--kind", "dance"], "--kind: 'dance', expected one of created, "),
    ],
)
def test_mistakes(options: list[str], expected: str, capsys: Captured) -> None:
    """Exit code 2, and what was expected."""
    with pytest.raises(SystemExit, match="2"):
        main(["events", *options])
    assert expected in capsys.readouterr().err
