"""`Journal`: the value that every file had before nriplugin wrote to it.

A row is committed before its file is written. It has the last value that nriplugin did
not write (`original`), the value that is about to be written (`ours`), and what the
file holds until then (`before`). If the process dies at any instant, the file holds
`before` or `ours`, unless another program changed it: this is how `restore` tells.

The database is SQLite in WAL mode with synchronous=NORMAL. A commit is then in the
kernel's page cache, not on the disk: it survives the death of the process, and may be
lost if the machine goes down. But then the cgroups are lost as well, and rows of an
earlier boot are of no use. So a batch costs no fsync. The database stays intact either
way.

Only one thread of one process at a time is between reading an original and writing the
file. `exclusive` takes two locks for that, in this order: an RLock between the threads
that share a Journal, because the kernel's lock belongs to the file descriptor and does
not keep them apart; and flock on a file beside the database, which the kernel releases
if the process dies.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.journal_entries import JournalRow
from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.errors import JournalError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from nriplugin.cgroup.writing.journal_entries import Entry

STATE_DIR = "/var/lib/nriplugin"
DATABASE = "journal.db"
# The directory beside the journal in which `node` keeps records about containers.
RECORDS = "managed"
# The names of the daemon's lock files beside the journal begin with this.
INSTANCE_PREFIX = "instance."
ENV_STATE_DIR = "NRIPLUGIN_STATE_DIR"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"

# Rows of removed cgroups wait for the next transaction. On a node where pods come and
# go and nothing is written there may be none for days, so beyond this many rows one is
# made.
_MAX_FORGOTTEN = 500

_PUT = "INSERT OR REPLACE INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SETTLE = "UPDATE journal SET ours = ?, before = NULL WHERE path = ? AND ours IS ?"
_GET = "SELECT * FROM journal WHERE path = ?"
_ALL = "SELECT * FROM journal ORDER BY path"
_BELOW = """
SELECT * FROM journal WHERE cgroup = ? OR cgroup >= ? AND cgroup < ? ORDER BY path
"""
# With time and identity: another process may have recorded a row since, for a new
# cgroup of the same path, and that row must stay.
_FORGET = "DELETE FROM journal WHERE path = ? AND time = ? AND identity IS ?"


class Journal:
    """The journal in one directory.

    Only `exclusive` may be called by several threads at once. Threads that share a
    journal call every other method inside of it, or under a lock of their own.
    """

    def __init__(
        self,
        directory: str,
        *,
        boot: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the journal of a directory, or begin one.

        Raises:
            JournalError: the directory or the database cannot be made or opened, or the
                database has another version.
        """
        # Late: modules that only name the journal, or its directory, need no SQLite.
        import sqlite3

        from nriplugin.cgroup.journal.storage import connect, open_lock

        self._failure = sqlite3.Error
        self.path = os.path.join(directory, DATABASE)
        self.boot = boot_id() if boot is None else boot
        self._clock = clock
        # Path -> (what was recorded, what the file then held), for writes that
        # succeeded. Stored with the next transaction: one of its own would double the
        # cost of a batch, and if the process dies before, the row is still valid.
        self._settled: dict[str, tuple[str, str]] = {}
        # Path -> the row of a file that is gone; removed with the next transaction.
        self._forgotten: dict[str, JournalRow] = {}
        self._purged = False
        self._threads = threading.RLock()
        # How many blocks of `exclusive` the thread that holds `_threads` is in.
        self._depth = 0
        with self._errors():
            self._lock = open_lock(directory)
        try:
            with self.exclusive(), self._errors():
                self._database = connect(self.path)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Store what waits for a transaction, and close the database and the lock."""
        self._flush()
        self._database.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Exclude all other threads and processes, from reading files to writing them.

        A thread that is inside may enter again; the outermost block holds the lock.

        Raises:
            JournalError: the lock file cannot be locked.
        """
        with self._threads:
            if self._depth == 0:
                self._flock(fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._flock(fcntl.LOCK_UN)

    def _flock(self, operation: int) -> None:
        with self._errors():
            fcntl.flock(self._lock, operation)

    def record(self, entries: Sequence[Entry]) -> None:
        """Store what files hold before they are written, in one transaction.

        Originals may go back even if nothing can be stored, as on a disk that is full:
        the rows that are there tell `restore` all it needs.

        Raises:
            JournalError: nothing is stored, so nothing may be written.
        """
        try:
            self._record(entries)
        except JournalError:
            if not all(self._goes_back(entry) for entry in entries):
                raise

    def _goes_back(self, entry: Entry) -> bool:
        """Return whether an entry replaces nriplugin's value by the original."""
        with self._errors():
            known = self._database.execute(_GET, (entry.path,)).fetchone()
        if known is None or entry.content is None:
            return False
        row = JournalRow._make(known)
        recorded, held = self._settled.get(entry.path, (None, None))
        if row.ours == recorded:
            row = row._replace(ours=held)
        file = entry.path.rpartition("/")[2]
        return (
            (row.boot, row.identity) == (self.boot, entry.identity)
            and same(file, entry.content, row.original)
            and row.is_ours(entry.held)
        )

    def _record(self, entries: Sequence[Entry]) -> None:
        now = self._clock()
        with self._transaction() as database:
            if not self._purged:
                database.execute("DELETE FROM journal WHERE boot <> ?", (self.boot,))
            rows = [
                self._row(entry, database.execute(_GET, (entry.path,)).fetchone(), now)
                for entry in entries
            ]
            database.executemany(_PUT, rows)
        self._purged = True

    def _row(
        self, entry: Entry, known: tuple[object, ...] | None, now: float
    ) -> JournalRow:
        path, cgroup, kind, held, content, identity, left_by_idle = entry
        original, ours = held, content
        before: str | None = held
        if known is not None:
            row = JournalRow._make(known)
            if row.boot == self.boot and row.identity == identity:
                # A side effect (`ours` is None) has no value of nriplugin's to compare
                # with; there it counts whether `cpu.idle` may have set the weight.
                mine = left_by_idle if row.ours is None else row.is_ours(held)
                if held == row.original or mine:
                    original = row.original
                # Otherwise another program has changed the file since, and its value
                # is the new original.
        if content is None:
            before = None
        return JournalRow(
            path, cgroup, kind, original, ours, before, now, self.boot, identity
        )

    def settle(self, path: str, recorded: str, held: str) -> None:
        """Note what a file held after its write succeeded."""
        self._settled[path] = (recorded, held)

    def forget(self, rows: Iterable[JournalRow]) -> None:
        """Drop rows of files that are gone, with the next transaction.

        A row that is recorded anew before that stays.
        """
        self._forgotten.update((row.path, row) for row in rows)
        if len(self._forgotten) > _MAX_FORGOTTEN:
            self._flush()

    def row(self, path: str) -> JournalRow | None:
        """Return the row of a file, if it was recorded since this boot.

        Raises:
            JournalError: the database cannot be read.
        """
        with self._transaction() as database:
            known = database.execute(_GET, (path,)).fetchone()
        row = None if known is None else JournalRow._make(known)
        return row if row is not None and row.boot == self.boot else None

    def rows(self, cgroup: str | None = None) -> list[JournalRow]:
        """Return all rows, or those of a cgroup and below it, ordered by path.

        Raises:
            JournalError: the database cannot be read.
        """
        with self._errors():
            if cgroup is None:
                found = self._database.execute(_ALL)
            else:
                # "0" is the character after "/", so this range has every path that
                # begins with "NAME/".
                name = cgroup.rstrip("/")
                bounds = (name, f"{name}/", f"{name}0")
                found = self._database.execute(_BELOW, bounds)
            return [JournalRow._make(row) for row in found]

    def drop(self, paths: Iterable[str]) -> None:
        """Remove rows that are no longer needed, in one transaction."""
        with self._transaction() as database:
            database.executemany(
                "DELETE FROM journal WHERE path = ?", [(path,) for path in paths]
            )

    def _flush(self) -> None:
        if not (self._settled or self._forgotten):
            return
        try:
            with self._transaction():
                pass
        except JournalError:
            # The rows stay as they were. That is safe: `before` and `ours` both count
            # as nriplugin's.
            self._settled.clear()
            self._forgotten.clear()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._errors():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._catch_up()
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
        self._settled.clear()
        self._forgotten.clear()

    def _catch_up(self) -> None:
        if self._settled:
            # `ours IS ?` leaves a row alone that another process has recorded since.
            self._database.executemany(
                _SETTLE,
                [(held, path, ours) for path, (ours, held) in self._settled.items()],
            )
        if self._forgotten:
            self._database.executemany(
                _FORGET,
                [
                    (row.path, row.time, row.identity)
                    for row in self._forgotten.values()
                ],
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._failure as exc:
            raise JournalError(f"journal {self.path}: {exc}") from exc
        except OSError as exc:
            raise JournalError(f"journal {self.path}: {exc.strerror}") from exc


def boot_id() -> str:
    """Return the kernel's ID of this boot; empty if it cannot be read."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
