"""Where the journal is kept: its directory, its lock and its database.

* Only their owner may read or change them, because `restore` writes what they say to
  cgroups, as root. A directory that others may enter is closed to them, unless it holds
  files that are not the journal's: then it is shared, such as /tmp, and only the
  journal's own files are closed.
* The schema has a version, in SQLite's `user_version`. A database of another version,
  or with other tables, is not touched at all: neither its rows nor its header.
* Releases before there were versions left a 0 there, with the tables of version 1.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from errno import EACCES

from nriplugin.cgroup.journal.journal import DATABASE, RECORDS
from nriplugin.errors import JournalError

VERSION = 1

_LOCK = "journal.lock"
# What the names of all files of the journal begin with.
_PREFIX = "journal."
# What SQLite has beside the database as long as somebody uses it.
_BESIDE = ("-wal", "-shm")

# Another process holds the database for as long as one transaction takes.
_BUSY_TIMEOUT_S = 5.0

_TABLE = """
CREATE TABLE journal (
    path TEXT PRIMARY KEY,    -- of the file, below the root
    cgroup TEXT NOT NULL,
    type TEXT NOT NULL,       -- of resource, as which it was last written
    original TEXT NOT NULL,   -- the last value that was not ours
    ours TEXT,                -- the last value we wrote; NULL: a side effect of ours
    before TEXT,              -- what was there until then; NULL: the write was seen
    time REAL NOT NULL,       -- of the last write, seconds since 1970
    boot TEXT NOT NULL,
    identity INTEGER          -- of the file, which its path gets again and again
) WITHOUT ROWID
"""
_COLUMNS = (
    *("path", "cgroup", "type", "original", "ours", "before"),
    *("time", "boot", "identity"),
)


def open_lock(directory: str) -> int:
    """Make the directory, if it is not there, and return its open lock file.

    Raises:
        OSError: one of them cannot be had.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    names = os.listdir(directory)
    if all(name.startswith(_PREFIX) or name == RECORDS for name in names):
        _close_to_others(directory)
    path = os.path.join(directory, _LOCK)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(path, flags, 0o600)
    _close_to_others(path)
    return lock


def has_journal(directory: str) -> bool:
    """Whether there is a journal in a directory; nothing is made by asking.

    Raises:
        PermissionError: we may not look, or may not use what is there.
    """
    database = os.path.join(directory, DATABASE)
    try:
        os.stat(database)
    except FileNotFoundError:
        return False
    for path in (directory, database, os.path.join(directory, _LOCK)):
        usable = os.access(path, os.R_OK | os.W_OK, effective_ids=True)
        if not usable and os.path.exists(path):
            raise PermissionError(EACCES, os.strerror(EACCES), path)
    return True


def connect(path: str) -> sqlite3.Connection:
    """Open the database, or make one; the caller holds the lock.

    Raises:
        JournalError: it is of another version, or has other tables.
        OSError: it cannot be made.
        sqlite3.Error: it cannot be opened, or is no database.
    """
    _make_private(path)
    database = sqlite3.connect(
        path,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,  # transactions are begun and ended by us
        check_same_thread=False,
    )
    try:
        _check_version(database, path)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
    except BaseException:
        database.close()
        raise
    return database


def _check_version(database: sqlite3.Connection, path: str) -> None:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version not in (0, VERSION):
        raise JournalError(
            f"journal {path}: schema version {version}, expected {VERSION}: "
            "another release of nriplugin made it, and it stays as it is"
        )
    tables = database.execute("SELECT name FROM sqlite_master").fetchall()
    columns = database.execute("PRAGMA table_info(journal)").fetchall()
    empty = version == 0 and not tables
    if not empty and tuple(column[1] for column in columns) != _COLUMNS:
        raise JournalError(
            f"journal {path}: not the tables of schema version {VERSION}, "
            "and it stays as it is"
        )
    if version == 0:
        database.execute("BEGIN IMMEDIATE")
        if empty:
            database.execute(_TABLE)
        database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("COMMIT")


def _make_private(path: str) -> None:
    """Make an empty file for the database, or close the one that is there to others.

    SQLite gives the files beside it the same mode. A database that may be open must not
    be opened here as well: closing it would give up the locks that SQLite has on it.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        for suffix in ("", *_BESIDE):
            _close_to_others(path + suffix)


def _close_to_others(path: str) -> None:
    """Take away what others than the owner may do, if we may decide about that."""
    with suppress(FileNotFoundError, PermissionError):
        mode = os.stat(path).st_mode
        if mode & 0o077:
            os.chmod(path, mode & 0o700)
