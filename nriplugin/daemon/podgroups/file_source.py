"""PodGroups in a file of manifests, such as one of a mounted ConfigMap."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.daemon.podgroups.failures import FailureReason, ReadFailed
from nriplugin.documents import load_documents
from nriplugin.errors import ConfigError
from nriplugin.kube.manifests import read_manifests

if TYPE_CHECKING:
    import threading

    from nriplugin.daemon.podgroups.groups import Groups
    from nriplugin.kube.podgroup_object import GroupObject

INTERVAL_S = 5.0
MAX_FILE = 8 << 20


class FileSource:
    """A file of manifests; the PodGroups in it are taken."""

    def __init__(self, path: str) -> None:
        """Read the file that has this path."""
        self.shown = self._path = path

    def follow(self, groups: Groups, stopping: threading.Event) -> None:
        """Read the file, and again whenever it has changed.

        Raises:
            ReadFailed: it cannot be read; what was read before stays.
        """
        before: tuple[int, int, int] | None = None
        while not stopping.is_set():
            try:
                found = os.stat(self._path)
                mark = found.st_ino, found.st_mtime_ns, found.st_size
                if mark != before:
                    groups.replace(self._read())
                    before = mark
            except OSError as exc:
                text = f"{self._path}: {exc.strerror or exc}"
                raise ReadFailed(FailureReason.UNREADABLE, text) from exc
            groups.works()
            stopping.wait(INTERVAL_S)

    def close(self) -> None:
        """Do nothing: reading a file ends by itself."""

    def _read(self) -> dict[str, GroupObject]:
        with open(self._path, "rb") as file:
            content = file.read(MAX_FILE + 1)
        if len(content) > MAX_FILE:
            text = f"{self._path}: over {MAX_FILE} bytes"
            raise ReadFailed(FailureReason.TOO_LARGE, text)
        try:
            found = read_manifests(load_documents(content, self._path)).groups
        except ConfigError as exc:
            raise ReadFailed(FailureReason.MALFORMED, str(exc)[:300]) from exc
        return {group.job_id: group for group in found}
