"""One write, done the way this file's kernel wants it, and looked at afterwards.

The executor and `restore` write nothing except through here.
"""

from __future__ import annotations

from errno import ENODEV, ENOENT, EOPNOTSUPP
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.writing.kernel_text import same, writes
from nriplugin.cgroup.writing.quirks import (
    below_use,
    explain,
    held,
    keep_burst,
    stored_burst,
    without_effect,
    worth_retrying,
)
from nriplugin.cgroup.writing.updates import Status
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.cgroup.types.registry import Resource
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.updates import Change, Writer


class Result(NamedTuple):
    """What became of a file."""

    status: Status
    operation: str = ""
    errno: int | None = None
    reason: str = ""
    # What the file holds now, if it is known.
    held: str | None = None
    by_writer: bool = False


class FileWriter:
    """Writes the files of a tree."""

    def __init__(
        self,
        tree: Tree,
        writer: Writer | None = None,
        trace: Callable[[str, str], None] | None = None,
    ) -> None:
        self._tree = tree
        self._writer = writer
        self._trace = trace

    def write(self, change: Change) -> Result:
        """Make a file hold the content of a change; never raises."""
        files = self._tree.files
        burst = stored_burst(files, change)
        loss = below_use(files, change)
        taken, refusal = self._ask_writer(change)
        file = change.resource.file
        # What the writer cannot express goes on top: an original that is put back was
        # not always written by the rules of `settle`.
        if not (taken and same(file, change.content, held(files, change.path) or "")):
            try:
                self._write_file(change)
            except CgroupError as exc:
                return self.failed(change.resource, change.cgroup, exc, change)
        if burst is not None:
            refusal = keep_burst(files, change, burst) or refusal
        if self._trace is not None:
            self._trace(change.path, change.content)
        if change.passing:
            return Result(Status.WRITTEN, "write", None, refusal, None, taken)
        now = held(files, change.path)
        found = (refusal, loss, without_effect(files, change), change.note)
        reason = "; ".join(one for one in found if one)
        return Result(Status.WRITTEN, "write", None, reason, now, taken)

    def settle(self, change: Change) -> None:
        """Ask for what the writer can keep, where it cannot keep the very value."""
        if self._writer is None:
            return
        where = (self._tree, change.resource, change.cgroup)
        change.content, change.note = self._writer.settled(*where, change.content)
        if change.through is not None:
            change.through, _ = self._writer.settled(*where, change.through)

    def failed(
        self,
        resource: Resource,
        cgroup: str,
        exc: CgroupError,
        change: Change | None = None,
    ) -> Result:
        """Tell what an error means: the cgroup is gone, the file is not of this node.

        Args:
            resource: what was read or written.
            cgroup: of whom.
            exc: what happened.
            change: what was to be written.
        """
        reason, status = str(exc), Status.FAILED
        if exc.errno in (ENOENT, ENODEV):
            status, why = self._missing(resource, cgroup)
            reason = why or reason
        elif exc.errno == EOPNOTSUPP:
            status = Status.UNSUPPORTED
        elif change is not None:
            meaning = explain(self._tree, change, exc.errno)
            reason += f"; {meaning}" if meaning else ""
        return Result(status, exc.operation, exc.errno, reason)

    def _ask_writer(self, change: Change) -> tuple[bool, str]:
        if self._writer is None:
            return False, ""
        answer = self._writer.write(
            self._tree, change.resource, change.cgroup, change.content
        )
        return (answer, "") if isinstance(answer, bool) else (False, answer)

    def _write_file(self, change: Change) -> None:
        files, file = self._tree.files, change.resource.file
        for text in writes(file, change.content):
            try:
                files.write(change.path, text)
            except CgroupError as exc:
                if not worth_retrying(file, exc.errno):
                    raise
                files.write(change.path, text)

    def _missing(self, resource: Resource, cgroup: str) -> tuple[Status, str]:
        files, path = self._tree.files, resource.path(cgroup)
        try:
            if files.exists(path):
                return Status.FAILED, ""  # such as a device that is not there
            directory = path.rpartition("/")[0] or "/"
            if files.exists(directory):
                reason = self._tree.supported(resource.type, cgroup).reason
                return Status.UNSUPPORTED, reason
            mounted = resource.version != 1 or files.exists(f"/{resource.controller}")
        except CgroupError:
            return Status.FAILED, ""
        if mounted:
            return Status.GONE, f"{directory} is not there"
        return Status.UNSUPPORTED, f"controller {resource.controller} is not mounted"
