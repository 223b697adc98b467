"""Cases that tests/e2e/guest_cgroup.py runs in a node: steps and expected answers.

All cases of a module run in one process of the guest, because starting Python there
takes seconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nodes.machine import Machine

PYTHON = "/opt/nriplugin/bin/python"
# The scripts import each other as `e2e.NAME`, hence the name of the directory.
IN_GUEST = "/tmp/guest/e2e"
HERE = Path(__file__).parent.parent / "e2e"

# Steps (the name of a method of guest_cgroup.py, and arguments) and expected answers.
Script = list[tuple[tuple[Any, ...], Any]]


def run_script(machine: Machine, name: str, *args: str, stdin: str = "") -> list[Any]:
    """Run one of the scripts for guests; return the lines of JSON that it prints."""
    machine.check("mkdir", "-p", IN_GUEST)
    for each in dict.fromkeys(("guest_cgroup", name)):
        machine.write(f"{IN_GUEST}/{each}.py", (HERE / f"{each}.py").read_text())
    path = f"{IN_GUEST}/{name}.py"
    printed = machine.check(PYTHON, path, *args, stdin=stdin, timeout_s=1200)
    return [json.loads(line) for line in printed.splitlines()]


def run_cases(
    machine: Machine,
    cases: Mapping[str, Script],
    cgroups: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, list[Any]]:
    """Return the answers of every case.

    `cgroups` has, by case, the cgroups of real pods on which it runs; a case without
    them runs on new cgroups.
    """
    steps = {name: [step for step, _ in script] for name, script in cases.items()}
    given = json.dumps({"cases": steps, "cgroups": cgroups or {}})
    return dict(run_script(machine, "guest_cgroup", stdin=given))


def check(script: Script, answers: Sequence[Any]) -> None:
    """Compare; a failure names the step."""
    for number, ((step, expected), answer) in enumerate(
        zip(script, answers, strict=True)
    ):
        assert answer == expected, f"step {number}: {step}"
