"""The memory of a node, from its Node object. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nriplugin.errors import ConfigError
from nriplugin.kube.quantity import value


class NodeMemory(NamedTuple):
    """All of a node's memory, and what of it is left for pods, in bytes."""

    capacity: int
    allocatable: int


def read_node_memory(documents: Sequence[object], source: str) -> NodeMemory:
    """Return the memory of the one Node in a file.

    Raises:
        ConfigError: the file has no Node, or the Node no such amount.
    """
    found = [one for one in documents if one is not None]
    node = found[0] if len(found) == 1 else None
    if not isinstance(node, Mapping) or node.get("kind") != "Node":
        raise ConfigError(f"{source}: expected one object of kind Node")
    status = node.get("status")
    amounts = []
    for name in NodeMemory._fields:
        part = status.get(name) if isinstance(status, Mapping) else None
        given = part.get("memory") if isinstance(part, Mapping) else None
        amounts.append(value(given, f"{source}: status.{name}.memory"))
    return NodeMemory(*amounts)
