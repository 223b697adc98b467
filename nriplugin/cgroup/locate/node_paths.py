"""Where one node has its pods: paths.py for its version, driver and cgroupRoot. Pure.

A *cgroup* is a path below the root of a hierarchy and is the same on both versions; a
*path* is the directory on the machine. Version 1 has a tree per controller.
"""

from __future__ import annotations

from typing import NamedTuple

from nriplugin.cgroup.locate.paths import (
    Driver,
    RuntimeName,
    cgroup_path,
    container_path,
    pod_components,
    qos_components,
)
from nriplugin.cgroup_names import KUBEPODS
from nriplugin.errors import ConfigError


class NodePaths(NamedTuple):
    """What has to be known about a node to find its pods."""

    version: int
    driver: Driver
    mount: str = "/sys/fs/cgroup"
    kube_root: tuple[str, ...] = ()  # the kubelet's cgroupRoot

    def kubepods(self) -> str:
        """Return the cgroup of all pods."""
        return cgroup_path((*self.kube_root, KUBEPODS), self.driver)

    def qos(self, qos_class: str) -> str:
        """Return the cgroup of a QoS class; Guaranteed has none of its own."""
        return cgroup_path(qos_components(qos_class, self.kube_root), self.driver)

    def pod(self, qos_class: str, uid: str) -> str:
        """Return the cgroup of a pod."""
        return cgroup_path(pod_components(qos_class, uid, self.kube_root), self.driver)

    def container(
        self, qos_class: str, uid: str, container_id: str, runtime: RuntimeName
    ) -> str:
        """Return the cgroup of a container."""
        pod = pod_components(qos_class, uid, self.kube_root)
        return container_path(pod, container_id, self.driver, runtime)

    def path(self, controller: str, cgroup: str) -> str:
        """Return the directory of a cgroup; v2 has one tree for all controllers."""
        tail = "" if cgroup == "/" else cgroup
        if self.version == 1:
            return f"{self.mount}/{controller}{tail}"
        return f"{self.mount}{tail}"

    def root_path(self, controller: str) -> str:
        """Return the directory of the cgroup of all pods."""
        return self.path(controller, self.kubepods())


def kube_root_components(cgroup_root: str) -> tuple[str, ...]:
    """Return the kubelet's cgroupRoot, `/` or `/kubelet`, as components.

    Raises:
        ConfigError: it leads out of the hierarchy.
    """
    parts = tuple(part for part in cgroup_root.split("/") if part)
    if parts:
        try:
            cgroup_path(parts, Driver.CGROUPFS)
        except ConfigError as exc:
            raise ConfigError(f"cgroupRoot: {cgroup_root!r}, {exc}") from exc
    return parts
