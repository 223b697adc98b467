"""What the values go back to that policies of an earlier process have left in files.

A file of a container goes back to what it would hold without policies, as far as that
is known: the journal may have what was there before a decided value was written
directly, or before a resize to the very value of a policy. One that holds its own value
already stays as it is, and its pod keeps as much more as the resize gave it. All other
files go back to what the journal has.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.restore import Action
from nriplugin.node.policy_writes import (
    Target,
    beyond,
    difference,
    grown,
    held_value,
    path_of,
    paths_of,
    write_branch,
)
from nriplugin.state.policy_holds import originals_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from nriplugin.engine.model import NodeFacts
    from nriplugin.loglimit import LimitedLog
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.state.inventory import ContainerEntry

_log = logging.getLogger(__name__)

CPU_MAX = "cpu.max"


def put_back(
    writer: DirectWriter,
    left: Set[str],
    containers: Iterable[tuple[str, ContainerEntry]],
    facts: NodeFacts,
    limited: LimitedLog,
) -> frozenset[str]:
    """Put back what files held before; return the paths for which that failed.

    `containers` are the cgroups and the entries of those that exist.

    Raises:
        JournalError: the journal cannot be read or written.
    """
    with writer.exclusive():
        others = left - _of_containers(writer, left, containers, facts)
        found = writer.put_back(only=others)
    for one in found:
        if one.action is Action.FAILED:
            line = "policies: %s: %s"
            limited.log(logging.WARNING, line, one.path, one.reason)
        elif one.action is Action.RESTORED:
            cgroup, _, file = one.path.rpartition("/")
            _tell_beyond(writer, cgroup, file, one.original)
    back = sum(one.action is Action.RESTORED for one in found)
    back += len(left) - len(others)
    _log.info("policies: %d values of an earlier process put back", back)
    return frozenset(one.path for one in found if one.action is Action.FAILED)


def _tell_beyond(writer: DirectWriter, cgroup: str, file: str, original: str) -> None:
    """Log that a container uses more than the memory.high that it has again."""
    text = beyond(writer.tree, cgroup, file, original)
    if text:
        _log.warning("policies: %s/%s back to %s%s", cgroup, file, original, text)


def _of_containers(
    writer: DirectWriter,
    left: Set[str],
    containers: Iterable[tuple[str, ContainerEntry]],
    facts: NodeFacts,
) -> set[str]:
    """Return the paths of those files for which the journal is not asked."""
    tree, ours = writer.tree, []
    done: set[str] = set()
    # By pod: by how much resizes have raised it, of which its file shows nothing.
    raised: dict[str, list[str]] = {}
    for cgroup, entry in containers:
        for file, value in originals_of(entry, facts).items():
            now = held_value(tree, cgroup, file)
            if now is None:
                continue
            target = Target(cgroup, file, value, (now,))
            path = path_of(tree, cgroup, file)
            if now == value:
                if path in left and (more := _raised_by(writer, target)):
                    raised.setdefault(entry.pod_cgroup or "", []).append(more)
                    writer.disown(paths_of(tree, target))
                done |= left & paths_of(tree, target)
            elif path in left and writer.original_of(path) is not None:
                ours.append(target)
    ours += _of_pods(writer, left, raised)
    for result in write_branch(writer, ours):
        if result.ok:
            done |= left & paths_of(tree, result.target)
            _tell_beyond(writer, *result.target[:3])
    return done


def _raised_by(writer: DirectWriter, target: Target) -> str:
    """Return by how much a resize to the very value of a policy has raised a quota."""
    was = _quota_before(writer, target.cgroup) if target.file == CPU_MAX else None
    more = difference(CPU_MAX, was, target.value) if was else None
    return "" if more is None or more.startswith(("-", "0 ")) else more


def _of_pods(
    writer: DirectWriter, left: Set[str], raised: Mapping[str, Sequence[str]]
) -> Iterator[Target]:
    """Return what kubelet has given pods whose containers it resized meanwhile."""
    for pod, more in raised.items():
        now, was = held_value(writer.tree, pod, CPU_MAX), _quota_before(writer, pod)
        if now and was and path_of(writer.tree, pod, CPU_MAX) in left:
            value = grown(CPU_MAX, was, more)
            if value is not None:
                target = Target(pod, CPU_MAX, value, (now,))
                if value == now:
                    writer.disown(paths_of(writer.tree, target))
                yield target


def _quota_before(writer: DirectWriter, cgroup: str) -> str | None:
    """Return the quota before nriplugin's, with the period that is in force."""
    was = writer.original_of(path_of(writer.tree, cgroup, CPU_MAX))
    period = (held_value(writer.tree, cgroup, CPU_MAX) or "").partition(" ")[2]
    return None if was is None else f"{was.partition(' ')[0]} {period}"
