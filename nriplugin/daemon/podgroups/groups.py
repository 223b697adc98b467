"""What a source of PodGroups does with what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from nriplugin.daemon.podgroups.failures import ReadFailed
    from nriplugin.kube.podgroup_object import GroupObject


class Groups(Protocol):
    """Takes what a source finds."""

    def replace(self, groups: dict[str, GroupObject]) -> None:
        """Put all PodGroups in the place of those that were known."""

    def put(self, group: GroupObject) -> None:
        """Add a PodGroup, or replace it."""

    def remove(self, job_id: str) -> None:
        """Drop a PodGroup."""

    def works(self) -> None:
        """Take note that the source can be read."""

    def note(self, failure: ReadFailed) -> None:
        """Count the failure to read one object, or one of several attempts."""

    def full(self, count: int) -> bool:
        """Return whether there are as many objects as are kept; count it if so."""
