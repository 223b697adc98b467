"""The parts of a pod's spec that decide its resources. Pure.

Containers with their roles, requests and limits, the pod's own resources, and the
runtime class with its overhead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from nriplugin.errors import ConfigError
from nriplugin.kube.amounts import (
    Amounts,
    Requirements,
    read_amounts,
    read_requirements,
)


class Role(StrEnum):
    """When a container runs."""

    INIT = "init"  # before the others, one at a time
    SIDECAR = "sidecar"  # an init container that is always restarted, beside the others
    APP = "app"
    EPHEMERAL = "ephemeral"  # added to a running pod to debug it


class ContainerSpec(NamedTuple):
    """A container; requests and limits as given, without defaults."""

    name: str
    role: Role
    requests: Amounts
    limits: Amounts


class PodSpec(NamedTuple):
    """Containers in the order in which they start, and the pod's own resources.

    The overhead is that of the runtime class, which the API server puts into the spec.
    Ephemeral containers are apart from the others, because they cannot have resources
    and count neither for the QoS class nor for the sums of the pod.
    """

    containers: tuple[ContainerSpec, ...]
    resources: Requirements | None
    runtime_class: str = ""
    overhead: Amounts = MappingProxyType({})
    ephemeral: tuple[ContainerSpec, ...] = ()

    @property
    def has_own_resources(self) -> bool:
        """Whether the pod itself has an amount of a resource that it may have."""
        own = self.resources
        return own is not None and any(
            is_pod_level(name) for name in (*own.requests, *own.limits)
        )


def is_pod_level(name: str) -> bool:
    """Say whether Kubernetes knows a resource on the level of a pod."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def read_pod_spec(spec: Mapping[str, Any], where: str) -> PodSpec:
    """Read a pod's `spec`.

    Raises:
        ConfigError: there are no containers, one is malformed, or an ephemeral one has
            resources; the error says where.
    """
    if not spec.get("containers"):
        raise ConfigError(f"{where}.containers: missing, expected at least one")
    containers = (
        *_read_containers(spec, "initContainers", where),
        *_read_containers(spec, "containers", where),
    )
    runtime_class = spec.get("runtimeClassName") or ""
    if not isinstance(runtime_class, str):
        raise ConfigError(
            f"{where}.runtimeClassName: {runtime_class!r:.60}, expected a name"
        )
    resources = None
    if spec.get("resources") is not None:
        resources = read_requirements(spec["resources"], f"{where}.resources")
    ephemeral = (*_read_containers(spec, "ephemeralContainers", where),)
    overhead = read_amounts(spec.get("overhead"), f"{where}.overhead")
    return PodSpec(containers, resources, runtime_class, overhead, ephemeral)


def _read_containers(
    spec: Mapping[str, Any], key: str, where: str
) -> Iterator[ContainerSpec]:
    entries = spec.get(key) or []
    if not isinstance(entries, list):
        raise ConfigError(f"{where}.{key}: {entries!r:.60}, expected a list")
    for index, entry in enumerate(entries):
        here = f"{where}.{key}[{index}]"
        if not isinstance(entry, Mapping):
            raise ConfigError(f"{here}: {entry!r:.60}, expected a container")
        name = entry.get("name")
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{here}.name: {name!r}, expected a name")
        role = Role.EPHEMERAL if key == "ephemeralContainers" else Role.APP
        if key == "initContainers":
            always = entry.get("restartPolicy") == "Always"
            role = Role.SIDECAR if always else Role.INIT
        given = read_requirements(entry.get("resources"), f"{here}.resources")
        if role is Role.EPHEMERAL and (given.requests or given.limits):
            raise ConfigError(
                f"{here}.resources: {entry['resources']!r:.60}, "
                "expected none: an ephemeral container has no resources"
            )
        yield ContainerSpec(name, role, given.requests, given.limits)
