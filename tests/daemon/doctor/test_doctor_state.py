"""The findings about state directory, configuration and installation."""

from __future__ import annotations

import importlib.util
import os
import sqlite3
import sysconfig
from typing import TYPE_CHECKING

import pytest
from google.protobuf.internal import api_implementation
from support.hosts import daemon_answering

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.daemon.doctor import configuration, python_environment
from nriplugin.daemon.doctor.state import check

if TYPE_CHECKING:
    from support.hosts import FakeHost


def test_a_state_directory_that_can_be_written(host: FakeHost) -> None:
    assert host.one(check, "state-directory")[0] == "ok"
    assert host.one(check, "state-space")[0] == "ok"
    assert "no journal" in host.one(check, "journal")[1]
    host.state.rmdir()
    level, text, _ = host.one(check, "state-directory")
    assert (level, "can be made" in text) == ("ok", True)
    assert host.find(check, "journal") == []


def test_a_state_directory_that_cannot_be_written(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    level, _, advice = host.one(check, "state-directory")
    assert level == "warning"
    assert "NRIPLUGIN_STATE_DIR" in advice
    host.state.rmdir()
    level, text, _ = host.one(check, "state-directory")
    assert level == "note"
    assert "cannot be made" in text


def test_a_full_disk_is_a_warning(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.statvfs_result((4096, 4096, 100, 10, 10, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    level, text, _ = host.one(check, "state-space")
    assert level == "warning"
    assert "has 0 MiB free" in text


def test_a_journal_is_only_read(host: FakeHost) -> None:
    with Journal(str(host.state)):
        pass
    before = sorted(os.listdir(host.state))
    level, text, _ = host.one(check, "journal")
    assert level == "ok"
    assert "has 0 entries" in text
    assert sorted(os.listdir(host.state)) == before


def test_a_journal_while_it_is_in_use(host: FakeHost) -> None:
    """The daemon has it open; that is no mistake."""
    with Journal(str(host.state)):
        assert host.one(check, "journal")[0] == "ok"


def test_a_journal_of_another_release_is_a_problem(host: FakeHost) -> None:
    with sqlite3.connect(host.state / "journal.db") as database:
        database.execute("PRAGMA user_version = 7")
    database.close()
    level, text, _ = host.one(check, "journal")
    assert level == "problem"
    assert "schema version 7, expected 1" in text


def test_a_corrupt_journal_is_a_problem(host: FakeHost) -> None:
    (host.state / "journal.db").write_bytes(b"not a database, but long enough" * 100)
    level, text, advice = host.one(check, "journal")
    assert level == "problem"
    assert "is corrupt: " in text
    assert "move " in advice


def test_a_journal_that_cannot_be_opened_is_a_warning(host: FakeHost) -> None:
    (host.state / "journal.db").mkdir()
    level, text, _ = host.one(check, "journal")
    assert level == "warning"
    assert "cannot be read" in text


def test_the_configuration(host: FakeHost) -> None:
    one = configuration.check
    assert "the defaults" in host.one(one, "configuration")[1]
    host.config = str(host.directory / "c.yaml")
    (host.directory / "c.yaml").write_text("curve: kep\n")
    assert host.one(one, "configuration")[0] == "ok"
    assert "The curve is kep, as " in host.one(one, "curve")[1]
    (host.directory / "c.yaml").write_text("curve: kep\nunknown: 1\n")
    level, text, advice = host.one(one, "configuration")
    assert level == "problem"
    assert "unknown" in text
    assert f"nriplugin config check {host.config}" in advice
    assert "The curve is auto" in host.one(one, "curve")[1]


def test_a_configuration_that_was_named_and_is_not_there(host: FakeHost) -> None:
    host.config = "/nowhere/config.yaml"
    assert host.one(configuration.check, "configuration")[0] == "problem"


def test_the_configuration_of_the_running_daemon(host: FakeHost) -> None:
    """By its answer, else by its command line; that of a pod is not here."""
    one = configuration.check
    host.process(9, "nriplugin run --config /etc/nriplugin/c.yaml")
    file = host.write("/etc/nriplugin/c.yaml", "curve: nonsense\n")
    assert host.one(one, "configuration")[0] == "problem"
    file.unlink()
    assert host.one(one, "configuration")[0] == "note"
    with daemon_answering(host.control, configuration={"path": "/nowhere/c.yaml"}):
        level, text, _ = host.one(one, "configuration")
        assert (level, "/nowhere/c.yaml" in text) == ("note", True)
    broken = {"path": "/nowhere/c.yaml", "error": "line 3: no"}
    node = {"curve": "kep", "curve_evidence": "3 of 3 containers"}
    with daemon_answering(host.control, configuration=broken, node=node):
        level, text, _ = host.one(one, "configuration")
        assert (level, "line 3: no" in text) == ("problem", True)
        assert host.one(one, "curve")[1] == "The curve is kep: 3 of 3 containers."


def test_the_installation(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    one = python_environment.check
    assert host.one(one, "python")[0] == "ok"
    assert host.one(one, "protobuf")[0] == "ok"
    monkeypatch.setattr(
        sysconfig, "get_config_var", lambda _: "cpython-313-x86_64-linux-musl"
    )
    assert host.one(one, "python")[0] == "warning"
    monkeypatch.setattr(api_implementation, "Type", lambda: "python")
    level, text, _ = host.one(one, "protobuf")
    assert (level, "its python implementation" in text) == ("warning", True)


@pytest.mark.parametrize("there", [True, False])
def test_optional_packages(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    spec = object() if there else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)
    found = host.find(python_environment.check, "packages")
    assert [one[0] for one in found] == ["ok" if there else "note"] * 2


@pytest.mark.parametrize(("user", "level"), [(0, "ok"), (1000, "warning")])
def test_the_user(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, user: int, level: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert host.one(python_environment.check, "user")[0] == level
