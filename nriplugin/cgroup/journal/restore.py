"""`restore`: puts back what files held before nriplugin wrote to them.

A file that another program has changed since is left as it is. The order of writes is
that of every change of a branch (leveled.py): parents before children where values
grow, children before parents where they shrink, and within a cgroup the kernel's order.
It may be killed at any instant and run again: values that are only held between the two
passes are recorded like every other write, and a file that holds its original value
needs nothing but its row removed.
"""

from __future__ import annotations

from enum import StrEnum
from errno import ENOENT, ENOSPC
from typing import TYPE_CHECKING

from nriplugin.cgroup.types.contents import text
from nriplugin.cgroup.types.registry import Resource
from nriplugin.cgroup.writing.file_writer import FileWriter
from nriplugin.cgroup.writing.journal_entries import entries_of, identities
from nriplugin.cgroup.writing.kernel_text import equal, putting_back
from nriplugin.cgroup.writing.leveled import by_depth, downwards, upwards
from nriplugin.cgroup.writing.merging import union
from nriplugin.cgroup.writing.quirks import CPU_IDLE, held, is_left_by_idle, neighbour
from nriplugin.cgroup.writing.updates import Change, Status
from nriplugin.cgroup.writing.write_order import lift_quotas
from nriplugin.errors import CgroupError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Container

    from nriplugin.cgroup.journal.journal import Journal
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.journal_entries import JournalRow
    from nriplugin.cgroup.writing.updates import Writer

_CHANGED = "another program has changed it since"


class Action(StrEnum):
    """What `restore` does about a file."""

    RESTORED = "restored"
    ALREADY = "already back"
    LEFT = "left alone"  # another program has changed it since
    GONE = "gone"  # its cgroup was removed, or the node was booted since
    FAILED = "failed"


class Finding:
    """One file of the journal, and what `restore` does about it."""

    __slots__ = ("action", "now", "original", "ours", "path", "reason")

    def __init__(
        self,
        *,
        path: str,
        original: str,
        ours: str | None,
        now: str | None,
        action: Action,
        reason: str = "",
    ) -> None:
        self.path = path
        self.original = original
        self.ours = ours
        self.now = now
        self.action = action
        self.reason = reason

    @property
    def done(self) -> bool:
        """Whether the journal can drop the row of this file."""
        return self.action in (Action.RESTORED, Action.ALREADY, Action.GONE)

    def as_dict(self) -> dict[str, str | None]:
        """Return the fields, as JSON output has them."""
        return {
            "path": self.path,
            "original": self.original,
            "ours": self.ours,
            "now": self.now,
            "action": self.action,
            "reason": self.reason,
        }


def restore(
    tree: Tree,
    journal: Journal,
    writer: Writer | None = None,
    *,
    dry_run: bool = False,
    only: Container[str] | None = None,
) -> list[Finding]:
    """Put back every original whose file still holds a value that nriplugin wrote.

    With `dry_run` nothing is written; the findings say what would be done. `only` are
    the paths of the files that count; without it, all do.

    Raises:
        JournalError: the journal cannot be read or written.
    """
    with journal.exclusive():
        rows = journal.rows()
        if only is not None:
            rows = [row for row in rows if row.path in only]
        findings = {row.path: _look(tree, journal, row) for row in rows}
        _follow_idle(tree, findings)
        changes = [
            _change(tree, row, findings[row.path])
            for row in rows
            if findings[row.path].action is Action.RESTORED
        ]
        if not dry_run:
            _put_back(tree, journal, FileWriter(tree, writer), changes, findings)
            journal.drop(path for path, found in findings.items() if found.done)
    return list(findings.values())


def _look(tree: Tree, journal: Journal, row: JournalRow) -> Finding:
    finding = Finding(
        path=row.path,
        original=row.original,
        ours=row.ours,
        now=None,
        action=Action.GONE,
    )
    if row.boot != journal.boot:
        finding.reason = "from before the node was booted"
        return finding
    try:
        finding.now = now = tree.files.read(row.path).strip()
        identity = identities(tree.files)(row.path)
    except CgroupError as exc:
        finding.reason = str(exc)
        if exc.errno != ENOENT:
            finding.action = Action.FAILED
        return finding
    if identity != row.identity:
        finding.reason = "another cgroup has this path now"
    elif equal(_file(row.path), row.original, now):
        finding.action = Action.ALREADY
    elif row.ours is None or row.is_ours(now):
        finding.action = Action.RESTORED
    else:
        finding.action = Action.LEFT
        finding.reason = _CHANGED
    return finding


def _follow_idle(tree: Tree, findings: dict[str, Finding]) -> None:
    """Decide about weights that only changed because `cpu.idle` was written.

    Such a row has no value of nriplugin's to compare with (`ours` is None). The weight
    goes back only if `cpu.idle` does, and only if it still holds what the kernel set.
    """
    for finding in findings.values():
        if finding.ours is not None or finding.action is not Action.RESTORED:
            continue
        path = neighbour(finding.path, CPU_IDLE)
        idle = findings.get(path)
        now = held(tree.files, path) if idle is None else idle.now
        stays = now == "1" if idle is None else not idle.done
        if stays:
            finding.action = Action.LEFT
            finding.reason = "cpu.idle stays, and with it the weight"
        elif idle is not None and idle.original == "1":
            finding.action = Action.ALREADY
            finding.reason = "an idle cgroup has no weight"
        elif not is_left_by_idle(finding.path, finding.now or "", now):
            finding.action = Action.LEFT
            finding.reason = _CHANGED


def _change(tree: Tree, row: JournalRow, finding: Finding) -> Change:
    try:
        resource = tree.registry.get(row.type)
    except ConfigError:  # a type that a caller added to another registry
        controller = row.path.split("/")[1] if tree.version == 1 else ""
        resource = Resource.of(tree.version, controller, _file(row.path), text())
    now = finding.now or ""
    ours = [content for content in (row.ours, row.before) if content is not None]
    change = Change(
        resource=resource,
        cgroup=row.cgroup,
        path=row.path,
        current=now,
        content=putting_back(resource.file, row.original, ours),
    )
    if resource.file.startswith("cpuset.") and now and row.original:
        change.through = union(now, row.original)
    return change


def _put_back(
    tree: Tree,
    journal: Journal,
    file_writer: FileWriter,
    changes: list[Change],
    findings: dict[str, Finding],
) -> None:
    levels = by_depth(changes)
    lift_quotas(tree, levels)
    down = downwards(levels)
    if down:
        # If the process dies between the passes, the files hold values of this pass,
        # and the next `restore` has to recognise them as nriplugin's.
        journal.record(entries_of(tree.files, down))
    done = [step for step in down if file_writer.write(step).status is Status.WRITTEN]
    for step in upwards(levels, done):
        result = file_writer.write(step)
        if step.path not in findings:  # a quota that `lift_quotas` added
            if result.status is Status.WRITTEN:
                journal.drop([step.path])
            continue
        finding = findings[step.path]
        if result.status is Status.GONE:
            finding.action = Action.GONE
        elif result.status is not Status.WRITTEN:
            finding.action = Action.FAILED
        finding.reason = result.reason
        if result.errno == ENOSPC and not step.content:
            _fill_like_parent(tree, step, finding)


def _fill_like_parent(tree: Tree, step: Change, finding: Finding) -> None:
    """Give a cpuset that was empty what its parent has, which has the same effect.

    The kernel refuses to empty a cpuset while it has tasks.
    """
    directory = step.path.rpartition("/")[0].rpartition("/")[0]
    effective = held(tree.files, f"{directory}/{step.resource.file}.effective")
    if not effective:
        return
    try:
        tree.files.write(step.path, effective)
    except CgroupError as exc:
        finding.reason = str(exc)
        return
    finding.action = Action.RESTORED
    finding.reason = f"to the parent's {effective}: it has tasks and cannot be empty"


def _file(path: str) -> str:
    return path.rpartition("/")[2]
