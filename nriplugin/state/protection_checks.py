"""Warns of memory protection without effect, in batches on the background thread.

Checking a container's protection reads a dozen files. The checks run in one batch per
second, because a wake-up of the background thread per container would compete with the
request thread for the interpreter lock. The size of a batch is limited, because the
warnings are about cgroups that many containers share, and a few show all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.node.outcomes import ProtectionWarnings
from nriplugin.node.protection import without_effect

if TYPE_CHECKING:
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.locating import CgroupLocator
    from nriplugin.state.scheduler import Scheduler

BATCH_S = 1.0
MAX_BATCH = 20


class ProtectionChecks:
    """The containers whose protection is still to be checked."""

    def __init__(
        self, tree: Tree | None, scheduler: Scheduler, locator: CgroupLocator
    ) -> None:
        """Check in this tree; without one, nothing is checked."""
        self._tree = tree
        self._scheduler = scheduler
        self._locator = locator
        self._warnings = ProtectionWarnings()
        self._waiting: list[tuple[ContainerEntry, bool]] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, entry: ContainerEntry, *, raised: bool) -> None:
        """Have a container checked soon; the caller is a request thread.

        `raised` is whether memoryQoS.raiseAncestors is on for the container.
        """
        if self._tree is None:
            return
        # The background thread replaces the list. An append that races with the
        # replacement loses one check, which is harmless.
        waiting = self._waiting
        if not waiting:
            self._scheduler.after(BATCH_S, self._run)
        if len(waiting) < MAX_BATCH:
            waiting.append((entry, raised))

    def _run(self) -> None:
        assert self._tree is not None
        waiting, self._waiting = self._waiting, []
        for entry, raised in waiting:
            pod = entry.pod_cgroup
            if pod is None:
                continue
            # CRI tells no cgroup. Without it, the container would count as its own
            # sibling once its cgroup exists.
            own = self._locator.cgroup_of(entry)
            self._warnings.log(
                without_effect(self._tree, pod, own, entry.files, raised=raised)
            )
