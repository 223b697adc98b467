"""`nriplugin config check` as a user types it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from support.gopeers import ENVIRON
from support.harness import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nriplugin", "config", *arguments],
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
        "curve: kep\nmemoryQoS: {enabled: true, failurePolicy: fail}\n"
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
        f"nriplugin: {file}: Expected `int` <= 100 - at `$.cpuBurst.percent`\n"
    )


def test_a_missing_file_is_exit_code_2(tmp_path: Path) -> None:
    """The line names the file."""
    done = run("check", tmp_path / "absent")
    assert done.returncode == 2
    assert "absent: cannot be read" in done.stderr
