"""The journal's directory, lock file and database.

* Only the owner may read or change them, because `restore` writes what they say to
  cgroups, as root. Other users' access to the directory is removed, unless it holds
  files that are not the journal's: then the directory is shared, such as /tmp, and only
  the journal's own files are closed to others.
* The schema has a version, in SQLite's `user_version`. A database of another version,
  or with other tables, is not changed at all: neither its rows nor its header.
* Early releases left the version at 0, with the tables of version 1.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import suppress
from errno import EACCES

from nriplugin.cgroup.journal.journal import DATABASE, INSTANCE_PREFIX, RECORDS
from nriplugin.errors import JournalError

VERSION = 1

_LOCK = "journal.lock"
# The names of all files of the journal begin with this. The directory may also hold
# the records of containers and the locks of daemons.
_PREFIX = "journal."
# SQLite keeps these files beside the database while it is open.
_BESIDE = ("-wal", "-shm")
_DAMAGED = ".damaged"

# How long to wait for another process, which holds the database for one transaction.
_BUSY_TIMEOUT_S = 5.0

_TABLE = """
CREATE TABLE journal (
    path TEXT PRIMARY KEY,    -- of the file, below the root
    cgroup TEXT NOT NULL,
    type TEXT NOT NULL,       -- the resource type by which it was last written
    original TEXT NOT NULL,   -- the last value that nriplugin did not write
    ours TEXT,                -- the last value nriplugin wrote; NULL: a side effect
    before TEXT,              -- the value before that; NULL: the write has succeeded
    time REAL NOT NULL,       -- of the last write, seconds since 1970
    boot TEXT NOT NULL,
    identity INTEGER          -- inode number: a later cgroup may have the same path
) WITHOUT ROWID
"""
_COLUMNS = (
    *("path", "cgroup", "type", "original", "ours", "before"),
    *("time", "boot", "identity"),
)


def open_lock(directory: str) -> int:
    """Make the directory if it does not exist, and return its open lock file.

    Raises:
        OSError: one of them cannot be made or opened.
    """
    os.makedirs(directory, mode=0o700, exist_ok=True)
    names = os.listdir(directory)
    own = _PREFIX, INSTANCE_PREFIX
    if all(name.startswith(own) or name == RECORDS for name in names):
        _close_to_others(directory)
    path = os.path.join(directory, _LOCK)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(path, flags, 0o600)
    _close_to_others(path)
    return lock


def has_journal(directory: str) -> bool:
    """Whether there is a journal in a directory; none is made.

    Raises:
        PermissionError: this process may not look, or may not use the journal.
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


def set_aside_if_damaged(directory: str) -> str | None:
    """Rename a journal that is no database any more; return its new path, else None.

    A daemon does this when it starts. What the journal held cannot be written back by
    `restore`, but without a journal there would be no direct writes at all, and no
    value would be put right.

    Raises:
        OSError: the directory cannot be used, or the file cannot be renamed.
    """
    path = os.path.join(directory, DATABASE)
    if not os.path.exists(path):
        return None
    lock = open_lock(directory)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_damaged(path):
            return None
        aside = path + _DAMAGED
        os.replace(path, aside)
        for suffix in _BESIDE:
            with suppress(FileNotFoundError):
                os.unlink(path + suffix)
        return aside
    finally:
        os.close(lock)


def _is_damaged(path: str) -> bool:
    database = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S)
    try:
        found: tuple[str, ...] = database.execute("PRAGMA quick_check(1)").fetchone()
        return found != ("ok",)
    except sqlite3.DatabaseError as exc:
        return exc.sqlite_errorcode in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    finally:
        database.close()


def connect(path: str) -> sqlite3.Connection:
    """Open the database, or make one; the caller holds the lock.

    Raises:
        JournalError: the database has another version, or other tables.
        OSError: the file cannot be made.
        sqlite3.Error: the file cannot be opened, or is not a database.
    """
    _make_private(path)
    database = sqlite3.connect(
        path,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,  # `Journal` begins and ends its transactions itself
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
            "another release of nriplugin made it, and it is left unchanged"
        )
    tables = database.execute("SELECT name FROM sqlite_master").fetchall()
    columns = database.execute("PRAGMA table_info(journal)").fetchall()
    empty = version == 0 and not tables
    if not empty and tuple(column[1] for column in columns) != _COLUMNS:
        raise JournalError(
            f"journal {path}: not the tables of schema version {VERSION}, "
            "so it is left unchanged"
        )
    if version == 0:
        database.execute("BEGIN IMMEDIATE")
        if empty:
            database.execute(_TABLE)
        database.execute(f"PRAGMA user_version = {VERSION}")
        database.execute("COMMIT")


def _make_private(path: str) -> None:
    """Make an empty file for the database, or close an existing one to others.

    SQLite gives the files beside it the same mode. An existing database is not opened
    here: POSIX locks belong to the process, so closing this second descriptor would
    release the locks that SQLite holds on the same file.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, 0o600))
    except FileExistsError:
        for suffix in ("", *_BESIDE):
            _close_to_others(path + suffix)


def _close_to_others(path: str) -> None:
    """Remove the rights of all but the owner, if this process may do so."""
    with suppress(FileNotFoundError, PermissionError):
        mode = os.stat(path).st_mode
        if mode & 0o077:
            os.chmod(path, mode & 0o700)
