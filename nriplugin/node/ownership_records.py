"""What we set on containers, kept in the state directory across restarts.

Each container has a small file of its own, named by the container's ID, with the same
text as the annotation that an NRI runtime keeps for us. It is for what no annotation
can hold: values that came with an update, and containers whose door takes none.

A file is written beside its place and renamed, so a reader never sees half of it. If
the directory cannot be written, that is logged once, and the plugin falls back on what
the runtime shows.
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import RECORDS
from nriplugin.kube.managed import MAX_LENGTH, parse_managed, render_managed

# Callers that open the records ask for their directory in the same breath.
from nriplugin.node.state_directory import state_directory as state_directory

if TYPE_CHECKING:
    from nriplugin.kube.managed import Managed

_log = logging.getLogger(__name__)

# IDs become file names.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_UNFINISHED = ".new"


class OwnershipRecords:
    """The records in one state directory. Used by one thread at a time."""

    def __init__(self, state_directory: str) -> None:
        """Keep records below a directory, which is made when the first one is."""
        self._directory = os.path.join(state_directory, RECORDS)
        self._failing = False  # so that it is logged once

    def load(self) -> dict[str, Managed]:
        """Return the record of every container that has one."""
        found: dict[str, Managed] = {}
        try:
            names = os.listdir(self._directory)
        except OSError:
            return found
        for name in names:
            managed = self._read(name)
            if managed is not None:
                found[name] = managed
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
        """Keep what a container has from us.

        If that fails, an earlier record is removed: none at all is better than one that
        is no longer true.
        """
        if not _ID.fullmatch(container_id):
            return
        try:
            self._write(os.path.join(self._directory, container_id), managed)
        except OSError as exc:
            self.drop(container_id)
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
        """Forget containers that are gone."""
        for container_id in container_ids:
            if _ID.fullmatch(container_id):
                with suppress(OSError):
                    os.unlink(os.path.join(self._directory, container_id))
