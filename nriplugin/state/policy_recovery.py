"""Puts back the values of policies that an earlier process has left in files.

The record says which files these are (node/policy_writes.py). Usually the journal has
what they held before. Two kinds of files of a container are exceptions:

* One that holds just what it should was resized since, by coincidence to the value of
  the policy. It stays as it is.
* One whose own value was decided and written directly goes back to that: the journal
  has what was there before both writes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.restore import Action
from nriplugin.node.policy_writes import Target, held_value, paths_of, write_branch
from nriplugin.state.policy_holds import originals_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Set

    from nriplugin.engine.model import NodeFacts
    from nriplugin.node.direct_writes import DirectWriter
    from nriplugin.state.inventory import ContainerEntry

_log = logging.getLogger(__name__)


def put_back(
    writer: DirectWriter,
    left: Set[str],
    containers: Iterable[tuple[str, ContainerEntry]],
    facts: NodeFacts,
) -> None:
    """Put back what files held before, for the paths that a record has.

    `containers` are the cgroups and the entries of those that exist.

    Raises:
        JournalError: the journal cannot be read or written.
    """
    with writer.exclusive():
        others = left - _of_containers(writer, left, containers, facts)
        found = writer.put_back(only=others)
    for one in found:
        if one.action is Action.FAILED:
            _log.warning("policies: %s: %s", one.path, one.reason)
    back = sum(one.action is Action.RESTORED for one in found)
    back += len(left) - len(others)
    _log.info("policies: %d values of an earlier process put back", back)


def _of_containers(
    writer: DirectWriter,
    left: Set[str],
    containers: Iterable[tuple[str, ContainerEntry]],
    facts: NodeFacts,
) -> set[str]:
    """Return the paths of those files for which the journal is not asked."""
    tree, decided = writer.tree, []
    done: set[str] = set()
    for cgroup, entry in containers:
        for file, value in originals_of(entry, facts).items():
            now = held_value(tree, cgroup, file)
            if now is None:
                continue
            target = Target(cgroup, file, value, (now,))
            path = tree.file_path(cgroup, file)
            if now == value:
                done |= left & paths_of(tree, target)
            elif path in left and file in entry.ours and writer.original(path, now):
                decided.append(target)
    for result in write_branch(writer, decided):
        if result.ok:
            done |= left & paths_of(tree, result.target)
    return done
