"""Finds out the facts about this node that the engine needs to decide.

The facts are the cgroup version and driver, the cgroup files that containers have, the
node's memory and the kernel's version. They are read once at the start. The files of
containers and the allocatable memory are read again from the first pod's cgroup if the
node had no pods at the start (state/learning.py).

The rule: a fact that cannot be found out keeps a default that holds on every node. For
example, the engine never sends a file that is not known to exist.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.paths import cgroup_path
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup_names import KUBEPODS
from nriplugin.engine.allowed_files import OWNABLE, V1_FILES
from nriplugin.engine.model import CORE_FILES, NodeFacts
from nriplugin.engine.runtimes import parse_version
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree

_MEMINFO = "/proc/meminfo"


def node_facts(node: DetectedNode, tree: Tree | None) -> NodeFacts:
    """Return the facts about a node.

    Without a tree, because the node's cgroups cannot be read, the facts that come from
    cgroup files keep their defaults. `writable` says only that the cgroup mount can be
    written; the caller decides whether this process does direct writes at all.
    """
    version = node.version
    kubepods = node.paths.kubepods()
    files = None if tree is None else container_files(tree, kubepods)
    if files is None:
        files = CORE_FILES if version.number == 2 else frozenset()
    capacity = _memory_capacity()
    return NodeFacts(
        cgroup_version=version.number,
        cgroup_evidence=version.evidence,
        driver=node.driver.driver,
        files=files,
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        memory_capacity_bytes=capacity,
        memory_allocatable_bytes=_allocatable(tree, kubepods) or capacity,
        kernel=parse_version(os.uname().release),
        writable=tree is not None and node.writable(),
    )


def facts_of_pod(tree: Tree, cgroup: str) -> dict[str, Any]:
    """Return the facts about the node that a pod's cgroup shows, by their names.

    A node that had no pods at the start has no such cgroup until its first pod. The
    result is empty if kubelet did not create the cgroup, because such a cgroup may be
    anywhere in the tree and shows nothing about kubelet's pods.
    """
    place = identify(cgroup)
    if place is None or place.level != "pod":
        return {}
    files = container_files(tree, cgroup)
    if files is None:
        return {}
    facts: dict[str, Any] = {"files": files, "driver": place.driver.value}
    kubepods = cgroup_path((*place.root, KUBEPODS), place.driver)
    if (allocatable := _allocatable(tree, kubepods)) is not None:
        facts["memory_allocatable_bytes"] = allocatable
    return facts


def container_files(tree: Tree, cgroup: str) -> frozenset[str] | None:
    """Return the files that a container below a cgroup will have.

    These are the cgroup's own files of those controllers that its
    `cgroup.subtree_control` enables for its children. On cgroup v1 all cgroups but the
    root have the same files, and only those count that handlers set. None: the files
    cannot be known, because the cgroup enables no controller yet or cannot be read.
    """
    files = tree.files
    try:
        if tree.version != 2:
            if not tree.exists(cgroup):
                return None
            return frozenset(
                f for f in V1_FILES if files.exists(tree.file_path(cgroup, f))
            )
        enabled = files.read(f"{cgroup}/cgroup.subtree_control").split()
        if not enabled:
            # Controllers are enabled when the cgroup's first child is created.
            return None
        expected = (f for f in OWNABLE if f.partition(".")[0] in enabled)
        return frozenset(f for f in expected if files.exists(f"{cgroup}/{f}"))
    except CgroupError:
        return None


def _allocatable(tree: Tree | None, kubepods: str) -> int | None:
    """Return the memory limit that kubelet sets on the cgroup of all pods, in bytes."""
    if tree is None:
        return None
    try:
        limit = int(tree.get(Type.MEMORY_LIMIT, kubepods))
    except CgroupError:
        return None
    # A negative number is "no limit".
    return limit if limit > 0 else None


def _memory_capacity() -> int | None:
    try:
        with open(_MEMINFO, encoding="ascii") as file:
            name, amount, unit = file.readline().split()
    except (OSError, ValueError):
        return None
    if (name, unit) != ("MemTotal:", "kB") or not amount.isdecimal():
        return None
    return int(amount) * 1024
