"""Counts the containers of the inventory by their state, and by what they belong to."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from nriplugin.api import control_pb2 as control
from nriplugin.daemon.group_members import MEMBERSHIPS, members_by
from nriplugin.daemon.plain import valid_text
from nriplugin.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nriplugin.state.inventory import ContainerEntry, Inventory
    from nriplugin.state.lifecycle import Lifecycle

# The name of the group of all containers that belong to none.
NONE = "(none)"


def container_counts(inventory: Inventory) -> control.ContainerCounts:
    """Return how many containers there are in each state."""
    entries = inventory.snapshot().values()
    return _counts(Counter(inventory.state_of(entry).value for entry in entries))


def container_groups(lifecycle: Lifecycle, by: str) -> list[control.ContainerGroup]:
    """Return the same for each namespace, pod or whatever `by` names.

    A container counts once in each of its groups; it has several by handler alone.
    PodGroups, jobs and queues are there with their members, too.

    Raises:
        ConfigError: there are no such groups.
    """
    groups_of = _GROUPS.get(by)
    if groups_of is None:
        raise ConfigError(f"by: {by!r:.60}, expected {', '.join(_GROUPS)}")
    inventory = lifecycle.inventory
    found: dict[str, Counter[str]] = {}
    for entry in inventory.snapshot().values():
        state = inventory.state_of(entry).value
        for group in groups_of(entry, lifecycle) or [NONE]:
            found.setdefault(group, Counter())[state] += 1
    members = members_by(lifecycle, by) if by in MEMBERSHIPS else {}
    # A pod may be in a group before it has a container.
    return [
        control.ContainerGroup(
            name=valid_text(name),
            containers=_counts(found.get(name, Counter())),
            members=members.get(name),
        )
        for name in sorted({*found, *members})
    ]


def containers_by_handler(inventory: Inventory) -> Counter[str]:
    """Return how many containers have a value from each handler."""
    found: Counter[str] = Counter()
    for entry in inventory.snapshot().values():
        found.update(handlers_of(entry))
    return found


def _counts(by_state: Counter[str]) -> control.ContainerCounts:
    # The fields have the names of the states, so a new state needs a field alone.
    return control.ContainerCounts(**by_state)


def handlers_of(entry: ContainerEntry) -> set[str]:
    """Return the handlers that a container has a value from."""
    if entry.decision is None:
        return set()
    pairs = zip(entry.decision.files, entry.decision.reasons, strict=True)
    return {why.handler for file, why in pairs if file in entry.files}


def _some(*names: str) -> list[str]:
    """Return a group's name; nothing if a part of it is empty."""
    return ["/".join(names)] if all(names) else []


def _namespace(entry: ContainerEntry, _: Lifecycle) -> Iterable[str]:
    return _some(entry.pod.namespace)


def _pod(entry: ContainerEntry, _: Lifecycle) -> Iterable[str]:
    return _some(entry.pod.namespace, entry.pod.name)


def _qos(entry: ContainerEntry, _: Lifecycle) -> Iterable[str]:
    return _some(entry.pod.qos_class or "")


def _group(entry: ContainerEntry, _: Lifecycle) -> Iterable[str]:
    return _some(entry.pod.group.job_id) if entry.pod.group else ()


def _job(entry: ContainerEntry, _: Lifecycle) -> Iterable[str]:
    group = entry.pod.group
    return _some(entry.pod.namespace, group.job) if group else ()


def _queue(entry: ContainerEntry, lifecycle: Lifecycle) -> Iterable[str]:
    group = entry.pod.group
    return _some(lifecycle.jobs.queue_of(group)) if group else ()


def _handler(entry: ContainerEntry, _: Lifecycle) -> Iterable[str]:
    return handlers_of(entry)


_GROUPS: dict[str, Callable[[ContainerEntry, Lifecycle], Iterable[str]]] = {
    "namespace": _namespace,
    "pod": _pod,
    "qos": _qos,
    "group": _group,
    "job": _job,
    "queue": _queue,
    "handler": _handler,
}
# What `StatusRequest.by` may be.
GROUPINGS = tuple(_GROUPS)
