"""`nriplugin config check` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from support.gopeers import ENVIRON
from support.harness import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nriplugin", "config", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=ENVIRON,
    )


def test_a_valid_file_is_summed_up(tmp_path: Path) -> None:
    """`config check` lists the handlers that the file and each rule enable."""
    file = tmp_path / "config.yaml"
    file.write_text(
        "curve: kep\nmemoryQoS: {enabled: true, raiseAncestors: true, "
        "failurePolicy: fail}\n"
        "rules:\n- name: gold\n  match: {namespace: a}\n  cpuBurst: {enabled: true}\n"
    )
    done = run("check", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{file}: valid",
        "curve            kep",
        "failure policy   ignore",
        "adopt            off",
        "verify           on",
        "repair           off",
        "checkpoint       /var/lib/kubelet/allocated_pods_state",
        "handlers         memoryQoS (fail), resources",
        "rules[0] (gold)  cpuBurst, memoryQoS (fail), resources",
    ]


def test_a_mistake_is_exit_code_2(tmp_path: Path) -> None:
    """The line has the file, the path of the field and what was expected."""
    file = tmp_path / "config.yaml"
    file.write_text("cpuBurst: {percent: 500}\n")
    done = run("check", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"nriplugin: {file}: line 1: cpuBurst.percent: 500, "
        "expected a whole number from 1 to 100 or null\n"
    )


def test_a_missing_file_is_exit_code_2(tmp_path: Path) -> None:
    """The line names the file."""
    done = run("check", tmp_path / "absent")
    assert done.returncode == 2
    assert "absent: cannot be read" in done.stderr


def test_all_mistakes_are_shown_at_once() -> None:
    """One line each, in the order of the file."""
    done = run("check", "-", stdin="curvy: kep\nrules:\n- match: 1\nadopt: {x: 1}\n")
    assert (done.returncode, done.stdout) == (2, "")
    places = [line.split(": ")[1:4] for line in done.stderr.splitlines()]
    assert places == [
        ["standard input", "line 1", "curvy"],
        ["standard input", "line 3", "rules[0].match"],
        ["standard input", "line 4", "adopt.x"],
    ]


CATCH_ALL = "rules:\n- match: {}\n  cpuBurst: {enabled: true}\n- match: {job: a}\n"


def test_warnings_are_no_mistakes_unless_strict() -> None:
    """A rule that never applies is told with its line; with --strict it is refused."""
    done = run("check", "-", stdin=CATCH_ALL)
    assert (done.returncode, done.stderr) == (0, "")
    assert "warning: line 4: rules[1].match: never applies: rules[0]" in done.stdout
    assert run("check", "--strict", "-", stdin=CATCH_ALL).returncode == 2
    assert run("check", "--strict", "-").returncode == 0


def test_json_has_mistakes_and_warnings() -> None:
    """A program gets both, the place and the line; the exit code stays."""
    done = run("check", "-o", "json", "-", stdin=CATCH_ALL)
    found = json.loads(done.stdout)
    assert (found["apiVersion"], found["kind"]) == ("nriplugin/v1alpha1", "ConfigCheck")
    assert found["valid"] is True
    assert [(one["line"], one["place"]) for one in found["warnings"]] == [
        (4, "rules[1].match")
    ]
    done = run("check", "-o", "json", "-", stdin="a: 1\nb: 2")
    assert done.returncode == 2
    found = json.loads(done.stdout)
    assert (found["valid"], len(found["mistakes"])) == (False, 2)
