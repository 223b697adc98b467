"""PodGroups of the API server: a list, and then what changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.daemon.podgroups.api_server import ApiServer
from nriplugin.daemon.podgroups.failures import FailureReason, ReadFailed
from nriplugin.daemon.podgroups.objects import read_change, read_object, read_page
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from nriplugin.daemon.podgroups.access import ApiAccess
    from nriplugin.daemon.podgroups.groups import Groups
    from nriplugin.kube.podgroup_object import GroupObject

PAGE_OBJECTS = 500


class ApiSource:
    """The API server: a list, and then what changes."""

    def __init__(self, shown: str, access: Callable[[], ApiAccess]) -> None:
        """Ask by this access, which is looked up for every connection."""
        self.shown = shown
        self._access = access
        self._server: ApiServer | None = None
        self._version = ""
        self._page_objects = PAGE_OBJECTS
        self._closed = False

    def follow(self, groups: Groups, stopping: threading.Event) -> None:
        """List if that is needed, and then watch until the server ends that.

        Raises:
            ReadFailed: the server cannot be asked, or does not answer well.
        """
        try:
            if not self._version:
                self._version = self._list(groups)
            if not stopping.is_set():
                self._watch(groups)
        except ReadFailed as exc:
            if exc.reason not in (FailureReason.UNREACHABLE, FailureReason.REFUSED):
                self._version = ""  # what has changed is not known: list again
            raise
        finally:
            self._drop()

    def close(self) -> None:
        """End the connection."""
        self._closed = True
        if self._server is not None:
            self._server.close()

    def _drop(self) -> None:
        if self._server is not None:
            self._server.drop()

    def _open(self) -> ApiServer:
        self._drop()
        try:
            self._server = ApiServer(self._access())
        except ConfigError as exc:
            raise ReadFailed(FailureReason.UNREADABLE, str(exc)) from exc
        if self._closed:
            self._server.close()
        return self._server

    def _list(self, groups: Groups) -> str:
        """Read the whole list; return its version."""
        server, after = self._open(), ""
        found: dict[str, GroupObject] = {}
        while True:
            try:
                page = read_page(server.page(self._page_objects, after))
            except ReadFailed as exc:
                if exc.reason is not FailureReason.TOO_LARGE or self._page_objects == 1:
                    raise
                self._page_objects //= 2
                continue
            for raw in page.items:
                if groups.full(len(found)):
                    break
                try:
                    group = read_object(raw)
                except ReadFailed as exc:
                    groups.note(exc)
                else:
                    found[group.job_id] = group
            after = page.after
            if not after:
                groups.replace(found)
                return page.version

    def _watch(self, groups: Groups) -> None:
        changes = self._open().watch(self._version)
        groups.works()
        for line in changes:
            groups.works()
            try:
                change = read_change(line)
            except ReadFailed as exc:
                if exc.reason in (FailureReason.GONE, FailureReason.ERROR):
                    raise
                groups.note(exc)
                continue
            if change.group is not None:
                groups.put(change.group)
            elif change.gone:
                groups.remove(change.gone)
            self._version = change.version or self._version
