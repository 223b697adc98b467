"""What the engine has to know about this node, looked up once.

A file that is not known to be there is never sent, so whatever cannot be found out
leaves the facts at what is true everywhere.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.paths import cgroup_path
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup_names import KUBEPODS
from nriplugin.engine.allowed_files import OWNABLE
from nriplugin.engine.model import CORE_FILES, NodeFacts
from nriplugin.engine.runtimes import parse_version
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree

_MEMINFO = "/proc/meminfo"


def node_facts(node: DetectedNode, tree: Tree | None) -> NodeFacts:
    """Return the facts, as far as they can be had; without a tree, those without one.

    `writable` says what the mount allows; whether there is anybody to write is for the
    caller to decide.
    """
    version = node.version
    kubepods = node.paths.kubepods()
    files = None if tree is None else container_files(tree, kubepods)
    capacity = _memory_capacity()
    return NodeFacts(
        cgroup_version=version.number,
        cgroup_evidence=version.evidence,
        driver=node.driver.driver,
        files=CORE_FILES if files is None else files,
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        memory_capacity_bytes=capacity,
        memory_allocatable_bytes=_allocatable(tree, kubepods) or capacity,
        kernel=parse_version(os.uname().release),
        writable=tree is not None and version.number == 2 and node.writable(),
    )


def facts_of_pod(tree: Tree, cgroup: str) -> dict[str, Any]:
    """Return what a pod's cgroup tells about the node; nothing if it is no pod's.

    On a node without pods there was nothing to look at before. A cgroup that kubelet
    did not make may be anywhere, and tells nothing about the others.
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
    """Return the files that a container below a cgroup will have; None: no telling.

    Those of the cgroup itself, if it hands their controller on to what is below it.
    """
    if tree.version != 2:
        return None
    files = tree.files
    try:
        handed_on = files.read(f"{cgroup}/cgroup.subtree_control").split()
        if not handed_on:  # there is nothing below it yet
            return None
        there = (f for f in OWNABLE if f.partition(".")[0] in handed_on)
        return frozenset(f for f in there if files.exists(f"{cgroup}/{f}"))
    except CgroupError:
        return None


def _allocatable(tree: Tree | None, kubepods: str) -> int | None:
    """Return what kubelet lets all pods use together: its limit on their cgroup."""
    if tree is None:
        return None
    try:
        limit = int(tree.get(Type.MEMORY_LIMIT, kubepods))
    except CgroupError:
        return None
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
