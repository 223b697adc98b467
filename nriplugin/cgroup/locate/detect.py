"""One node: what was detected, and its tree of cgroups opened.

We may run in a container that has the host's files below some directory. The cgroups
are then those below it, or, if they are not mounted there, our own /sys/fs/cgroup.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.cgroup.files import CGROUP2_MAGIC, CGROUP_MAGIC, LocalFiles
from nriplugin.cgroup.locate.driver import DetectedDriver, detect_driver
from nriplugin.cgroup.locate.mounts import MOUNTINFO, Mounts, parse_mountinfo
from nriplugin.cgroup.locate.node_paths import NodePaths
from nriplugin.cgroup.locate.paths import Driver
from nriplugin.cgroup.locate.version import (
    ROOT,
    Version,
    assumed_version,
    detect_version,
)
from nriplugin.cgroup.types.tree import Tree
from nriplugin.errors import CgroupError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.cgroup.writing.updates import Writer

ENV_HOST_ROOT = "NRIPLUGIN_HOST_ROOT"


@dataclass(frozen=True, slots=True)
class DetectedNode:
    """Everything that has to be known before a cgroup of this node can be found."""

    version: Version
    driver: DetectedDriver
    cgroup_root: str
    host_root: str
    mounts: Mounts
    plain: bool  # the tree is a plain directory that somebody named

    @property
    def layout(self) -> NodePaths:
        """Return where the pods are."""
        driver = self.driver
        number = self.version.number
        return NodePaths(number, driver.driver, self.cgroup_root, driver.kube_root)

    def controllers(self) -> list[str]:
        """Return the names of the controllers, sorted; none if they cannot be read."""
        if self.version.number == 1:
            if self.mounts.hierarchies:
                return sorted(self.mounts.hierarchies)
            return sorted(_directories(self.cgroup_root))
        try:
            with self.open_files() as files:
                return sorted(files.read("/cgroup.controllers").split())
        except CgroupError:
            return []

    def open_files(self) -> LocalFiles:
        """Open the door to the cgroups.

        Raises:
            CgroupError: they are not there, or not what they should be.
        """
        if self.plain:
            # Never for a real tree: there, the writes to plain files mean other things.
            return LocalFiles(self.cgroup_root, magics=None)
        if self.version.number == 2:
            return LocalFiles(self.cgroup_root, (CGROUP2_MAGIC,))
        return LocalFiles(self.cgroup_root, (CGROUP_MAGIC,), self.mounts.hierarchies)

    def open_tree(self) -> Tree:
        """Open the cgroups by resource type.

        Raises:
            CgroupError: they are not there, or not what they should be.
        """
        return Tree(self.open_files(), self.version.number)

    def writable(self) -> bool:
        """Say whether the mount and our rights allow writing at all."""
        # On v1 the root only holds the mounts, and is often read-only itself.
        kubepods, root = self.layout.root_path("cpu"), self.layout.path("cpu", "/")
        return os.access(kubepods if os.path.isdir(kubepods) else root, os.W_OK)

    def writer(self) -> Writer | None:
        """Return who has to be asked before a file is written, if anybody."""
        if self.plain or self.driver.driver is not Driver.SYSTEMD:
            return None
        # Late: other nodes need no D-Bus.
        from nriplugin.cgroup.systemd.dbus import SYSTEM_BUS, Bus
        from nriplugin.cgroup.systemd.units import SystemdWriter

        bus = Bus(f"{self.host_root.rstrip('/')}{SYSTEM_BUS}")
        return SystemdWriter(bus, self.layout.kubepods())


def detect_node(
    environ: Mapping[str, str],
    host_root: str | None = None,
    cgroup_root: str | None = None,
) -> DetectedNode:
    """Look at the node; nothing is written.

    A `cgroup_root` that is named may also be a plain directory, such as a copy.

    Raises:
        ConfigError: the environment says something that makes no sense.
    """
    host = (host_root or environ.get(ENV_HOST_ROOT) or "/").rstrip("/")
    root = cgroup_root.rstrip("/") if cgroup_root else _cgroup_root(host)
    version = detect_version(environ, root)
    mounts = _mounts(root, host or "/")
    plain = cgroup_root is not None and not mounts.hierarchies and _is_plain(root)
    if plain and not assumed_version(environ):
        # The type of the file system says nothing; this file is only in v2's root.
        file = f"{root}/cgroup.controllers"
        if os.path.exists(file):
            version = Version(2, f"{file} is there, in a plain directory")
    trees = [root]
    if version.number == 1:
        if mounts.unified and not version.hybrid:
            version = version._replace(hybrid=f"{mounts.unified[0]} is cgroup2")
        named = [f"{root}/{name}" for name in ("cpu", "memory", "systemd")]
        trees = list(dict.fromkeys([*mounts.hierarchies.values(), *named]))
    driver = detect_driver(environ, host or "/", trees)
    return DetectedNode(version, driver, root, host or "/", mounts, plain)


def _cgroup_root(host: str) -> str:
    below = f"{host}{ROOT}"
    return below if os.path.isdir(below) else ROOT


def _is_plain(root: str) -> bool:
    try:
        LocalFiles(root).close()
    except CgroupError:
        return True
    return False


def _mounts(root: str, host: str) -> Mounts:
    """Return the controllers below the root, and cgroup2 wherever the host has it."""
    try:
        with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return Mounts({}, ())
    controllers = parse_mountinfo(text, root).hierarchies
    return Mounts(controllers, parse_mountinfo(text, host).unified)


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except OSError:
        return []
