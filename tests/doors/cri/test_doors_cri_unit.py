from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest
from support.needs import need

from nriplugin.cli.cri_proxy import add_arguments
from nriplugin.doors.cri.proxy import GRACE_S
from nriplugin.sockets import parse_address

UNIT = Path(__file__).parents[3] / "deploy/nriplugin-cri-proxy.service"
DOCUMENT = Path(__file__).parents[3] / "docs/cri-proxy.md"


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    """Return every setting that the unit has exactly once."""
    text = UNIT.read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line[:1] not in ("#", "[", "")]
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def options(settings: dict[str, str]) -> argparse.Namespace:
    program, command, *argv = settings["ExecStart"].split()
    assert (Path(program).name, command) == ("nriplugin", "cri-proxy")
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    add_arguments(parser)
    return parser.parse_args(argv)


def test_systemd_understands_it(tmp_path: Path) -> None:
    """systemd-analyze accepts every section, key and value."""
    if shutil.which("systemd-analyze") is None:
        need("systemd", "systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    program = "/opt/nriplugin/bin/nriplugin"
    unit.write_text(UNIT.read_text().replace(program, "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in verified.stderr.splitlines() if UNIT.name in line]
    assert (verified.returncode, complaints) == (0, []), verified.stderr


def test_the_socket_is_in_a_directory_of_its_own(settings: dict[str, str]) -> None:
    """systemd removes that directory when the service stops."""
    path = parse_address("--listen", options(settings).listen)
    own, _control = settings["RuntimeDirectory"].split()
    assert str(Path(path).parent) == f"/run/{own}"
    assert own != "nriplugin"


def test_calls_under_way_get_their_time(settings: dict[str, str]) -> None:
    """systemd kills the process later than the proxy's own time limit."""
    assert float(settings["TimeoutStopSec"]) > GRACE_S


def test_it_is_restarted_except_after_a_users_mistake(settings: dict[str, str]) -> None:
    """kubelet has no other way to the runtime."""
    assert settings["Restart"] == "always"
    assert settings["StartLimitIntervalSec"] == "0"
    assert settings["RestartPreventExitStatus"] == "2"


def test_the_document_names_the_same_socket(settings: dict[str, str]) -> None:
    """The documentation has it in kubelet's flag and in kubelet's file."""
    address = options(settings).listen
    text = DOCUMENT.read_text()
    assert f"--container-runtime-endpoint={address}" in text
    assert f"containerRuntimeEndpoint: {address}" in text
