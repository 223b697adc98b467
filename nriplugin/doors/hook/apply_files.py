"""Writes a decision to the container's cgroup, journalled like every other write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import ENV_STATE_DIR, STATE_DIR, Journal
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.engine.decision import Level, When
from nriplugin.node.direct_writes import DirectWriter, updates_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.updates import Outcome
    from nriplugin.engine.decision import Write

# A hook sees no container end. When the journal has grown to this, every hook drops the
# rows of cgroups that are gone; those that are there are not so many.
_SWEEP_BYTES = 1 << 20


def write_all(
    files: Mapping[str, str],
    writes: Sequence[Write],
    *,
    node: DetectedNode,
    tree: Tree,
    cgroup: str,
    in_pod: bool,
    environ: Mapping[str, str],
    state_dir: str | None,
) -> list[Outcome]:
    """Write a container's files, and whatever else was decided, in the right order.

    Of a container that is no pod's, only its own cgroup is written: what is above it
    is shared with others, and nobody's who could have asked for it.

    Raises:
        JournalError: there is nowhere to keep the originals, so nothing is written.
    """
    directory = state_dir or environ.get(ENV_STATE_DIR) or STATE_DIR
    journal = None if node.plain and state_dir is None else Journal(directory)
    try:
        executor = Executor(tree, journal=journal, writer=node.writer())
        hands = DirectWriter(tree, executor)
        if in_pod:
            outcomes = _write_in_pod(hands, files, writes, cgroup)
        else:
            own = [w for w in writes if w.level is Level.CONTAINER]
            values = [*files.items(), *((w.file, w.value) for w in own)]
            updates = [u for f, v in values for u in updates_of(f, v, cgroup)]
            outcomes = executor.update_batch(updates)
        if journal is not None and os.path.getsize(journal.path) >= _SWEEP_BYTES:
            executor.sweep()
    finally:
        if journal is not None:
            journal.close()
    return outcomes


def _write_in_pod(
    hands: DirectWriter, files: Mapping[str, str], writes: Sequence[Write], cgroup: str
) -> list[Outcome]:
    pod = cgroup.rpartition("/")[0]
    # Sums above are read and written with this container's own files in one go, so that
    # another hook's sum has its part in it.
    with hands.exclusive():
        return [
            *hands.carry_out(writes, When.BEFORE, pod, cgroup),
            *hands.put(files, cgroup),
            *hands.carry_out(writes, When.AFTER, pod, cgroup),
        ]
