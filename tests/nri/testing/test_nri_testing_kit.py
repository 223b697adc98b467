"""The kit for plugin authors stays out of the product."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import nriplugin

PACKAGE = Path(nriplugin.__file__).parent
KIT = "nriplugin.nri.testing"


def imported_by(path: Path) -> set[str]:
    """Return the modules that a file names in its import statements, anywhere."""
    names = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_only_the_demo_imports_the_kit() -> None:
    """Nothing of the product imports it, except `demo` and the fixtures."""
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if PACKAGE / "nri" / "testing" not in path.parents
        and any(f"{name}.".startswith(f"{KIT}.") for name in imported_by(path))
    }
    assert users == {"cli/demo_scenario.py", "pytest_plugin.py"}


def test_only_the_fixtures_import_pytest() -> None:
    """The product works without pytest: no other module imports it or the fixtures."""
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(
            name.split(".")[0] == "pytest" or name == "nriplugin.pytest_plugin"
            for name in imported_by(path)
        )
    }
    assert users == {"pytest_plugin.py"}


def test_importing_the_sdk_does_not_load_the_kit() -> None:
    """`import nriplugin.nri` loads the session but no module of the kit."""
    script = (
        "import sys, nriplugin.nri\n"
        "print([name for name in sys.modules if name.startswith('nriplugin.nri.t')])\n"
        "print('nriplugin.nri.session' in sys.modules)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n")[:2] == ["[]", "True"]
