"""The metrics of a real daemon, read and checked by Prometheus' own `promtool`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.daemons import daemon_on_runtime
from support.harness import container, pod
from support.needs import need

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def promtool() -> str:
    """The path of promtool, which hack/promtool unpacks if it is not installed."""
    found = subprocess.run(
        [ROOT / "hack/promtool"], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        need("promtool", found.stderr.strip())
    return found.stdout.strip()


def complaints(promtool: str, text: str) -> str:
    """Return what promtool has to say, and check that it could read the text."""
    command = [promtool, "check", "metrics"]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    assert bool(done.stderr) == (done.returncode == 3)
    return done.stderr


def test_no_complaints(promtool: str, tmp_path: Path) -> None:
    """Names, types, units and help texts follow the conventions."""
    with daemon_on_runtime(tmp_path, "--metrics-per-pod", "3") as daemon:
        daemon.runtime.run_pod_sandbox(pod())
        daemon.runtime.create_container(pod(), container(shares=512))
        text = daemon.get("/metrics").text
    assert "nriplugin_requests_total{" in text
    assert complaints(promtool, text) == ""


def test_promtool_complains(promtool: str) -> None:
    """A metric against the conventions is named."""
    text = "# HELP x_total_ms Help.\n# TYPE x_total_ms counter\nx_total_ms 1\n"
    assert "x_total_ms" in complaints(promtool, text)
