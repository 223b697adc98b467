"""This project's own tests on a real cluster that take too long for every run.

They compare a node with nriplugin and without it themselves, so there is one run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.cache import REPOSITORY
from nodes.programs import KUBERNETES_VERSION
from nodes.shell import NodeError

from conformances.junit import parse_pytest
from conformances.outcomes import Run
from nriplugin import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

DIRECTORY = "tests/e2e/kubernetes"


def run_tests(
    way: str, *, files: str, environment: Mapping[str, str], directory: str = DIRECTORY
) -> Run:
    """Run the tests of these files, those included that `hack/test` leaves out."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", ""),
                f"--config-file={REPOSITORY / 'pyproject.toml'}",
                *sorted(map(str, (REPOSITORY / directory).glob(files))),
                f"--junitxml={report}",
            ],
            cwd=REPOSITORY,
            env={**os.environ, **environment, "NRIPLUGIN_REQUIRE": "all"},
            check=False,
        )
        if not report.exists():
            raise NodeError(f"{files}: pytest has ended without a report")
        outcomes = parse_pytest(report.read_text())
    if not outcomes:
        raise NodeError(f"{files}: no test was run")
    return Run(way, outcomes, time.monotonic() - began)


def versions() -> dict[str, str]:
    """Return the versions of what takes part; docs/kubernetes.md has all of them."""
    return {
        "Kubernetes": KUBERNETES_VERSION.removeprefix("v"),
        "nriplugin": __version__,
    }
