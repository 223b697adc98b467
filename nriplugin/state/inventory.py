"""The containers that we know, each in a few words.

A parsed request costs 10 KB, this a tenth of it.
"""

from __future__ import annotations

import threading
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.paths import cgroup_of
from nriplugin.kube.managed import Managed

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from nriplugin.engine.decision import Decision


class Known(NamedTuple):
    """What we know of a container."""

    cgroups_path: str  # as in its OCI spec
    files: Mapping[str, str]  # that are to hold these values, by our decision
    # Files that came from us too, with values that we would not give them now.
    outdated: Mapping[str, str] = MappingProxyType({})
    # Whether the runtime has written all of its files: before that, a file that has
    # another value has not drifted.
    started: bool = False
    # Files that another plugin or a user had set when the container was made.
    others: Mapping[str, str] = MappingProxyType({})
    # The numbers that the values were made of, as in our record; empty: not known.
    numbers: str = ""

    @property
    def managed(self) -> Managed:
        """Return the record that a restart is to find for this container."""
        return Managed(self.ours, self.others, self.numbers)

    @property
    def ours(self) -> Mapping[str, str]:
        """Return the files in which nobody else's wish is."""
        return {**self.outdated, **self.files} if self.outdated else self.files

    @property
    def cgroup(self) -> str | None:
        """Return the container's cgroup, where it has one that we understand."""
        return cgroup_of(self.cgroups_path)

    def after(
        self, decision: Decision, explicit: Container[str], numbers: str
    ) -> Known:
        """Return what the container is once an update is done.

        Args:
            decision: about the update.
            explicit: the files that kubelet or another plugin sets with the update,
                which are no longer ours.
            numbers: the container's then.
        """
        files = {f: v for f, v in self.files.items() if f not in explicit}
        files.update(decision.expected())
        outdated = {
            f: v
            for f, v in self.outdated.items()
            if f not in explicit and f not in files
        }
        return self._replace(files=files, outdated=outdated, numbers=numbers)


class Inventory:
    """Containers by ID, for any thread."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, container_id: str) -> Known | None:
        """Return what is known of a container."""
        return self._known.get(container_id)

    def put(self, container_id: str, known: Known) -> None:
        """Remember a container, or what it has become."""
        with self._lock:
            self._known[container_id] = known

    def change(self, container_id: str, was: Known, known: Known) -> bool:
        """Remember what a container has become, unless it is gone or has changed."""
        with self._lock:
            if self._known.get(container_id) is not was:
                return False
            self._known[container_id] = known
            return True

    def drop(self, container_id: str) -> Known | None:
        """Forget a container that is gone."""
        with self._lock:
            return self._known.pop(container_id, None)

    def replace(self, known: dict[str, Known]) -> None:
        """Forget everything else: a new connection tells all that exists."""
        with self._lock:
            self._known = known

    def snapshot(self) -> dict[str, Known]:
        """Return what is known now, for another thread."""
        with self._lock:
            return self._known.copy()
