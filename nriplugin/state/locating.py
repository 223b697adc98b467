"""Finds the cgroups of containers whose door does not know them.

CRI messages have no cgroup of a container. It is looked for below the pod's cgroup when
somebody first asks, never during a call, and then kept until the container has ended.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nriplugin.node.observe import container_cgroup

if TYPE_CHECKING:
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.state.inventory import ContainerEntry, Inventory

# How many cgroups of ended containers may be kept before they are dropped.
_MAX_ENDED = 256


class CgroupLocator:
    """The cgroups of all containers. Any thread may call it."""

    def __init__(self, inventory: Inventory, tree: Tree | None) -> None:
        """Look for cgroups in a tree; without one, only the door's are known."""
        self._inventory = inventory
        self._tree = tree
        self._lock = threading.Lock()
        # By container ID. This is no part of an entry: an entry that is replaced stands
        # for a new decision.
        self._found: dict[str, str] = {}

    def cgroup_of(self, entry: ContainerEntry) -> str | None:
        """Return a container's cgroup; None if it is not known and cannot be found."""
        cgroup = entry.cgroup or self._found.get(entry.id)
        pod = entry.pod.cgroup
        if cgroup is not None or self._tree is None or pod is None:
            return cgroup
        cgroup = container_cgroup(self._tree, pod, entry.id)
        if cgroup is not None:
            self._keep(entry.id, cgroup)
        return cgroup

    def _keep(self, container_id: str, cgroup: str) -> None:
        with self._lock:
            self._found[container_id] = cgroup
            if len(self._found) <= len(self._inventory) + _MAX_ENDED:
                return
            known = self._inventory.snapshot()
            self._found = {i: path for i, path in self._found.items() if i in known}
