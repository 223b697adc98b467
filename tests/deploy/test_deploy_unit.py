from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest
from support.needs import need

from nriplugin.cgroup.journal.journal import STATE_DIR
from nriplugin.cli.run import add_arguments
from nriplugin.daemon.systemd_notify import INTERVAL_S

UNIT = Path(__file__).parents[2] / "deploy/nriplugin.service"


@pytest.fixture(scope="module")
def service() -> dict[str, list[str]]:
    """The settings of the section Service; a key may be there more than once."""
    section, settings = "", dict[str, list[str]]()
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and not line.startswith("#"):
            key, equals, value = line.partition("=")
            assert equals, line
            settings.setdefault(key, []).append(value)
    return settings


def test_systemd_understands_it(tmp_path: Path) -> None:
    """systemd knows every section, key and value of the units."""
    if shutil.which("systemd-analyze") is None:
        need("systemd", "systemd-analyze is not installed")
    unit = tmp_path / UNIT.name
    # It looks for the programs, too, which are not those of this machine.
    program = "/opt/nriplugin/bin/nriplugin"
    unit.write_text(UNIT.read_text().replace(program, "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in verified.stderr.splitlines() if UNIT.name in line]
    assert (verified.returncode, said) == (0, []), verified.stderr


def test_the_command_is_one_that_we_have(service: dict[str, list[str]]) -> None:
    """The parser knows the options of ExecStart."""
    (line,) = service["ExecStart"]
    program, command, *options = line.split()
    assert (Path(program).name, command) == ("nriplugin", "run")
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    add_arguments(parser)
    assert parser.parse_args(options).config == "/etc/nriplugin/config.yaml"


def test_a_mistake_of_the_users_is_not_tried_again(
    service: dict[str, list[str]],
) -> None:
    """systemd restarts the service after every exit code but 2."""
    assert service["Restart"] == ["always"]
    assert service["RestartPreventExitStatus"] == ["2"]


def test_a_reload_is_sighup(service: dict[str, list[str]]) -> None:
    """`systemctl reload` sends SIGHUP, at which the configuration is read again."""
    assert service["ExecReload"] == ["/bin/sh -c 'kill -HUP $MAINPID'"]


def test_systemd_hears_from_it(service: dict[str, list[str]]) -> None:
    """It says when it serves, and that it works, at a rate that a busy node allows."""
    assert service["Type"] == ["notify"]
    (seconds,) = service["WatchdogSec"]
    assert int(seconds) / 2 > INTERVAL_S


def test_it_may_write_its_journal_and_cgroups_and_nothing_else(
    service: dict[str, list[str]],
) -> None:
    """The only directory of its own is the state directory."""
    assert service["ProtectSystem"] == ["strict"]
    assert f"/var/lib/{service['StateDirectory'][0]}" == STATE_DIR
    assert service["ProtectControlGroups"] == ["no"]
    assert "ReadWritePaths" not in service


def test_it_has_no_privilege_but_being_root(service: dict[str, list[str]]) -> None:
    """The unit has no capability, no network but loopback, and no way to get one."""
    assert "User" not in service
    for key, value in {
        "CapabilityBoundingSet": "",
        "NoNewPrivileges": "yes",
        "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
        "IPAddressDeny": "any",
        "IPAddressAllow": "localhost",
        "RestrictNamespaces": "yes",
        "PrivateDevices": "yes",
        "ProtectKernelTunables": "yes",
        "ProtectKernelModules": "yes",
    }.items():
        assert service[key] == [value]


def test_the_journal_may_do_what_a_database_does(
    service: dict[str, list[str]],
) -> None:
    """SQLite calls fchown as root, so the unit's filter must allow privileged calls."""
    assert service["SystemCallFilter"] == ["@system-service"]
