"""Writes back what cgroup files held before the daemon changed them.

The journal knows the original of every direct write. Values that the runtime wrote
because nriplugin answered so are not in it: the runtime owns those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.journal.restore import Action
from nriplugin.errors import JournalError

if TYPE_CHECKING:
    from nriplugin.cgroup.journal.restore import Finding
    from nriplugin.daemon.process import DaemonProcess

# The status of a file in a dry run that would be restored.
WOULD = "would be restored"


def restore(process: DaemonProcess, *, dry_run: bool) -> control.RestoreResponse:
    """Write back every original whose file still holds a value of nriplugin.

    The daemon goes on deciding: a later update, or `repair`, may write such a value
    again.

    Raises:
        JournalError: the journal cannot be read or written, or it has values of an
            earlier process and this one must not write.
    """
    writer = process.lifecycle.pending.writer
    if writer is None:
        _check_nothing_stays(process)
        return control.RestoreResponse()
    findings = writer.put_back(dry_run=dry_run)
    return control.RestoreResponse(
        files=[restored_file(found, dry_run=dry_run) for found in findings]
    )


def _check_nothing_stays(process: DaemonProcess) -> None:
    """Raise an error if a process that cannot write has a journal with values.

    Raises:
        JournalError: the journal has values, or cannot be read.
    """
    # Late: a process without direct writes needs no SQLite.
    from nriplugin.cgroup.journal.storage import has_journal

    directory, because = process.state_directory, process.no_writer_because
    try:
        if directory is None or not has_journal(directory):
            return
    except PermissionError as exc:
        raise JournalError(
            f"direct writes of an earlier process may stay: {directory}: {exc}"
        ) from exc
    with Journal(directory) as journal:
        files = sum(1 for row in journal.rows() if row.boot == journal.boot)
    if files:
        raise JournalError(
            f"{files} direct writes of an earlier process stay as they are, because "
            f"direct writes are off: {because}; `nriplugin restore` puts them back"
        )


def restored_file(found: Finding, *, dry_run: bool) -> control.RestoredFile:
    """Return the message about one file."""
    cgroup, _, file = found.path.rpartition("/")
    status = str(found.action)
    if dry_run and found.action is Action.RESTORED:
        status = WOULD
    return control.RestoredFile(
        cgroup=cgroup,
        file=file,
        value=found.original,
        status=status,
        detail=found.reason,
    )
