"""Writes back what cgroup files held before the daemon changed them.

The journal knows the original of every direct write. Values that the runtime wrote
because nriplugin answered so are not in it: the runtime owns those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.cgroup.journal.restore import Action

if TYPE_CHECKING:
    from nriplugin.cgroup.journal.restore import Finding
    from nriplugin.daemon.process import DaemonProcess

# The status of a file in a dry run that would be restored.
WOULD = "would be restored"


def restore(process: DaemonProcess, *, dry_run: bool) -> control.RestoreResponse:
    """Write back every original whose file still holds a value of nriplugin.

    Without direct writes nothing was changed, and the answer is empty. The daemon goes
    on deciding: a later update, or `repair`, may write such a value again.

    Raises:
        JournalError: the journal cannot be read or written.
    """
    writer = process.lifecycle.pending.writer
    findings = [] if writer is None else writer.put_back(dry_run=dry_run)
    return control.RestoreResponse(
        files=[restored_file(found, dry_run=dry_run) for found in findings]
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
