"""When containers have started, for policies that act directly after a start.

The thread of a request notes a start, as long as a policy needs it. Everything else is
done by the background thread. Adding to a set and taking from it needs no lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.state.inventory import Inventory


class ContainerStarts:
    """The starts that this process has seen of containers that were not resized."""

    def __init__(self, inventory: Inventory) -> None:
        """Note nothing until `wanted` is set."""
        self.wanted = False  # whether a policy that is on needs the time of a start
        self._inventory = inventory
        self._at_s: dict[str, float] = {}  # by container ID
        self._new: set[str] = set()

    def note(self, container_id: str, now_s: float) -> None:
        """Take note that a container starts; called by the thread of a request."""
        self._at_s[container_id] = now_s
        self._new.add(container_id)

    def take_new(self) -> Iterator[str]:
        """Yield the IDs of containers that have started since the last call."""
        while self._new:
            yield self._new.pop()

    def age_s(self, container_id: str, now_s: float) -> float | None:
        """Return for how long a container has been running; None if that is unknown."""
        began = self._at_s.get(container_id)
        return None if began is None else now_s - began

    def resized(self, container_id: str) -> None:
        """Forget the start of a container that was resized."""
        self._at_s.pop(container_id, None)

    def forget_ended(self) -> None:
        """Forget the starts of containers that have ended, or all that nobody needs."""
        if not self.wanted:
            self._at_s.clear()
            self._new.clear()
        for one in list(self._at_s):
            if self._inventory.get(one) is None:
                self._at_s.pop(one, None)
                self._new.discard(one)
