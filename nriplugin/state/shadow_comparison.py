"""What shadow mode would change: per container, and counted over all of them.

The background thread alone calls this; `ShadowCounts` may be read by any thread.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nriplugin.node.observe import differing

if TYPE_CHECKING:
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.verification import ShadowCounts


class ShadowComparison:
    """Compares containers with the values that they would get."""

    def __init__(self, inventory: Inventory, counts: ShadowCounts) -> None:
        self._inventory = inventory
        self._counts = counts
        # By container ID: the files that would change.
        self._would_change: dict[str, tuple[str, ...]] = {}

    def compare(self, tree: Tree, entry: ContainerEntry, cgroup: str) -> None:
        """Compare one container, if it is or was in shadow mode."""
        if not entry.shadow:
            self._would_change.pop(entry.id, None)
            return
        files = differing(tree, cgroup, entry.shadow)
        if files:
            self._would_change[entry.id] = tuple(files)
        elif files is not None:
            self._would_change.pop(entry.id, None)

    def count(self) -> None:
        """Count over the containers that exist now."""
        if not self._would_change and not self._counts.containers:
            return
        for one in list(self._would_change):
            if self._inventory.get(one) is None:
                del self._would_change[one]
        files: Counter[str] = Counter()
        for changed in self._would_change.values():
            files.update(changed)
        self._counts.containers, self._counts.files = len(self._would_change), files

    def forget_all(self) -> None:
        """Forget everything, because nothing is compared any more."""
        self._would_change.clear()
        self.count()
