"""The pytest plugin: its fixtures, and that other runs do not notice it.

The inner runs are processes of their own, so that they import as an author's do.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PLUGIN = """
from nriplugin.api import nri_pb2 as nri
from nriplugin.nri import Plugin
from nriplugin.nri.testing import make_container, make_pod

class Weight(Plugin):
    def create_container(self, request):
        response = nri.CreateContainerResponse()
        response.adjust.linux.resources.unified["cpu.weight"] = "1"
        return response
"""

# Fails unless only these parts of nriplugin were imported.
QUIET = """
import sys

def test_nothing_was_imported():
    ours = {name for name in sys.modules if name.split(".")[0] == "nriplugin"}
    assert ours == {"nriplugin", "nriplugin.pytest_plugin"}
    assert not [name for name in sys.modules if name.startswith("google.protobuf")]
"""


def run_pytest(directory: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Run one test file in a directory of its own, as an author does."""
    (directory / "test_mine.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q"]
    # Other plugins of this environment, which are slow to start.
    command += ["-p", "no:hypothesispytest", "-p", "no:xdist"]
    command += ["--rootdir", str(directory), str(directory)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=directory
    )


def outcome(run: subprocess.CompletedProcess[str]) -> str:
    """Return the line with the counts, without the time."""
    return run.stdout.splitlines()[-1].partition(" in ")[0]


def test_a_fixture_runs_the_plugin_and_stops_it(tmp_path: Path) -> None:
    """A test needs no import and no setting to get a runtime for its plugin."""
    source = f"""{PLUGIN}
import threading

def test_weight(nri_runtime):
    nri_runtime.run_plugin(Weight())
    pod = make_pod()
    created = nri_runtime.create_container(pod, make_container(pod))
    assert created.adjust.linux.resources.unified["cpu.weight"] == "1"

def test_none_is_left():
    assert [one for one in threading.enumerate() if one.name.startswith("nri-")] == []
"""
    run = run_pytest(tmp_path, source)
    assert outcome(run) == "2 passed", run.stdout


def test_a_mistake_is_one_sentence_at_the_authors_own_line(tmp_path: Path) -> None:
    """The failure shows the line of the test and the sentence, and no frame of ours."""
    source = f"""{PLUGIN}
class Wrong(Weight):
    def start_container(self, pod, container):
        return "started"

def test_wrong(nri_runtime):
    nri_runtime.run_plugin(Wrong())
    pod = make_pod()
    nri_runtime.start_container(pod, make_container(pod))
"""
    run = run_pytest(tmp_path, source)
    assert outcome(run) == "1 failed", run.stdout
    sentence = "Wrong.start_container returned str, expected None"
    assert sentence in run.stdout
    assert ">       nri_runtime.start_container(pod, make_container(pod))" in run.stdout
    assert "def _fail_on_mistakes" not in run.stdout


def test_lenient_and_another_runtime_are_fixtures_too(tmp_path: Path) -> None:
    """`nri_behaviour` decides which runtime both fixtures imitate."""
    source = f"""{PLUGIN}
import pytest
from nriplugin.nri.testing import Behaviour

class Wrong(Weight):
    def configure(self, request):
        self.version = request.runtime_version

    def start_container(self, pod, container):
        return "started"

@pytest.fixture
def nri_behaviour():
    return Behaviour(version="2.1.0", nri_version="0.8.0", request_timeout_s=30)

def test_wrong(lenient_nri_runtime):
    plugin = Wrong()
    lenient_nri_runtime.run_plugin(plugin)
    pod = make_pod()
    lenient_nri_runtime.start_container(pod, make_container(pod))
    assert plugin.version == "2.1.0"
"""
    run = run_pytest(tmp_path, source)
    assert outcome(run) == "1 passed", run.stdout


def test_a_run_without_the_fixtures_imports_nothing(tmp_path: Path) -> None:
    """A run that uses no fixture loads neither protobuf nor the SDK."""
    run = run_pytest(tmp_path, QUIET)
    assert outcome(run) == "1 passed", run.stdout


def test_the_fixtures_are_the_only_addition(pytestconfig: pytest.Config) -> None:
    """The pytest plugin has no hooks, so it cannot change a run."""
    plugin = pytestconfig.pluginmanager.get_plugin("nriplugin")
    assert plugin is not None, "the entry point is not installed"
    assert not pytestconfig.pluginmanager.get_hookcallers(plugin)
