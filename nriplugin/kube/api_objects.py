"""What a node and its pods say about themselves, as `kubectl get -o yaml` prints. Pure.

`manifests` reads what a pod asks for. This module reads what became of it: whether it
still runs, on which node, and the IDs of its containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nriplugin.errors import ConfigError
from nriplugin.kube.amounts import read_amounts
from nriplugin.kube.manifests import ManifestPod, read_pod

POD = "Pod"
_ENDED = ("Succeeded", "Failed")
_PENDING = "Pending"
# The condition of a pod with a resize that kubelet has not taken up.
_WAITING = "PodResizePending"
# The containers in a specification, and what the status says about them.
_CONTAINERS = {
    "initContainers": "initContainerStatuses",
    "containers": "containerStatuses",
}


class NodeObject(NamedTuple):
    """A node's name, and the quantities of its status; empty if it has none."""

    name: str
    capacity: dict[str, Any]
    allocatable: dict[str, Any]


class RunningContainer(NamedTuple):
    """The runtime and the ID in `containerID`, such as containerd and 4f2a."""

    runtime: str
    id: str


class ActivePod(NamedTuple):
    """A pod that has not ended, and its running containers by name."""

    pod: ManifestPod
    running: Mapping[str, RunningContainer]


def read_node(documents: list[Any], source: str) -> NodeObject:
    """Return the only node of a file.

    Raises:
        ConfigError: there is none or are several, or an amount is malformed.
    """
    nodes = [one for _, one in _items(documents) if one.get("kind", "Node") == "Node"]
    if len(nodes) != 1:
        raise ConfigError(f"{source}: {len(nodes)} nodes, expected one object Node")
    status = _mapping(nodes[0].get("status"))
    capacity = read_amounts(status.get("capacity"), f"{source}: status.capacity")
    if "cpu" not in capacity or "memory" not in capacity:
        raise ConfigError(
            f"{source}: status.capacity: no cpu or no memory, expected both"
        )
    allocatable = read_amounts(
        status.get("allocatable"), f"{source}: status.allocatable"
    )
    name = str(_mapping(nodes[0].get("metadata")).get("name") or "(no name)")
    return NodeObject(name, capacity, allocatable)


def read_active_pods(documents: list[Any], node: str | None) -> list[ActivePod]:
    """Return the pods that have not ended, and are on the node if one is named.

    A pod that waits for a node is on none. One without a status is yet to be created,
    and is taken to be on the node.

    Raises:
        ConfigError: a pod is malformed.
    """
    pods = []
    for where, one in _items(documents):
        if _kind(one) != POD:
            continue
        status = _mapping(one.get("status"))
        assigned = _mapping(one.get("spec")).get("nodeName")
        phase = status.get("phase")
        if phase in _ENDED or (phase == _PENDING and assigned is None):
            continue
        if node and assigned not in (None, node):
            continue
        given = {**one, "spec": _spec_in_force(one.get("spec"), status)}
        pods.append(ActivePod(read_pod(given, where), dict(_running(status))))
    return pods


def _spec_in_force(spec: object, status: Mapping[str, Any]) -> object:
    """Return a pod's specification with the resources that it has.

    They are others than it asks for while a resize waits for room on the node, or can
    never have it: kubelet has allocated the earlier ones.
    """
    waits = any(
        _mapping(one).get("type") == _WAITING and _mapping(one).get("status") == "True"
        for one in _list(status.get("conditions"))
    )
    if not waits or not isinstance(spec, Mapping):
        return spec
    found = dict(spec)
    if "resources" in spec and status.get("resources") is not None:
        found["resources"] = status["resources"]
    for field, statuses in _CONTAINERS.items():
        has = {
            one["name"]: one.get("resources")
            for one in map(_mapping, _list(status.get(statuses)))
            if isinstance(one.get("name"), str)
        }
        if isinstance(spec.get(field), list):
            found[field] = [_with_resources(one, has) for one in spec[field]]
    return found


def _with_resources(container: object, has: Mapping[str, object]) -> object:
    """Return a container of a specification with the resources that it has."""
    name = _mapping(container).get("name")
    resources = has.get(name) if isinstance(name, str) else None
    return (
        container
        if resources is None
        else {**_mapping(container), "resources": resources}
    )


def nodes_of(documents: list[Any]) -> set[str]:
    """Return the names of the nodes that pods are on."""
    names = (
        _mapping(one.get("spec")).get("nodeName")
        for _, one in _items(documents)
        if _kind(one) == POD
    )
    return {name for name in names if isinstance(name, str)}


def kinds_of(documents: list[Any]) -> list[str]:
    """Return the kind of each object; items of a list may have none, and are pods."""
    return [_kind(one) for _, one in _items(documents)]


def _kind(content: Mapping[str, Any]) -> str:
    """Return what an object is, such as Pod or Deployment.apps, as kubectl names it."""
    kind = str(content.get("kind", POD))
    group, slash, _ = str(content.get("apiVersion", "")).partition("/")
    return f"{kind}.{group}" if slash else kind


def _running(status: Mapping[str, Any]) -> Iterator[tuple[str, RunningContainer]]:
    for field in _CONTAINERS.values():
        for one in _list(status.get(field)):
            state = _mapping(_mapping(one).get("state"))
            runtime, found, id_ = str(_mapping(one).get("containerID")).partition("://")
            if found and "running" in state:
                yield str(one.get("name")), RunningContainer(runtime, id_)


def _items(documents: list[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield objects with their places; a list is replaced by its items."""
    for number, document in enumerate(documents, start=1):
        if document is None:
            continue
        where, content = f"document {number}", _mapping(document)
        items = content.get("items")
        if isinstance(items, list):
            for index, one in enumerate(items):
                yield f"{where}, items[{index}]", _mapping(one)
        else:
            yield where, content


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
