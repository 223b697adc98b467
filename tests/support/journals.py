"""A journal of direct writes beside a tree of plain files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Update
from support.trees import POD, QOS, make_v2

if TYPE_CHECKING:
    from pathlib import Path

    from nriplugin.cgroup.types.tree import Tree


def journalled_tree(directory: Path) -> Tree:
    """Return a tree in which two weights were changed, one of them by others since.

    The tree is in `cgroup` of the directory, and the journal in `state`.
    """
    tree = make_v2(directory / "cgroup")
    with Journal(str(directory / "state")) as journal:
        Executor(tree, journal=journal).update_batch(
            [Update(Type.CPU_WEIGHT, cgroup, 200) for cgroup in (QOS, POD)]
        )
    tree.set(Type.CPU_WEIGHT, POD, 300)
    return tree
