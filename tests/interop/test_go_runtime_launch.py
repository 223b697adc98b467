from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.gopeers import OBSERVER, until

if TYPE_CHECKING:
    from support.gopeers import CallLog, GoRuntime

pytestmark = pytest.mark.needs_go


class Launcher:
    """A directory of plugins that a runtime executes, and one of their settings."""

    def __init__(self, directory: Path) -> None:
        self._plugins = directory / "plugins"
        self._configs = directory / "conf.d"
        self._plugins.mkdir()
        self._configs.mkdir()

    def install(self, name: str, *command: str, config: str = "") -> None:
        """Add a plugin."""
        path = self._plugins / name
        # There is no PATH to find an interpreter on.
        path.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, *command])}\n")
        path.chmod(0o755)
        if config:
            (self._configs / f"{name}.conf").write_text(config)

    def start(self, runtime: GoRuntime) -> None:
        """Start a runtime that executes what was installed."""
        directories = {"plugin_dir": self._plugins, "config_dir": self._configs}
        runtime.start(
            containers=3, **{key: str(path) for key, path in directories.items()}
        )


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


def test_a_launched_plugin_works(
    runtime: GoRuntime, launcher: Launcher, log: CallLog
) -> None:
    """A plugin that the runtime executes gets its identity, settings and requests."""
    launcher.install("45-seer", str(OBSERVER), "--log", str(log.path), config="a: b\n")
    launcher.start(runtime)
    assert runtime.create(pod={"id": "p1"})
    runtime("event", event="StartContainer", pod={"id": "p2"})
    assert runtime("plugins")["connected"] == 1

    (configure,) = log.lines("Configure")
    assert configure["config"] == "a: b\n"
    assert configure["environ"] == {
        "NRI_PLUGIN_NAME": "seer",
        "NRI_PLUGIN_IDX": "45",
        "NRI_PLUGIN_SOCKET": "3",
    }
    # Before 0.7 plugins that were launched are not synchronized.
    synchronized = runtime.release >= (0, 7)
    assert len(log.lines("Synchronize")) == synchronized
    assert [call for call in log.calls() if call[1]] == [
        ("CreateContainer", "p1", "c900000"),
        ("StartContainer", "p2", "c900000"),
    ]


def test_a_launched_plugin_ends_with_its_runtime(
    runtime: GoRuntime, launcher: Launcher, tmp_path: Path
) -> None:
    """nriplugin, launched by the runtime, works and ends with it."""
    pid_file = tmp_path / "pid"
    program = (
        "import os, pathlib, runpy, sys\n"
        f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid()))\n"
        "os.environ['NRIPLUGIN_CGROUP_VERSION'] = '2'\n"
        "sys.argv[1:] = ['run', '--control', 'off', '--http', 'off']\n"
        "runpy.run_module('nriplugin', run_name='__main__')\n"
    )
    launcher.install("45-ours", "-c", program, config="failurePolicy: fail\n")
    launcher.start(runtime)
    adjust = runtime.create()
    assert adjust["linux"]["resources"]["unified"]["cpu.weight"] == "59"
    process = f"/proc/{pid_file.read_text()}/exe"
    runtime("shutdown")
    until(lambda: not has_program(process), "the plugin ended")


def has_program(exe: str) -> bool:
    """Whether a process lives; a zombie has no program any more."""
    try:
        return bool(Path(exe).readlink())
    except OSError:
        return False


@pytest.mark.parametrize("version", ["0.6.1"], scope="module")
def test_a_launched_plugin_may_be_idle(
    runtime: GoRuntime, launcher: Launcher, log: CallLog
) -> None:
    """A plugin that is never synchronized does not take silence for the end."""
    # Much less than that, a runtime may take to configure it on a busy machine.
    patience = "--patience-s", "4"
    launcher.install("45-seer", str(OBSERVER), "--log", str(log.path), *patience)
    launcher.start(runtime)
    time.sleep(4.5)
    assert runtime("plugins")["connected"] == 1
    assert runtime.create()
