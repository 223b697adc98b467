"""The order of writes for a branch of the tree whose cgroups depend on each other.

A cpuset lies within its parent's, protected memory counts only as far as the parent has
it, and a v1 quota is at most the parent's. So a branch changes in two passes. From the
top down every parent gets a value below which both the old and the new values of its
children are valid (`Change.through`). From the bottom up every cgroup then gets exactly
what was asked for. A value that only grows is thereby written on the way down, one that
only shrinks on the way up, and a file that holds its value is not written.

This module only puts changes in order; it reads and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.kernel_text import growth
from nriplugin.cgroup.writing.write_order import needed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nriplugin.cgroup.writing.updates import Change


def downwards(levels: Sequence[Sequence[Change]]) -> list[Change]:
    """Return the first pass: what parents hold while their children change."""
    above = _parents(levels)
    steps: list[Change] = []
    for level in levels:
        parents = (c for c in level if (c.resource.file, c.cgroup) in above)
        steps += needed(step for c in parents if (step := _first_step(c)))
    return steps


def upwards(levels: Sequence[Sequence[Change]], done: Iterable[Change]) -> list[Change]:
    """Return the second pass: exactly what was asked for, where it is not held yet.

    Args:
        levels: the same as for the first pass.
        done: the steps of the first pass that succeeded. Their files hold the content
            of the step now, which decides what has to be written and in which order.
    """
    holds = {step.path: step.content for step in done}
    steps: list[Change] = []
    for level in reversed(levels):
        steps += needed(
            c.step(holds[c.path], c.content) if c.path in holds else c for c in level
        )
    return steps


def by_depth(changes: Iterable[Change]) -> list[list[Change]]:
    """Return changes as levels, parents before their children."""
    levels: dict[int, list[Change]] = {}
    for change in changes:
        levels.setdefault(change.cgroup.rstrip("/").count("/"), []).append(change)
    return [levels[depth] for depth in sorted(levels)]


def _first_step(change: Change) -> Change | None:
    """Return what a parent gets on the way down; None if it waits for the way up."""
    file = change.resource.file
    target = change.content if change.through is None else change.through
    # A parent without a merge shrinks only after its children have.
    if change.through is None and growth(file, change.current, target) < 0:
        return None
    step = change.step(change.current, target)
    step.passing = target != change.content
    return step


def _parents(levels: Sequence[Sequence[Change]]) -> set[tuple[str, str]]:
    """Return (file, cgroup) of every ancestor of a change.

    Only a change of the same file in an ancestor has to make room on the way down.
    """
    above: set[tuple[str, str]] = set()
    for level in levels:
        for change in level:
            cgroup = change.cgroup.rstrip("/")
            while cgroup:
                cgroup = cgroup.rpartition("/")[0]
                place = (change.resource.file, cgroup or "/")
                if place in above:  # and so are all ancestors of that one
                    break
                above.add(place)
    return above
