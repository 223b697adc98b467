"""What the executor tells a journal before it writes, and what the journal answers.

`Entry` goes into the journal, `JournalRow` comes out of it, and `OriginalsJournal` is
the interface in between. It is declared here so that this package imports neither
`cgroup.journal` nor its database; `cgroup.journal.Journal` implements it.

A path is not enough to tell a file: a cgroup that is removed and made again has the
same path. So an entry also has the inode number (`identity`), where the files know it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.cgroup.writing.quirks import (
    CPU_IDLE,
    SIDE_EFFECTS,
    held,
    is_left_by_idle,
    neighbour,
)
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    from nriplugin.cgroup.files import Files
    from nriplugin.cgroup.writing.updates import Change

_WEIGHTS = SIDE_EFFECTS[CPU_IDLE]


@runtime_checkable
class Identified(Protocol):
    """Files that can tell a file from a later one of the same path."""

    def identity(self, path: str) -> int:
        """Return a number that no other file has had since boot: the inode's."""
        ...


class JournalRow(NamedTuple):
    """What the journal knows about one file."""

    path: str
    cgroup: str
    type: str
    # The last value in the file that nriplugin did not write.
    original: str
    # The last value that nriplugin wrote; None if the file only changed as a side
    # effect of another write.
    ours: str | None
    # What the file held before that write; None once the write was seen to succeed.
    before: str | None
    time: float
    boot: str
    identity: int | None

    def is_ours(self, held: str) -> bool:
        """Whether a file's content is one that nriplugin's write left there."""
        file = self.path.rpartition("/")[2]
        return any(
            value is not None and same(file, value, held)
            for value in (self.ours, self.before)
        )


class Entry(NamedTuple):
    """A file that is about to be written; `content` is None for a side effect."""

    path: str
    cgroup: str
    type: str
    held: str
    content: str | None
    identity: int | None
    # Whether `cpu.idle` may have set what the file holds (see quirks.py).
    left_by_idle: bool = False


class OriginalsJournal(Protocol):
    """Stores the original values of files; every method may raise JournalError."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Exclude all other threads and processes that use the same journal."""
        ...

    def record(self, entries: Sequence[Entry]) -> None:
        """Store what files hold, before they are written."""
        ...

    def settle(self, path: str, recorded: str, held: str) -> None:
        """Note what a file held after its write succeeded."""
        ...

    def forget(self, rows: Iterable[JournalRow]) -> None:
        """Drop rows of files that are gone."""
        ...

    def drop(self, paths: Iterable[str]) -> None:
        """Remove rows that are no longer needed."""
        ...

    def row(self, path: str) -> JournalRow | None:
        """Return the row of a file, if there is one of this boot."""
        ...

    def rows(self, cgroup: str | None = None) -> list[JournalRow]:
        """Return all rows, or those of a cgroup and the cgroups below it."""
        ...


def entries_of(files: Files, steps: Sequence[Change]) -> list[Entry]:
    """Return what to record before changes are written, side effects included."""
    known = {step.path for step in steps}
    identity = identities(files)
    entries = []
    for step in steps:
        path, cgroup = step.path, step.cgroup
        kind = str(step.resource.type)
        entry = Entry(path, cgroup, kind, step.current, step.content, identity(path))
        if step.resource.file in _WEIGHTS:
            entry = _after_idle(entry, held(files, neighbour(path, CPU_IDLE)))
        entries.append(entry)
        for file in SIDE_EFFECTS.get(step.resource.file, ()):
            path = neighbour(step.path, file)
            if path not in known and (content := held(files, path)) is not None:
                entry = Entry(path, cgroup, file, content, None, identity(path))
                entries.append(_after_idle(entry, step.current))
    return entries


def _after_idle(weight: Entry, idle: str | None) -> Entry:
    left = is_left_by_idle(weight.path, weight.held, idle)
    return weight._replace(left_by_idle=left)


def gone(files: Files, rows: Iterable[JournalRow]) -> list[JournalRow]:
    """Return the rows whose file is gone, or belongs to a later cgroup by now.

    A file that cannot be looked at is not taken for gone.
    """
    identity = identities(files)

    def is_gone(row: JournalRow) -> bool:
        try:
            if not files.exists(row.path):
                return True
        except CgroupError:
            return False
        now = identity(row.path)
        return now is not None and now != row.identity

    return [row for row in rows if is_gone(row)]


def identities(files: Files) -> Callable[[str], int | None]:
    """Return a function from a path to the file's inode number.

    It returns None for a file that is gone, and for all files if these `Files` have no
    inode numbers, as those of a VM's guest.
    """
    if not isinstance(files, Identified):
        return lambda _: None
    identity = files.identity

    def of(path: str) -> int | None:
        try:
            return identity(path)
        except CgroupError:
            return None

    return of
