"""Carries out what the engine decided and no door carries: writes to cgroups.

A write at the level of a pod or above may be one container's part of a sum. The others'
parts are read from their cgroups, so a restart, or a hook that lives for a moment,
comes to the same sum. Only what a new container was promised has to be remembered until
its cgroup shows it (see promises.py).

From reading a sum to writing it, every other thread and process that writes through the
same journal is kept out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.journal import Journal
from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.paths import CRUN_INNER
from nriplugin.cgroup.types import contents
from nriplugin.cgroup.types.registry import Resource, Type
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.cgroup.writing.updates import Update
from nriplugin.engine.allowed_files import ALLOWABLE
from nriplugin.engine.ancestors import shortfalls
from nriplugin.engine.decision import Level
from nriplugin.node.claims import Promises
from nriplugin.node.observe import held
from nriplugin.node.protection import FILES, above, sum_below
from nriplugin.node.state_directory import state_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Self

    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.updates import Outcome
    from nriplugin.engine.decision import Write

ORIGIN = "nriplugin"

# cgroup v2 files whose type has another name.
_TYPES = {
    "cpu.max.burst": Type.CPU_BURST,
    "memory.max": Type.MEMORY_LIMIT,
}
_BURST = "cpu.max.burst"


class DirectWriter:
    """Writes to the cgroups of one node, below kubepods and nowhere else."""

    def __init__(
        self, tree: Tree, executor: Executor, journal: Journal | None = None
    ) -> None:
        """Write through an executor of that tree; the journal is closed with us."""
        self.tree = tree
        self._executor = executor
        self._journal = journal
        self.promises = Promises()
        for file in ALLOWABLE:
            add_raw(tree, file)

    @classmethod
    def of(cls, node: DetectedNode, tree: Tree, state_dir: str | None = None) -> Self:
        """Get ready to write on a node.

        Raises:
            JournalError: the journal cannot be opened.
        """
        directory = state_directory(node, state_dir)
        journal = None if directory is None else Journal(directory)
        # Nothing is taken for granted: runtimes and kubelet write to the same files.
        executor = Executor(tree, journal=journal, writer=node.writer(), refresh_s=0.0)
        return cls(tree, executor, journal)

    def close(self) -> None:
        """Close the journal; the tree is the caller's."""
        if self._journal is not None:
            self._journal.close()

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep others who share the journal from writing between several calls."""
        return self._executor.exclusive()

    def carry_out(
        self, writes: Iterable[Write], pod: str, container: str | None = None
    ) -> list[Outcome]:
        """Do a decision's writes in their order.

        Args:
            writes: those whose time has come.
            pod: the cgroup of the container's pod.
            container: the container's own; None as long as there is none, and then
                what is for it is left out.

        Returns:
            What became of each; nothing for cgroups that are not what they should be.
        """
        if _level(pod) != "pod":
            return []
        if container is not None and not _is_container(container, pod):
            return []
        with self._executor.exclusive():
            updates: list[Update] = []
            for write in writes:
                if write.level is Level.POD:
                    updates += self._for_pod(write, pod, container)
                elif write.level is Level.ANCESTORS:
                    updates += self._for_ancestors(write, pod, container)
                elif container is not None:
                    updates += self._for_container(write.file, write.value, container)
            return self._executor.update_batch(updates) if updates else []

    def prepare(
        self, writes: Sequence[Write], pod: str, key: str, name: str = ""
    ) -> list[Outcome]:
        """Do what comes before a new container, and have its parts count from now on.

        Args:
            writes: those whose time has come.
            pod: the cgroup of the container's pod.
            key: what the promise is ended by: `promises.end(key)`.
            name: what the name of the container's cgroup will contain, if known.
        """
        parts = {write.file: int(write.value) for write in writes if write.part}
        with self._executor.exclusive():
            self.promises.end(key)
            outcomes = self.carry_out(writes, pod)
            if parts:
                self.promises.make(key, pod, name, parts)
        return outcomes

    def put(self, files: Mapping[str, str], cgroup: str) -> list[Outcome]:
        """Write files of a container; those that hold their value are left alone."""
        if _level(cgroup) != "container":
            return []
        updates = [
            update
            for file, value in files.items()
            for update in self._for_container(file, value, cgroup)
        ]
        return self._executor.update_batch(updates) if updates else []

    def lower(self, pod: str) -> list[Outcome]:
        """Take back what was raised above containers that are gone by now.

        Also above those that were promised something, and of which nothing was heard.
        """
        outcomes: list[Outcome] = []
        for one in sorted({pod, *self.promises.end_expired()}):
            if _level(one) != "pod":
                continue
            with self._executor.exclusive():
                updates = [u for file in FILES for u in self._lowered(file, one)]
                if updates:
                    outcomes += self._executor.update_batch(updates)
        return outcomes

    def forget(self, cgroup: str) -> None:
        """Drop what is remembered of a cgroup that is gone, and of all below it."""
        self._executor.forget(cgroup)

    def sweep(self) -> None:
        """Drop what is remembered of cgroups that went while nobody looked."""
        self._executor.sweep()

    def sweep_large_journal(self, limit_bytes: int) -> None:
        """Sweep if the journal's database has grown to so many bytes."""
        if self._journal is None:
            return
        if os.path.getsize(self._journal.path) >= limit_bytes:
            self.sweep()

    def put_outside_pods(self, files: Mapping[str, str], cgroup: str) -> list[Outcome]:
        """Write files of a container that belongs to no pod, such as podman's.

        `put` refuses cgroups that are not below kubepods. Here the caller answers for
        the cgroup: it has to be the container's own.
        """
        updates = [
            u for file, value in files.items() for u in updates_of(file, value, cgroup)
        ]
        return self._executor.update_batch(updates) if updates else []

    def _for_container(self, file: str, value: str, cgroup: str) -> Iterator[Update]:
        """A burst also for the cgroup that crun has below: it gets the same quota."""
        yield from updates_of(file, value, cgroup)
        inner = f"{cgroup}/{CRUN_INNER}"
        if file == _BURST and self.tree.files.exists(f"{inner}/{file}"):
            yield from updates_of(file, value, inner)

    def _for_pod(
        self, write: Write, pod: str, container: str | None
    ) -> Iterator[Update]:
        if not write.part:
            yield from updates_of(write.file, write.value, pod)
            return
        promises = self.promises.made_in(pod, write.file)
        others = sum_below(self.tree, pod, write.file, container, promises)
        total = int(write.value) + others
        if write.file == _BURST:
            quota, _, _ = (held(self.tree, pod, "cpu.max") or "max").partition(" ")
            if not quota.isdecimal():
                return  # nothing holds the pod back, so there is nothing to burst above
            total = min(total, int(quota))
        yield from updates_of(write.file, str(total), pod)

    def _for_ancestors(
        self, write: Write, pod: str, container: str | None
    ) -> list[Update]:
        """Raise the pod and all above, as far as children need it; never lower one.

        From the top down: a child that has more than its parent takes from the others.
        """
        promises = self.promises.made_in(pod, write.file)
        own = int(write.value)
        chain = above(self.tree, pod, container, write.file, own, promises)
        return [
            update
            for one in reversed(shortfalls(list(chain)))
            for update in updates_of(write.file, str(one.needs_bytes), one.path)
        ]

    def _lowered(self, file: str, pod: str) -> Iterator[Update]:
        """From the bottom up, and never below what was there before us."""
        child, parent, needs = "", pod, 0
        promises = self.promises.made_in(pod, file)
        while identify(parent) is not None:
            has = held(self.tree, parent, file) or ""
            needs += sum_below(self.tree, parent, file, child, promises)
            if has.isdecimal():
                original = self._executor.original(f"{parent}/{file}", has) or has
                kept = max(needs, int(original)) if original.isdecimal() else int(has)
                if kept < int(has):
                    yield from updates_of(file, str(kept), parent)
                needs = min(kept, int(has))
            child, parent, promises = parent, parent.rpartition("/")[0], []


def _level(cgroup: str) -> str | None:
    place = identify(cgroup)
    return None if place is None or place.conmon else place.level


def _is_container(cgroup: str, pod: str) -> bool:
    return cgroup.rpartition("/")[0] == pod and _level(cgroup) == "container"


def updates_of(file: str, value: str, cgroup: str) -> Iterator[Update]:
    """Return what sets a v2 file: cpu.max holds two types, every other file one."""
    if file == "cpu.max":
        quota, _, period = value.partition(" ")
        yield Update(Type.CPU_QUOTA, cgroup, quota, origin=ORIGIN)
        if period:
            yield Update(Type.CPU_PERIOD, cgroup, period, origin=ORIGIN)
    else:
        yield Update(_TYPES.get(file, file), cgroup, value, origin=ORIGIN)


def add_raw(tree: Tree, file: str) -> None:
    """Let a file that has no type be written as it is; the engine has checked it."""
    known = {resource.file for resource in tree.registry}
    if tree.version == 2 and file not in known:
        controller = file.partition(".")[0]
        raw = Resource.of(2, controller, file, contents.text(), type=file)
        tree.registry.add(raw)
