"""docs/doctor.md has every finding that the code knows, and a sample that is real."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from support.gopeers import ENVIRON

import nriplugin.daemon.doctor
from nriplugin.daemon.doctor.finding import FindingLevel

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/doctor.md").read_text()
# `check` | level | what was found | what to do
ROW = re.compile(r"^\| `([a-z-]+)` \| ([a-z]+) \| (.+) \| (.+) \|$", re.MULTILINE)
LEVELS = tuple(map(str, FindingLevel))


def known() -> set[tuple[str, str]]:
    """Return check and level of every finding that the code can make."""
    found = set()
    for file in Path(nriplugin.daemon.doctor.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id in LEVELS:
                first = node.args[0]
                assert isinstance(first, ast.Constant), f"{file}:{node.lineno}"
                found.add((str(first.value), node.func.id))
    return found


def test_every_finding_is_documented() -> None:
    """All but `ok` have a row, and a check that is always ok has one, too."""
    rows = ROW.findall(TEXT)
    documented = [(check, level) for check, level, _, _ in rows]
    assert len(documented) == len(set(documented))
    code = known()
    assert len(code) > 50
    wanted = {one for one in code if one[1] != "ok"}
    assert {one for one in documented if one[1] != "ok"} == wanted
    assert {check for check, _ in documented} == {check for check, _ in code}


def test_the_sample_is_what_the_script_prints() -> None:
    """The parts between `[...]` are parts of the output."""
    (sample,) = re.findall(r"```\n(Sockets\n.*?)```", TEXT, re.DOTALL)
    done = subprocess.run(
        [ROOT / "hack/doctor-sample"],
        capture_output=True,
        text=True,
        check=True,
        env={**ENVIRON, "PYTHON": sys.executable},
    )
    parts = sample.split("\n\n[...]\n\n")
    assert len(parts) > 1
    for part in parts:
        assert part.strip() in done.stdout
