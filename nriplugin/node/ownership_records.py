"""Records of the values that nriplugin set on containers, kept across restarts.

Each container has a small file in the state directory, named by the container's ID. Its
text is that of the annotation which an NRI runtime keeps for nriplugin. The file is for
values that no annotation can hold: those that came with an update, and those of doors
that cannot set an annotation.

A file is written under another name and then renamed, so a reader never sees half of
it. If the directory cannot be written, that is logged once, and after a restart the
plugin has to conclude from the runtime's values which of them it set.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import RECORDS
from nriplugin.kube.managed import MAX_LENGTH, parse_managed, render_managed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.kube.managed import Managed

_log = logging.getLogger(__name__)

# Container IDs become file names, so nothing else may pass.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_UNFINISHED = ".new"


class OwnershipRecords:
    """The records in one state directory. Any thread may call it."""

    def __init__(self, state_directory: str) -> None:
        """Keep records below a directory, which is created with the first record."""
        self._directory = os.path.join(state_directory, RECORDS)
        self._lock = threading.Lock()
        self._failing = False  # a failure is logged once, until a write succeeds
        # IDs that may have a file, so that a removal need not ask the disk.
        self._ids: set[str] = set()

    def expect(self, container_id: str) -> None:
        """Announce `put_expected`, so that a removal before it prevents it."""
        self._ids.add(container_id)

    def put_expected(self, container_id: str, managed: Managed) -> None:
        """Store a record that was announced, unless it was dropped meanwhile."""
        with self._lock:
            if container_id in self._ids:
                self._put(container_id, managed)

    def has(self, container_id: str) -> bool:
        """Whether a container may have a record; looks at memory only, not at the disk.

        True for every record that this process has loaded or stored and not dropped.
        """
        return container_id in self._ids

    def load(self) -> dict[str, Managed]:
        """Return all records by container ID; files that cannot be read are skipped."""
        found: dict[str, Managed] = {}
        with self._lock:
            try:
                names = os.listdir(self._directory)
            except OSError:
                return found
            for name in names:
                managed = self._read(name)
                if managed is not None:
                    found[name] = managed
            self._ids.update(found)
        return found

    def _read(self, name: str) -> Managed | None:
        if name.endswith(_UNFINISHED) or not _ID.fullmatch(name):
            return None
        try:
            with open(os.path.join(self._directory, name), encoding="ascii") as file:
                return parse_managed(file.read(MAX_LENGTH + 1))
        except (OSError, UnicodeDecodeError):
            return None

    def put(self, container_id: str, managed: Managed) -> None:
        """Store the record of a container.

        If that fails, an earlier record is removed, because no record at all is better
        than one that is no longer true.
        """
        with self._lock:
            self._put(container_id, managed)

    def _put(self, container_id: str, managed: Managed) -> None:
        if not _ID.fullmatch(container_id):
            return
        # Added before the write: from now on a removal has to look for a file.
        self._ids.add(container_id)
        try:
            self._write(os.path.join(self._directory, container_id), managed)
        except OSError as exc:
            self._drop([container_id])
            if not self._failing:
                _log.warning(
                    "%s: %s: values set by updates are not remembered across restarts",
                    *(self._directory, exc.strerror),
                )
            self._failing = True
        else:
            self._failing = False

    def _write(self, path: str, managed: Managed) -> None:
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        unfinished = os.open(path + _UNFINISHED, flags, 0o600)
        with open(unfinished, "w", encoding="ascii") as file:
            file.write(render_managed(*managed))
        os.rename(path + _UNFINISHED, path)

    def drop(self, *container_ids: str) -> None:
        """Remove the records of containers that are gone."""
        with self._lock:
            self._drop(container_ids)

    def _drop(self, container_ids: Sequence[str]) -> None:
        self._ids.difference_update(container_ids)
        for container_id in container_ids:
            if _ID.fullmatch(container_id):
                with suppress(OSError):
                    os.unlink(os.path.join(self._directory, container_id))
