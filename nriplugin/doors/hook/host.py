"""The node, as far as one container needs it.

Its own path says who made its cgroup, so neither the kubelet's files nor its process is
looked for, which `detect_node` does and which would cost more than all the rest.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.detect import ENV_HOST_ROOT, DetectedNode
from nriplugin.cgroup.locate.driver import DetectedDriver
from nriplugin.cgroup.locate.mounts import Mounts
from nriplugin.cgroup.locate.paths import Driver
from nriplugin.cgroup.locate.version import ROOT, Version, detect_version
from nriplugin.engine.allowed_files import OWNABLE
from nriplugin.node.facts import node_facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.cgroup.locate.identify import CgroupIdentity
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.model import NodeFacts


class Surroundings(NamedTuple):
    """Where the node's files are, and its cgroup version."""

    host_root: str
    cgroup_root: str
    version: Version
    plain: bool  # the tree is a plain directory that somebody named

    def process_cgroups(self, pid: int | None) -> str | None:
        """Return the text of a process's cgroup file, if it can be had."""
        proc = f"{self.host_root}/proc"
        try:
            with open(
                f"{proc if os.path.isdir(proc) else '/proc'}/{pid}/cgroup",
                encoding="utf-8",
                errors="surrogateescape",
            ) as file:
                return file.read()
        except OSError:
            return None

    def node(self, place: CgroupIdentity | None) -> DetectedNode:
        """Return the node of a pod's container; of another, nobody's but the kernel's.

        systemd is only asked for what is the kubelet's.
        """
        driver = DetectedDriver(Driver.CGROUPFS, ())
        if place is not None:
            driver = DetectedDriver(place.driver, (), place.root)
        return DetectedNode(
            self.version,
            driver,
            self.cgroup_root,
            self.host_root or "/",
            Mounts({}, ()),
            self.plain,
        )


def look_around(
    environ: Mapping[str, str], host_root: str | None, cgroup_root: str | None
) -> Surroundings:
    """Find the cgroups; a root that is named may also be a plain directory.

    Raises:
        ConfigError: the environment says something that makes no sense.
    """
    host = (host_root or environ.get(ENV_HOST_ROOT) or "").rstrip("/")
    root = (cgroup_root or "").rstrip("/")
    if not root:
        root = f"{host}{ROOT}" if os.path.isdir(f"{host}{ROOT}") else ROOT
    version = detect_version(environ, root)
    marker = f"{root}/cgroup.controllers"
    plain = bool(cgroup_root) and version.number == 1 and os.path.exists(marker)
    if plain:
        version = Version(2, f"{marker} is there, in a plain directory")
    return Surroundings(host, root, version, plain)


def facts_for(node: DetectedNode, tree: Tree, cgroup: str) -> NodeFacts:
    """Return the facts for a container that has its cgroup, which can be written.

    No OCI runtime: nothing goes through one.
    """
    files = frozenset(f for f in OWNABLE if tree.files.exists(f"{cgroup}/{f}"))
    facts = node_facts(node, tree)
    return facts._replace(files=files, oci_runtime=None, writable=True)
