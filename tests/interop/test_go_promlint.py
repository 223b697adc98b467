"""The metrics of a real daemon, checked by the library behind `promtool`."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest
from support.daemons import daemon_on_runtime
from support.harness import container, pod

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.needs_go


def complaints(go_peers: Path, text: str) -> str:
    """Return what the linter has to say, and check that it could read the text."""
    done = subprocess.run(
        [go_peers / "promlint"], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    return done.stderr


def test_no_complaints(go_peers: Path, tmp_path: Path) -> None:
    """Names, types, units and help texts follow the conventions."""
    with daemon_on_runtime(tmp_path, "--metrics-per-pod", "3") as daemon:
        daemon.runtime.run_pod_sandbox(pod())
        daemon.runtime.create_container(pod(), container(shares=512))
        text = daemon.get("/metrics").text
    assert "nriplugin_requests_total{" in text
    assert complaints(go_peers, text) == ""


def test_the_linter_complains(go_peers: Path) -> None:
    """A metric against the conventions is named."""
    text = "# HELP x_total_ms Help.\n# TYPE x_total_ms counter\nx_total_ms 1\n"
    assert "x_total_ms" in complaints(go_peers, text)
