"""The log of a plugin: shown without any configuration, untouched with one."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from support.harness import PATIENCE_S, PATIENT, wait_until

from nriplugin.nri.testing.runtime import EmbeddedRuntime

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = """
import logging, sys
from nriplugin.nri import Plugin, run

class Mine(Plugin):
    def run_pod_sandbox(self, pod):
        logging.getLogger("mine").info("the plugin's own line")
        raise ValueError("a mistake of the plugin")

{configuration}
run(Mine(), name="mine", idx="10", socket_path=sys.argv[1])
"""


def said_by(configuration: str, tmp_path: Path) -> str:
    """Run a plugin without and with a runtime; return its standard error."""
    from support.harness import pod

    path, errors = str(tmp_path / "nri.sock"), tmp_path / "stderr"
    script = SCRIPT.format(configuration=configuration)
    with (
        errors.open("w") as stderr,
        subprocess.Popen(
            [sys.executable, "-c", script, path], stderr=stderr
        ) as process,
    ):
        try:
            if not configuration:
                wait_until(lambda: "not connected to" in errors.read_text())
            with EmbeddedRuntime(path, PATIENT) as runtime:
                runtime.wait_for_plugin(timeout_s=PATIENCE_S)
                runtime.run_pod_sandbox(pod())
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    return errors.read_text()


def test_warnings_and_connections_are_shown_by_default(tmp_path: Path) -> None:
    """Without configuration, stderr has times, levels, connections and failures."""
    said = said_by("", tmp_path)
    for line in (
        f"WARNING not connected to {tmp_path}/nri.sock: No such file or directory",
        "INFO registered with containerd 2.3.0",
        "INFO synchronized: 0 pods, 0 containers",
        "INFO the plugin's own line",
        "ERROR RunPodSandbox: the plugin's handler failed",
        "ValueError: a mistake of the plugin",
        "INFO disconnected: stopped",
    ):
        assert line in said
    assert said.startswith("2")  # the year


def test_a_configured_log_is_left_alone(tmp_path: Path) -> None:
    """With a handler of the program's own there are only that handler's lines."""
    said = said_by(
        "logging.basicConfig(level='ERROR', format='MINE %(message)s')", tmp_path
    )
    first, *_ = said.splitlines()
    assert first == "MINE RunPodSandbox: the plugin's handler failed"
    assert "registered" not in said


def test_a_handler_of_the_packages_logger_is_a_configuration(tmp_path: Path) -> None:
    """A handler on `nriplugin` alone keeps the root logger as it is."""
    said = said_by(
        "logging.getLogger('nriplugin').addHandler(logging.NullHandler())", tmp_path
    )
    assert said == ""


def test_a_level_of_the_program_stays(tmp_path: Path) -> None:
    """Without a handler but with a level, the level counts."""
    said = said_by("logging.getLogger().setLevel('ERROR')", tmp_path)
    assert "ERROR RunPodSandbox" in said
    assert "registered" not in said
