"""The directory and the database of the journal: who may read them, which version."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from cgroup.kernels import Kernel
from support.trees import POD

from nriplugin.cgroup.journal.journal import Journal, boot_id
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Update
from nriplugin.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = f"{POD}/cpu.weight"
# What a database had before there were versions.
UNVERSIONED = """
CREATE TABLE journal (
    path TEXT PRIMARY KEY, cgroup TEXT NOT NULL, type TEXT NOT NULL,
    original TEXT NOT NULL, ours TEXT, before TEXT, time REAL NOT NULL,
    boot TEXT NOT NULL, identity INTEGER
) WITHOUT ROWID
"""


@pytest.fixture(autouse=True)
def everybody_may_read_what_is_made() -> Iterator[None]:
    """As under a service manager that says nothing about it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(directory: Path) -> dict[str, int]:
    return {path.name: mode(path) for path in directory.iterdir()}


def write_something(journal: Journal) -> None:
    Executor(Kernel().tree, journal=journal).update(Update(Type.CPU_WEIGHT, POD, 200))


def database(directory: Path, *statements: str) -> Path:
    """Make a database there, and return its file."""
    directory.mkdir(exist_ok=True)
    path = directory / "journal.db"
    with closing(sqlite3.connect(path)) as made:
        for statement in statements:
            made.execute(statement)
        made.commit()
    return path


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as opened:
        (number,) = opened.execute("PRAGMA user_version").fetchone()
    return int(number)


@pytest.mark.parametrize("before", [None, 0o700, 0o755, 0o777])
def test_the_directory_is_only_for_its_owner(
    before: int | None, tmp_path: Path
) -> None:
    """Nobody else may forge what is written back to cgroups as root.

    It may be there already: kubelet makes that of a hostPath volume readable for all.
    """
    state = tmp_path / "state"
    if before is not None:
        state.mkdir()
        state.chmod(before)
    Journal(str(state)).close()
    assert mode(state) == 0o700


def test_a_directory_with_files_of_others_stays_open(tmp_path: Path) -> None:
    """A directory such as /tmp keeps its mode; only the journal's files are closed."""
    tmp_path.chmod(0o755)
    (tmp_path / "other").write_text("")
    with Journal(str(tmp_path)) as journal:
        write_something(journal)
        found = modes(tmp_path)
    assert mode(tmp_path) == 0o755
    assert found.pop("other") == 0o644
    assert set(found.values()) == {0o600}


def test_the_files_are_only_for_their_owner(tmp_path: Path) -> None:
    """Database, write-ahead log, shared memory and lock have mode 0600."""
    with Journal(str(tmp_path / "state")) as journal:
        write_something(journal)
        assert modes(tmp_path / "state") == dict.fromkeys(
            ("journal.db", "journal.db-wal", "journal.db-shm", "journal.lock"), 0o600
        )


def test_files_that_others_could_read_are_closed_to_them(tmp_path: Path) -> None:
    """Files of an earlier release are closed to others, even while they are open."""
    with Journal(str(tmp_path / "state")) as earlier:
        write_something(earlier)
        for path in (tmp_path / "state").iterdir():
            path.chmod(0o644)
        with Journal(str(tmp_path / "state")) as journal:
            assert [row.path for row in journal.rows()] == [FILE]
            found = modes(tmp_path / "state")
    assert (len(found), set(found.values())) == (4, {0o600})


def test_a_new_journal_has_a_version(tmp_path: Path) -> None:
    """A new database has the schema version, for later releases to check."""
    Journal(str(tmp_path)).close()
    assert version(tmp_path / "journal.db") == 1


def test_a_journal_from_before_there_were_versions_is_adopted(tmp_path: Path) -> None:
    """A database of version 0 with the right tables keeps its rows."""
    row = f"'{FILE}', '{POD}', 'cpu.weight', '100', '200', NULL, 5, '{boot_id()}', 7"
    path = database(tmp_path, UNVERSIONED, f"INSERT INTO journal VALUES ({row})")  # noqa: S608 # ours
    with Journal(str(tmp_path)) as journal:
        assert [(row.path, row.original) for row in journal.rows()] == [(FILE, "100")]
        write_something(journal)
    assert version(path) == 1


@pytest.mark.parametrize("number", [2, 7, -1])
def test_another_version_is_one_sentence(number: int, tmp_path: Path) -> None:
    """The error names the file, its version and the expected one."""
    path = database(
        tmp_path, "CREATE TABLE journal (new TEXT)", f"PRAGMA user_version = {number}"
    )
    before = path.read_bytes()
    with pytest.raises(JournalError) as caught:
        Journal(str(tmp_path))
    assert str(caught.value) == (
        f"journal {path}: schema version {number}, expected 1: "
        "another release of nriplugin made it, and it is left unchanged"
    )
    assert path.read_bytes() == before


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("table", ["journal", "addresses"])
def test_another_database_is_one_sentence(
    number: int, table: str, tmp_path: Path
) -> None:
    """A database with other columns is refused and left unchanged."""
    path = database(
        tmp_path, f"CREATE TABLE {table} (name TEXT)", f"PRAGMA user_version = {number}"
    )
    before = path.read_bytes()
    with pytest.raises(JournalError) as caught:
        Journal(str(tmp_path))
    assert str(caught.value) == (
        f"journal {path}: not the tables of schema version 1, so it is left unchanged"
    )
    assert path.read_bytes() == before


def test_an_error_leaves_no_lock_behind(tmp_path: Path) -> None:
    """After an error the lock is free, and a new journal can be opened."""
    path = database(tmp_path, "PRAGMA user_version = 2")
    with pytest.raises(JournalError):
        Journal(str(tmp_path))
    path.unlink()
    with Journal(str(tmp_path)) as journal:
        write_something(journal)
