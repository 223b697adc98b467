"""`detect_node`: what has to be known before a cgroup of this node can be found.

nriplugin may run in a container that has the host's files below some directory, the
host root. The cgroups are then those below the host root, or, if they are not mounted
there, those at /sys/fs/cgroup of the container. Detection writes nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.files import CGROUP2_MAGIC, CGROUP_MAGIC, LocalFiles
from nriplugin.cgroup.locate.driver import DetectedDriver, detect_driver
from nriplugin.cgroup.locate.mounts import (
    MOUNTINFO,
    NO_MOUNTS,
    Mounts,
    parse_mountinfo,
)
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

    from nriplugin.cgroup.locate.kubelet_files import KubeletParser
    from nriplugin.cgroup.writing.updates import Writer

ENV_HOST_ROOT = "NRIPLUGIN_HOST_ROOT"
# The controllers without which the kubelet does not start, by cgroup version.
REQUIRED_CONTROLLERS = {
    1: ("cpu", "cpuacct", "cpuset", "memory"),
    2: ("cpu", "cpuset", "memory"),
}


class DetectedNode(NamedTuple):
    """A node's cgroup version, driver and roots; opens its tree of cgroups."""

    version: Version
    driver: DetectedDriver
    cgroup_root: str
    host_root: str
    mounts: Mounts
    # Whether the tree is a directory of ordinary files that the user named, such as a
    # copy, and not one of the kernel's file systems.
    plain: bool

    @property
    def paths(self) -> NodePaths:
        """Return the paths of this node's pods."""
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

    def missing_controllers(self) -> list[str]:
        """Return the controllers that the kubelet requires and the node lacks."""
        present = self.controllers()
        required = REQUIRED_CONTROLLERS[self.version.number]
        return [name for name in required if name not in present]

    def open_files(self) -> LocalFiles:
        """Open the cgroups as files.

        Raises:
            CgroupError: the root does not exist, or is not a cgroup file system.
        """
        if self.plain:
            # `magics=None` must never be used for the kernel's files: it opens them
            # with O_NONBLOCK, which changes what a write to a memory limit does.
            return LocalFiles(self.cgroup_root, magics=None)
        if self.version.number == 2:
            return LocalFiles(self.cgroup_root, (CGROUP2_MAGIC,))
        return LocalFiles(self.cgroup_root, (CGROUP_MAGIC,), self.mounts.hierarchies)

    def open_tree(self) -> Tree:
        """Open the cgroups as a tree of resource types.

        Raises:
            CgroupError: the root does not exist, or is not a cgroup file system.
        """
        return Tree(self.open_files(), self.version.number)

    def writable(self) -> bool:
        """Say whether the mount and this process's rights allow writing."""
        # The root is asked only if there is no kubepods yet: on v1 it just holds the
        # mounts and is often read-only itself.
        kubepods, root = self.paths.root_path("cpu"), self.paths.path("cpu", "/")
        return os.access(kubepods if os.path.isdir(kubepods) else root, os.W_OK)

    def writer(self) -> Writer | None:
        """Return systemd's writer if systemd owns the kubelet's cgroups, else None."""
        if self.plain or self.driver.driver is not Driver.SYSTEMD:
            return None
        # Late: nodes without the systemd driver need no D-Bus.
        from nriplugin.cgroup.systemd.dbus import SYSTEM_BUS, Bus
        from nriplugin.cgroup.systemd.units import SystemdWriter

        bus = Bus(f"{self.host_root.rstrip('/')}{SYSTEM_BUS}")
        return SystemdWriter(bus, self.paths.kubepods())


def detect_node(
    environ: Mapping[str, str],
    host_root: str | None = None,
    cgroup_root: str | None = None,
    *,
    kubelet: KubeletParser | None = None,
) -> DetectedNode:
    """Look at the node.

    Args:
        environ: the environment, which may name the version, the driver and the host
            root.
        host_root: where the node's own `/` is mounted.
        cgroup_root: the tree of cgroups; it may also be a directory of ordinary files.
        kubelet: parses the kubelet's settings, which name the driver and the
            cgroupRoot: `nriplugin.kube.kubelet_config`. Without it, the kubelet's
            settings are not looked at.

    Raises:
        ConfigError: a variable of the environment has a value that is not allowed.
    """
    host = (host_root or environ.get(ENV_HOST_ROOT) or "/").rstrip("/")
    root = cgroup_root.rstrip("/") if cgroup_root else _cgroup_root(host)
    version = detect_version(environ, root)
    mounts = find_mounts(root, host or "/")
    plain = cgroup_root is not None and not mounts.hierarchies and _is_plain(root)
    if plain and not assumed_version(environ):
        # Ordinary files have no file system type that tells the version; only v2's root
        # has this file.
        file = f"{root}/cgroup.controllers"
        if os.path.exists(file):
            version = Version(2, f"{file} is there, in a plain directory")
    trees = [root]
    if version.number == 1:
        if mounts.unified and not version.hybrid:
            version = version._replace(hybrid=f"{mounts.unified[0]} is cgroup2")
        named = [f"{root}/{name}" for name in ("cpu", "memory", "systemd")]
        trees = list(dict.fromkeys([*mounts.hierarchies.values(), *named]))
    driver = detect_driver(environ, host or "/", trees, kubelet)
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


def find_mounts(root: str, host: str) -> Mounts:
    """Return v1's controllers below the root, and cgroup2 anywhere below the host."""
    try:
        with open(MOUNTINFO, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return NO_MOUNTS
    controllers = parse_mountinfo(text, root).hierarchies
    return Mounts(controllers, parse_mountinfo(text, host).unified)


def _directories(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except OSError:
        return []
