"""The state directory: rights, free space, and the journal of original values."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import quote

from nriplugin.cgroup.journal.journal import DATABASE
from nriplugin.daemon.doctor.finding import note, ok, problem, warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.doctor.finding import CheckFinding
    from nriplugin.daemon.doctor.host import ExaminedHost

# A journal of a node with hundreds of containers has less than 1 MB.
LEAST_FREE_BYTES = 16 << 20


def check(host: ExaminedHost) -> Iterator[CheckFinding]:
    """Say whether original values and records can be kept."""
    directory = host.options.state_directory
    if not os.path.isdir(directory):
        yield _missing(directory)
        return
    if os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        yield ok("state-directory", f"The state directory {directory} can be written.")
    else:
        yield warning(
            "state-directory",
            f"The state directory {directory} cannot be written: direct writes are "
            "not journalled and so not done, and after a restart nriplugin has to "
            "conclude which values are its own.",
            "Run as root, mount the file system read-write, or name another directory "
            "with NRIPLUGIN_STATE_DIR.",
        )
    yield _space(directory)
    yield from _journal(directory)


def _missing(directory: str) -> CheckFinding:
    parent = directory
    while parent and not os.path.isdir(parent):
        parent = parent.rpartition("/")[0]
    if os.access(parent or "/", os.W_OK | os.X_OK, effective_ids=True):
        return ok(
            "state-directory",
            f"The state directory {directory} does not exist yet and can be made.",
        )
    return note(
        "state-directory",
        f"There is no state directory {directory}, and it cannot be made.",
        "Mount a directory of the node there, as the DaemonSet does. Without one, no "
        "lock keeps a second nriplugin waiting, the records of updates are not kept, "
        "and direct writes are not done.",
    )


def _space(directory: str) -> CheckFinding:
    disk = os.statvfs(directory)
    free = disk.f_bavail * disk.f_frsize
    text = f"The file system of {directory} has {free >> 20} MiB free"
    if free >= LEAST_FREE_BYTES:
        return ok("state-space", f"{text}.")
    return warning(
        "state-space",
        f"{text}, less than {LEAST_FREE_BYTES >> 20}: the journal may not be written, "
        "and then direct writes are not done.",
        "Free space on that file system.",
    )


def _journal(directory: str) -> Iterator[CheckFinding]:
    import sqlite3

    from nriplugin.cgroup.journal.storage import VERSION

    path = os.path.join(directory, DATABASE)
    if not os.path.exists(path):
        yield ok("journal", "There is no journal: nothing was written directly.")
        return
    # If no process has it open, SQLite would make files beside it even for a reader.
    in_use = os.path.exists(f"{path}-wal")
    address = f"file:{quote(path)}?{'mode=ro' if in_use else 'immutable=1'}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=0.2)) as database:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            rows = None
            if version == VERSION:
                (rows,) = database.execute("SELECT count(*) FROM journal").fetchone()
                (state,) = database.execute("PRAGMA quick_check(1)").fetchone()
                if state != "ok":
                    raise sqlite3.DatabaseError(state)
    except sqlite3.OperationalError as exc:
        yield warning(
            "journal",
            f"The journal {path} cannot be read: {exc}.",
            "Run doctor as root, and again if the journal was locked.",
        )
    except sqlite3.DatabaseError as exc:
        yield problem(
            "journal",
            f"The journal {path} is corrupt: {exc}. No direct write is done, and "
            "`nriplugin restore` cannot work.",
            f"Stop nriplugin, move {path} and its -wal and -shm files away, and start "
            "it again. The original values in it are lost: drain the node or restart "
            "its pods to get rid of what nriplugin wrote.",
        )
    else:
        if rows is None:
            yield problem(
                "journal",
                f"The journal {path} has schema version {version}, expected {VERSION}: "
                "another release of nriplugin made it, and it is left unchanged.",
                "Run `nriplugin restore` of that release, or move the file away.",
            )
        else:
            yield ok("journal", f"The journal is readable and has {rows} entries.")
