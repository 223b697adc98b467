"""Writes a decision to the container's cgroup, and to its pod's where decided so.

Every write is journalled first, like those of the other doors, so that
`nriplugin restore` can undo it. Only containers that need a write import this module:
it brings the journal and SQLite along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.engine.decision import Level, When
from nriplugin.node.direct_writes import DirectWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.updates import Outcome
    from nriplugin.engine.decision import Write

# A hook never sees a container end. Once the journal has this size, every hook drops
# the rows of cgroups that no longer exist; living containers need far less.
_SWEEP_BYTES = 1 << 20


def apply_files(
    files: Mapping[str, str],
    writes: Sequence[Write],
    *,
    node: DetectedNode,
    tree: Tree,
    cgroup: str,
    in_pod: bool,
    state_dir: str | None,
) -> list[Outcome]:
    """Write a container's files and the other decided writes, in the right order.

    For a container without a pod, only its own cgroup is written: the cgroups above it
    are shared, and their owners did not ask for anything.

    Raises:
        JournalError: the journal cannot be opened; nothing was written.
    """
    writer = DirectWriter.of(node, tree, state_dir)
    try:
        if in_pod:
            outcomes = _apply_in_pod(writer, files, writes, cgroup)
        else:
            own = {w.file: w.value for w in writes if w.level is Level.CONTAINER}
            outcomes = writer.put_outside_pods({**files, **own}, cgroup)
        writer.sweep_large_journal(_SWEEP_BYTES)
    finally:
        writer.close()
    return outcomes


def _apply_in_pod(
    writer: DirectWriter,
    files: Mapping[str, str],
    writes: Sequence[Write],
    cgroup: str,
) -> list[Outcome]:
    pod = cgroup.rpartition("/")[0]
    # The pod's value may be a sum over its containers. The lock is held from reading
    # the siblings until this container's own files are written: a hook that runs at the
    # same time for a sibling then finds this container's part in the sum.
    with writer.exclusive():
        return [
            *writer.carry_out(writes, When.BEFORE, pod, cgroup),
            *writer.put(files, cgroup),
            *writer.carry_out(writes, When.AFTER, pod, cgroup),
        ]
