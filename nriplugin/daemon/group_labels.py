"""Which PodGroups have a name of their own in metrics, and which share one.

Whoever may create pods can make PodGroups at will, and the values of a label have to be
bounded. A group keeps its name as long as it has pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_GROUPS = 100
OTHER = "other"


class GroupLabels:
    """The names that are in use. Callers hold a lock of their own."""

    def __init__(self) -> None:
        """Begin without names."""
        self._known: set[str] = set()

    def of(self, group: str) -> str:
        """Return the label of a group; the empty one stands for no group."""
        if not group or group in self._known:
            return group
        if len(self._known) >= MAX_GROUPS:
            return OTHER
        self._known.add(group)
        return group

    def keep_only(self, groups: Collection[str]) -> None:
        """Forget the names of groups that are gone."""
        self._known.intersection_update(groups)
