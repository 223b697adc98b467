"""Changing a branch of the tree while nothing in it may outgrow its parent.

A cpuset is within its parent's, a protected amount of memory counts only as far as the
parent has it, and a v1 quota is at most the parent's. So a branch changes in two
passes: from the top down every parent gets what holds both the old and the new below
it, and from the bottom up everybody gets exactly what was asked for. What only grows
is thereby written from the top down, what only shrinks from the bottom up, and what
would change nothing is not written.

This module only puts changes in order; it reads and writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.kernel_text import growth
from nriplugin.cgroup.writing.quirks import needed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nriplugin.cgroup.writing.updates import Change


def downwards(levels: Sequence[Sequence[Change]]) -> list[Change]:
    """Return the first pass: what parents hold while their children change."""
    above = _parents(levels)
    steps: list[Change] = []
    for level in levels:
        parents = (c for c in level if (c.resource.file, c.cgroup) in above)
        steps += needed(step for c in parents if (step := _on_the_way(c)))
    return steps


def upwards(levels: Sequence[Sequence[Change]], done: Iterable[Change]) -> list[Change]:
    """Return the second pass: exactly what was asked for, where it is not there yet.

    Args:
        levels: the same as for the first pass.
        done: the steps of the first pass that succeeded.
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


def _on_the_way(change: Change) -> Change | None:
    file = change.resource.file
    target = change.content if change.through is None else change.through
    if change.through is None and growth(file, change.current, target) < 0:
        return None
    step = change.step(change.current, target)
    step.passing = target != change.content
    return step


def _parents(levels: Sequence[Sequence[Change]]) -> set[tuple[str, str]]:
    """Return the file and cgroup of everything that something else here is below of."""
    above: set[tuple[str, str]] = set()
    for level in levels:
        for change in level:
            cgroup = change.cgroup.rstrip("/")
            while cgroup:
                cgroup = cgroup.rpartition("/")[0]
                place = (change.resource.file, cgroup or "/")
                if place in above:
                    break
                above.add(place)
    return above
