"""The value that every file had before us, kept where a crash cannot take it.

A row is committed before its file is written. It says what the file held that was not
ours (`original`), what we are about to write (`ours`) and what is there until then
(`before`): whenever the process dies, the file holds one of the latter two if nobody
else touched it, and that is how `restore` knows.

SQLite in WAL mode with synchronous=NORMAL. A commit is then in the page cache of the
kernel, not on the disk: it survives the death of the process at any instant, and may
be lost with the machine. But so are the cgroups: what a reboot takes from the journal
describes files that the same reboot took. The database itself stays whole either way,
and rows of an earlier boot are worth nothing. So a batch costs no fsync at all.

One thread of one process at a time is between reading an original and writing the file,
whichever executor or command it is. `exclusive` holds two locks for that: one between
the threads that share a Journal, because the kernel's lock belongs to the descriptor
and so keeps no two of them apart, and then the kernel's lock on a file beside the
database, which the kernel lets go of if the process dies.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.entries import JournalRow
from nriplugin.errors import JournalError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Self

    from nriplugin.cgroup.journal.entries import Entry

STATE_DIR = "/var/lib/nriplugin"
DATABASE = "journal.db"
# A directory of the plugin's own, beside the journal.
RECORDS = "managed"
ENV_STATE_DIR = "NRIPLUGIN_STATE_DIR"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"

# Pods may come and go for days without a transaction.
_MAX_FORGOTTEN = 500

_PUT = "INSERT OR REPLACE INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SETTLE = "UPDATE journal SET ours = ?, before = NULL WHERE path = ? AND ours IS ?"
_GET = "SELECT * FROM journal WHERE path = ?"
_ALL = "SELECT * FROM journal ORDER BY path"
_BELOW = """
SELECT * FROM journal WHERE cgroup = ? OR cgroup >= ? AND cgroup < ? ORDER BY path
"""
# Not what another process has recorded since, of a new cgroup with the same path.
_FORGET = "DELETE FROM journal WHERE path = ? AND time = ? AND identity IS ?"


class Journal:
    """The journal in one directory.

    Only `exclusive` may be called by several threads at once: whoever shares a journal
    between threads calls everything else inside of it, or under a lock of their own.
    """

    def __init__(
        self,
        directory: str,
        *,
        boot: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the journal, or begin one.

        Raises:
            JournalError: there is no such directory to be had, or no database in it, or
                one of another version.
        """
        # Late: not everybody who imports an executor has a journal.
        import sqlite3

        from nriplugin.cgroup.journal.storage import connect, open_lock

        self._failure = sqlite3.Error
        self.path = os.path.join(directory, DATABASE)
        self.boot = boot_id() if boot is None else boot
        self._clock = clock
        # Path -> (what was recorded, what the file then held), of writes that were seen
        # to succeed. It is stored with the next transaction, not with one of its own.
        self._settled: dict[str, tuple[str, str]] = {}
        # Path -> the row of a file that is gone; likewise removed with the next one.
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
        """Store what is not stored yet, as far as possible, and let go."""
        self._flush()
        self._database.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Be the only thread, of all processes, from reading files to writing them.

        A thread that is inside may enter again: the outermost block holds the lock.

        Raises:
            JournalError: the file cannot be locked.
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

        Raises:
            JournalError: nothing is stored, so nothing may be written.
        """
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
        path, cgroup, kind, there, content, identity, left_by_idle = entry
        original, ours = there, content
        before: str | None = there
        if known is not None:
            row = JournalRow._make(known)
            if row.boot == self.boot and row.identity == identity:
                mine = left_by_idle if row.ours is None else row.is_ours(there)
                if there == row.original or mine:
                    original = row.original
                # A value that is neither is somebody's who decided after us: it is
                # what to go back to.
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

        A row that is recorded anew until then stays.
        """
        self._forgotten.update((row.path, row) for row in rows)
        if len(self._forgotten) > _MAX_FORGOTTEN:
            self._flush()

    def row(self, path: str) -> JournalRow | None:
        """Return what is known of a file since this boot.

        Raises:
            JournalError: it cannot be read.
        """
        with self._transaction() as database:
            known = database.execute(_GET, (path,)).fetchone()
        row = None if known is None else JournalRow._make(known)
        return row if row is not None and row.boot == self.boot else None

    def rows(self, cgroup: str | None = None) -> list[JournalRow]:
        """Return everything, or what is of a cgroup and below it, ordered by path.

        Raises:
            JournalError: it cannot be read.
        """
        with self._errors():
            if cgroup is None:
                found = self._database.execute(_ALL)
            else:
                # "0" is the character after "/": the range is everything below.
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
            # The rows stay as they were: safe, only less precise.
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
            # Only if nobody recorded another write since.
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
    """Return what tells this boot from the others; empty where nothing does."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
