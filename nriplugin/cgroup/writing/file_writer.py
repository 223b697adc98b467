"""One write of one file, with the kernel's quirks handled, and read back afterwards.

The executor and `restore` write files only through `FileWriter.write`. It asks systemd
first where there is a `Writer`, keeps the burst that a write of cpu.max may change, and
turns errors into a status with a reason. It never raises for what the kernel answers.
"""

from __future__ import annotations

from errno import ENODEV, ENOENT, EOPNOTSUPP
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.writing.error_meanings import explain
from nriplugin.cgroup.writing.kernel_text import same, writes
from nriplugin.cgroup.writing.quirks import (
    below_use,
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
    """What came of a write to a file."""

    status: Status
    operation: str = ""
    errno: int | None = None
    reason: str = ""
    # What the file holds now; None if it was not read.
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
        # Both are read before the write, because the write changes them.
        burst = stored_burst(files, change)
        loss = below_use(files, change)
        taken, refusal = self._ask_writer(change)
        file = change.resource.file
        # systemd may have set a rounded value: `settle` has rounded every update, but
        # not an original value that `restore` puts back. Then the exact content is
        # written to the file as well.
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
        """Change the content to the nearest one that the writer can keep."""
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
        """Turn an error into a result: failed, the cgroup is gone, or no such file.

        Args:
            resource: which file was read or written.
            cgroup: whose file it was.
            exc: the error.
            change: what was to be written; None if the file was read.
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
        update = self._tree.registry.updater(change.resource.type)
        if update is not None:
            update(files, change.path, change.content)
            return
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
                # The error is about the value, such as a device that does not exist.
                return Status.FAILED, ""
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
