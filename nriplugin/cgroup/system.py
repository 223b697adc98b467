"""Files of the kernel that are no cgroup's, read and set the way cgroups are.

A tree of its own each: /proc, whose one directory is `/`, and resctrl, where a
directory is a group of tasks that share a part of the cache.
"""

from __future__ import annotations

from nriplugin.cgroup.files import PROC_MAGIC, RESCTRL_MAGIC, LocalFiles
from nriplugin.cgroup.types import contents, formats
from nriplugin.cgroup.types.registry import Registry, Resource, Type
from nriplugin.cgroup.types.tree import Tree

PROC = "/proc"
RESCTRL = "/sys/fs/resctrl"


def proc_registry() -> Registry:
    """Return what we read in /proc."""
    registry = Registry(0)
    content = contents.reading(formats.parse_meminfo)
    registry.add(Resource.of(0, "", "meminfo", content, Type.MEMINFO))
    return registry


def resctrl_registry() -> Registry:
    """Return what we know of resctrl."""
    registry = Registry(0)
    content = contents.schemata()
    registry.add(Resource.of(0, "", "schemata", content, Type.RESCTRL_SCHEMATA))
    return registry


def open_proc(root: str = PROC) -> Tree:
    """Open /proc, or the host's.

    Raises:
        CgroupError: it is not there.
    """
    return Tree(LocalFiles(root, (PROC_MAGIC,)), 0, proc_registry())


def open_resctrl(root: str = RESCTRL) -> Tree:
    """Open resctrl.

    Raises:
        CgroupError: it is not mounted.
    """
    return Tree(LocalFiles(root, (RESCTRL_MAGIC,)), 0, resctrl_registry())
