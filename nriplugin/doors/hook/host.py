"""The facts about this machine that one container needs.

The path of the container's own cgroup tells the cgroup driver and kubelet's root. So
the hook reads neither kubelet's files nor its command line, as `detect_node` does:
that would take longer than everything else in the hook.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.detect import ENV_HOST_ROOT, DetectedNode, find_mounts
from nriplugin.cgroup.locate.driver import DetectedDriver
from nriplugin.cgroup.locate.mounts import NO_MOUNTS, Mounts
from nriplugin.cgroup.locate.paths import Driver
from nriplugin.cgroup.locate.version import (
    ROOT,
    Version,
    assumed_version,
    detect_version,
)
from nriplugin.engine.allowed_files import OWNABLE, V1_FILES
from nriplugin.node.facts import node_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.cgroup.locate.identify import CgroupIdentity
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.model import NodeFacts


class Host(NamedTuple):
    """Where the machine's own files are mounted, and its cgroup version."""

    root: str  # empty for /
    cgroup_root: str
    version: Version
    plain: bool  # cgroup_root is a directory of ordinary files, such as a copy
    mounts: Mounts = NO_MOUNTS  # of cgroup v1's controllers

    def process_cgroups(self, pid: int | None) -> str | None:
        """Return the text of /proc/PID/cgroup, or None if it cannot be read."""
        proc = f"{self.root}/proc"
        try:
            with open(
                f"{proc if os.path.isdir(proc) else '/proc'}/{pid}/cgroup",
                encoding="utf-8",
                errors="surrogateescape",
            ) as file:
                return file.read()
        except OSError:
            return None

    def node_of(self, kube_cgroup: CgroupIdentity | None) -> DetectedNode:
        """Return this node as a container's cgroup shows it.

        Without `kube_cgroup` the container has no pod. The driver is then taken as
        cgroupfs, so that systemd is never asked to change a unit that is not kubelet's.
        """
        driver = DetectedDriver(Driver.CGROUPFS, ())
        if kube_cgroup is not None:
            driver = DetectedDriver(kube_cgroup.driver, (), kube_cgroup.root)
        return DetectedNode(
            self.version,
            driver,
            self.cgroup_root,
            self.root or "/",
            self.mounts,
            self.plain,
        )


def find_host(
    environ: Mapping[str, str], host_root: str | None, cgroup_root: str | None
) -> Host:
    """Find the cgroups and their version.

    Args:
        environ: for NRIPLUGIN_HOST_ROOT and the assumed cgroup version.
        host_root: where the machine's / is mounted, if not at /.
        cgroup_root: cgroups to use instead; may be a directory of ordinary files.

    Raises:
        ConfigError: the environment assumes a cgroup version that does not exist.
    """
    host = (host_root or environ.get(ENV_HOST_ROOT) or "").rstrip("/")
    root = (cgroup_root or "").rstrip("/")
    if not root:
        root = f"{host}{ROOT}" if os.path.isdir(f"{host}{ROOT}") else ROOT
    version = detect_version(environ, root)
    # Only the root of cgroup v2 has this file. In ordinary files it is the only sign of
    # the version, because the type of their file system says nothing.
    marker = f"{root}/cgroup.controllers"
    if version.number == 2:
        return Host(host, root, version, plain=False)
    mounts = find_mounts(root, host or "/")
    plain = bool(cgroup_root) and not mounts.hierarchies
    if plain and os.path.exists(marker) and assumed_version(environ) is None:
        version = Version(2, f"{marker} is there, in a plain directory")
    return Host(host, root, version, plain, mounts)


def facts_for(node: DetectedNode, tree: Tree, cgroup: str) -> NodeFacts:
    """Return the facts for a container whose cgroup exists and can be written.

    The files are those that this very cgroup has. There is no OCI runtime among the
    facts: the decision is not passed through one, so its limits do not apply.
    """
    known = OWNABLE if tree.version == 2 else V1_FILES
    exists, path = tree.files.exists, tree.file_path
    files = frozenset(file for file in known if exists(path(cgroup, file)))
    facts = node_facts(node, tree)
    return facts._replace(files=files, oci_runtime=None, writable=True)
