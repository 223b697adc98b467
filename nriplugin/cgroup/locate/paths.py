"""The paths of pods and containers, built for both of the kubelet's drivers. Pure.

A cgroup is a sequence of components; cgroupfs makes each one a directory, systemd joins
them with `-` to the name of a slice and nests the slices (CgroupName in
pkg/kubelet/cm/cgroup_manager_linux.go, ExpandSlice in opencontainers/cgroups). Every
path is absolute below the root of the hierarchy. A name that would lead out of its
directory is refused here, before any file is opened.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from nriplugin.cgroup_names import (
    KUBEPODS,
    QOS_COMPONENTS,
    SCOPE,
    SLICE,
    expand_slice,
)
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

# crun makes this cgroup below the container's scope and puts the process into it.
CRUN_INNER = "container"


class Driver(StrEnum):
    """Which part of the node makes the directories of pods."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


class RuntimeName(StrEnum):
    """The container runtime; the value is what the names of its scopes begin with."""

    CONTAINERD = "cri-containerd"
    CRIO = "crio"
    DOCKER = "docker"


def slice_name(components: Sequence[str]) -> str:
    """Return the name of a cgroup's slice; a `-` inside a component becomes `_`."""
    _check(components)
    return "-".join(part.replace("-", "_") for part in components) + SLICE


def cgroup_path(components: Sequence[str], driver: Driver) -> str:
    """Return the directory of a cgroup.

    Raises:
        ConfigError: a component that the kubelet does not allow.
    """
    if driver is Driver.SYSTEMD:
        return expand_slice(slice_name(components))
    _check(components)
    return "/" + "/".join(components)


def qos_components(qos_class: str, root: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the cgroup of a QoS class; `root` is the kubelet's cgroupRoot."""
    if qos_class not in QOS_COMPONENTS:
        raise ConfigError(
            f"QoS class: {qos_class!r}, expected {', '.join(QOS_COMPONENTS)}"
        )
    return (*root, KUBEPODS, *QOS_COMPONENTS[qos_class])


def pod_components(
    qos_class: str, uid: str, root: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the cgroup of a pod."""
    return (*qos_components(qos_class, root), f"pod{uid}")


def scope_name(runtime: RuntimeName, container_id: str) -> str:
    """Return the systemd unit of a container."""
    _check_name(container_id)
    return f"{runtime}-{container_id}{SCOPE}"


def container_path(
    pod: Sequence[str], container_id: str, driver: Driver, runtime: RuntimeName
) -> str:
    """Return the directory of a container in a pod, without crun's inner cgroup.

    With cgroupfs, containerd and Docker use the bare ID and CRI-O keeps its prefix.
    """
    if driver is Driver.SYSTEMD:
        name = scope_name(runtime, container_id)
    else:
        _check_name(container_id)
        prefixed = runtime is RuntimeName.CRIO
        name = f"{runtime}-{container_id}" if prefixed else container_id
    return f"{cgroup_path(pod, driver)}/{name}"


def cgroup_of(cgroups_path: str) -> str | None:
    """Return the directory of a container from `linux.cgroupsPath` of its OCI spec.

    None if it is neither a path nor SLICE:PREFIX:ID, or leads out of the hierarchy.
    """
    if cgroups_path.startswith("/"):
        return _directory(cgroups_path)
    slice_, _, unit = cgroups_path.partition(":")
    prefix, _, name = unit.partition(":")
    if not name or ":" in name or "/" in unit:
        return None
    try:
        return _directory(f"{expand_slice(slice_)}/{prefix}-{name}{SCOPE}")
    except ConfigError:
        return None


def cgroup_of_parent(cgroup_parent: str) -> str | None:
    """Return the directory of a pod from the `cgroup_parent` that kubelet gives.

    That is a path, or with systemd the name of a slice. None if it is neither, or leads
    out of the hierarchy.
    """
    if cgroup_parent.startswith("/"):
        return _directory(cgroup_parent)
    try:
        return _directory(expand_slice(cgroup_parent))
    except ConfigError:
        return None


def _directory(path: str) -> str | None:
    """Return a path without empty parts; None for the root and for a path with `..`."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\0" in path:
        return None
    return "/" + "/".join(parts)


def _check(components: Sequence[str]) -> None:
    """Refuse components that the kubelet refuses, or that lead out of the hierarchy."""
    in_root = True
    for part in components:
        in_root = in_root and part != KUBEPODS
        _check_name(part, in_root=in_root)


def _check_name(part: str, *, in_root: bool = False) -> None:
    """Refuse a name that leads elsewhere, or has a `_` below the kubelet's cgroupRoot.

    The systemd driver writes `-` as `_`. As long as no component has a `_` of its own,
    the name of a slice can be turned back into components.
    """
    wrong = "/\0\n" if in_root else "/_\0\n"
    if part in ("", ".", "..") or any(char in part for char in wrong):
        expected = "a name without /" if in_root else "a name without / and _"
        raise ConfigError(f"cgroup: {part!r}, expected {expected}")
