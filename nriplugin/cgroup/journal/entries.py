"""What the journal is told and what it knows, without its database."""

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
    """What the journal knows of one file."""

    path: str
    cgroup: str
    type: str
    original: str
    ours: str | None
    before: str | None
    time: float
    boot: str
    identity: int | None

    def is_ours(self, held: str) -> bool:
        """Whether a file's content is one that we left there."""
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
    # Whether what it holds may be the work of `cpu.idle`.
    left_by_idle: bool = False


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
            if path not in known and (there := held(files, path)) is not None:
                entry = Entry(path, cgroup, file, there, None, identity(path))
                entries.append(_after_idle(entry, step.current))
    return entries


def _after_idle(weight: Entry, idle: str | None) -> Entry:
    left = is_left_by_idle(weight.path, weight.held, idle)
    return weight._replace(left_by_idle=left)


def gone(files: Files, rows: Iterable[JournalRow]) -> list[JournalRow]:
    """Return the rows whose file is gone, or is that of a later cgroup by now.

    An error is no proof of that.
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
    """Return what tells a file from a later one there, if these files can.

    A file that is gone has none.
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
