"""Direct writes: values of a decision that no door can carry, written to cgroups.

A direct write for the cgroup of a pod, or for a cgroup above it, may be one container's
part of a sum. The direct writer reads the other containers' parts from their cgroups,
so after a restart, or in a hook that lives for one container, it comes to the same sum.
Only the part of a container that is being created has to be remembered until the
container's cgroup shows it (see claims.py).

Between reading the parts and writing the sum, the direct writer holds the journal's
lock, so no other thread and no other process of nriplugin can write in between.
It writes below the kubepods cgroup and nowhere else.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import identify
from nriplugin.cgroup.locate.paths import CRUN_INNER
from nriplugin.cgroup.types import contents
from nriplugin.cgroup.types.registry import Resource
from nriplugin.cgroup.writing.executor import Executor
from nriplugin.engine.allowed_files import ALLOWABLE
from nriplugin.engine.ancestors import shortfalls
from nriplugin.engine.decision import Level, When
from nriplugin.errors import CgroupError
from nriplugin.node.claims import Claims
from nriplugin.node.file_updates import updates_of
from nriplugin.node.journal_opening import open_journal
from nriplugin.node.observe import held
from nriplugin.node.protection import FILES, above, sum_below
from nriplugin.node.state_directory import state_directory

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Container,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )
    from contextlib import AbstractContextManager
    from typing import Self

    from nriplugin.cgroup.journal.journal import Journal
    from nriplugin.cgroup.journal.restore import Finding
    from nriplugin.cgroup.locate.detect import DetectedNode
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.queue import WriteQueue
    from nriplugin.cgroup.writing.updates import Outcome, Update, Writer
    from nriplugin.engine.decision import Write

_BURST = "cpu.max.burst"
# A burst -> the file whose first number is the quota, on cgroup v2 and v1.
_QUOTA_OF_BURST = {_BURST: "cpu.max", "cpu.cfs_burst_us": "cpu.cfs_quota_us"}


class DirectWriter:
    """Carries out the direct writes of decisions on one node."""

    def __init__(
        self,
        tree: Tree,
        executor: Executor,
        journal: Journal | None = None,
        systemd: Writer | None = None,
        queue: WriteQueue | None = None,
    ) -> None:
        """Write through an executor of that tree; `close` also closes the journal.

        `systemd` is the executor's writer, if it has one. `queue` takes what is given
        to `submit`, for another thread to write; without it, `submit` writes at once.
        """
        self.tree = tree
        self._executor = executor
        self._journal = journal
        self._systemd = systemd
        self.queue = queue
        # Ends the thread that writes the queue; returns whether it has ended.
        self.end_queue: Callable[[], bool] = lambda: True
        self.claims = Claims()
        # How many writes there were, by the file's name and the outcome's status. Two
        # threads that write at the same time may lose a count.
        self.counts: Counter[tuple[str, str]] = Counter()
        for file in ALLOWABLE:
            add_raw(tree, file)

    @classmethod
    def of(
        cls,
        node: DetectedNode,
        tree: Tree,
        state_dir: str | None = None,
        *,
        queued: bool = False,
    ) -> Self:
        """Return a writer for a node, with the journal in its state directory.

        `queued` is whether another thread writes what is given to `submit`.

        Raises:
            JournalError: the journal cannot be opened.
        """
        directory = state_directory(node, state_dir)
        journal = None if directory is None else open_journal(directory)
        systemd = node.writer()
        executor = Executor(tree, journal=journal, writer=systemd)
        queue = None
        if queued:
            # Late: the hook has no thread that could write a queue.
            from nriplugin.cgroup.writing.queue import WriteQueue

            queue = WriteQueue(executor)
        return cls(tree, executor, journal, systemd, queue)

    def close(self) -> None:
        """End the queue and close the journal; the tree is the caller's.

        If the thread that writes the queue does not end, the journal stays open: the
        thread may be using it.
        """
        if self.end_queue() and self._journal is not None:
            self._journal.close()

    @property
    def refresh_s(self) -> float:
        """For how long a submitted value counts without looking at its file."""
        return self._executor.refresh_s

    @refresh_s.setter
    def refresh_s(self, seconds: float) -> None:
        self._executor.refresh_s = seconds

    def submit(
        self,
        files: Mapping[str, str],
        cgroup: str,
        *,
        allowed: Callable[[], bool],
        done: Callable[[list[Outcome]], None],
        fresh: bool = False,
    ) -> bool:
        """Have files of a container written without waiting for them.

        A value that was submitted less than `refresh_s` ago is not written again.

        Args:
            files: the files and their values.
            cgroup: the container's cgroup.
            allowed: asked under the executor's lock just before the write.
            done: called once with the outcomes of all files, on the thread that writes.
            fresh: whether other values were found in the files, so that they are
                written however long ago that was done last.

        Returns:
            Whether they were accepted: the cgroup is a container's, and the queue has
            room. If not, `done` is not called.
        """
        if _level(cgroup) != "container":
            return False
        updates = {
            update.key: update
            for file, value in files.items()
            for update in self._for_container(file, value, cgroup)
        }
        if not updates:
            return False
        if self.queue is None:
            with self._executor.exclusive():
                if not allowed():
                    return False
                outcomes = self._executor.update_batch(updates.values(), fresh=fresh)
            self._counted(outcomes)
            done(outcomes)
            return True
        outcomes = []
        left = iter(range(len(updates) - 1, -1, -1))

        def collect(outcome: Outcome) -> None:
            outcomes.append(outcome)
            self._counted([outcome])
            if next(left) == 0:
                done(outcomes)

        return self.queue.submit(
            updates.values(), allowed=allowed, done=collect, fresh=fresh
        )

    def exclusive(self) -> AbstractContextManager[None]:
        """Hold the journal's lock, so that no other writer gets between two calls."""
        return self._executor.exclusive()

    def carry_out(
        self,
        writes: Iterable[Write],
        when: When,
        pod: str | None,
        container: str | None = None,
    ) -> list[Outcome]:
        """Do the writes of a decision that belong before or after the runtime's writes.

        Args:
            writes: all writes of the decision.
            when: which of the writes to do, BEFORE or AFTER; they keep their order.
            pod: the cgroup of the container's pod; None if the door does not know it,
                and then nothing is written.
            container: the container's own cgroup; None as long as it has none, and
                then the writes for the container's own files are left out.

        Returns:
            The outcome of each write; none for paths that are not a pod's cgroup and
            the cgroup of a container in it.
        """
        due = [write for write in writes if write.when is when]
        if not due or pod is None or _level(pod) != "pod":
            return []
        if container is not None and not _is_container(container, pod):
            return []
        with self._executor.exclusive():
            updates: list[Update] = []
            for write in due:
                if write.level is Level.POD:
                    updates += self._for_pod(write, pod, container)
                elif write.level is Level.ANCESTORS:
                    updates += self._for_ancestors(write, pod, container)
                elif container is not None:
                    updates += self._for_container(write.file, write.value, container)
            return self._write(updates)

    def prepare_creation(
        self, writes: Sequence[Write], pod: str | None, key: str, name: str = ""
    ) -> list[Outcome]:
        """Do the writes that come before a new container, and claim its parts of sums.

        Args:
            writes: all writes of the decision.
            pod: the cgroup of the container's pod, if the door knows it.
            key: names the claim, for `claims.rename` and `claims.end`.
            name: a text that the name of the container's cgroup will contain, if known.
        """
        before = [write for write in writes if write.when is When.BEFORE]
        if not before or pod is None:
            return []
        parts = {write.file: int(write.value) for write in before if write.part}
        with self._executor.exclusive():
            self.claims.end(key)
            outcomes = self.carry_out(before, When.BEFORE, pod)
            if parts:
                self.claims.add(key, pod, name, parts)
        return outcomes

    def put(self, files: Mapping[str, str], cgroup: str) -> list[Outcome]:
        """Write files of a container; files that hold their value are not written."""
        if _level(cgroup) != "container":
            return []
        updates = [
            update
            for file, value in files.items()
            for update in self._for_container(file, value, cgroup)
        ]
        return self._write(updates)

    def lower(self, pod: str) -> list[Outcome]:
        """Lower sums above a pod to what its present containers and claims need.

        The same happens for pods whose claims have expired meanwhile.
        """
        outcomes: list[Outcome] = []
        for one in sorted({pod, *self.claims.end_expired()}):
            if _level(one) != "pod":
                continue
            with self._executor.exclusive():
                updates = [u for file in FILES for u in self._lowered(file, one)]
                if updates:
                    outcomes += self._write(updates)
        return outcomes

    def forget(self, cgroup: str) -> None:
        """Drop the journal's and the cache's entries of a cgroup that was removed."""
        self._executor.forget(cgroup)

    def write_levels(self, updates: Sequence[Update]) -> list[Outcome]:
        """Write updates of one branch of the tree: parents first where values grow.

        Cgroups that are not below kubepods are left out.
        """
        levels: dict[int, list[Update]] = {}
        for update in updates:
            if _level(update.cgroup) is None:
                continue
            levels.setdefault(update.cgroup.count("/"), []).append(update)
        branch = [levels[depth] for depth in sorted(levels)]
        return self._counted(self._executor.leveled_update_batch(branch, fresh=True))

    def original(self, path: str, held: str) -> str | None:
        """Return what a file held before nriplugin wrote the value that it holds."""
        return self._executor.original(path, held)

    def original_of(self, path: str) -> str | None:
        """Return what a file held before the value that nriplugin wrote and it holds.

        None if it holds another one, or cannot be read.
        """
        try:
            held = self.tree.files.read(path).strip()
        except CgroupError:
            return None
        return self.original(path, held)

    def disown(self, paths: Iterable[str]) -> None:
        """Take note that another program has written what files hold already."""
        self._executor.disown(paths)

    def put_back(
        self, *, dry_run: bool = False, only: Container[str] | None = None
    ) -> list[Finding]:
        """Write back what files held before, as `nriplugin restore` does.

        `only` are the paths of the files that count; without it, all do.

        Raises:
            JournalError: the journal cannot be read or written.
        """
        if self._journal is None:
            return []
        # Late: hardly any process ever does this.
        from nriplugin.cgroup.journal.restore import restore

        with self._executor.exclusive():
            return restore(
                *(self.tree, self._journal, self._systemd), dry_run=dry_run, only=only
            )

    def sweep(self) -> None:
        """Drop the entries of all cgroups that do not exist any more."""
        self._executor.sweep()

    def sweep_large_journal(self, limit_bytes: int) -> None:
        """Sweep if the journal's database has grown to so many bytes."""
        if self._journal is None:
            return
        if os.path.getsize(self._journal.path) >= limit_bytes:
            self.sweep()

    def put_outside_pods(self, files: Mapping[str, str], cgroup: str) -> list[Outcome]:
        """Write files of a container that belongs to no pod, such as podman's.

        `put` refuses cgroups that are not below kubepods. This method checks nothing:
        the caller has to make sure that the cgroup is the container's own.
        """
        updates = [
            u for file, value in files.items() for u in updates_of(file, value, cgroup)
        ]
        return self._write(updates)

    def _write(self, updates: Sequence[Update]) -> list[Outcome]:
        """Write, and count the outcome of every file.

        Each file is read before a write is skipped as done, because runtimes and
        kubelet write to the same files.
        """
        outcomes = self._executor.update_batch(updates, fresh=True) if updates else []
        return self._counted(outcomes)

    def _counted(self, outcomes: list[Outcome]) -> list[Outcome]:
        for outcome in outcomes:
            self.counts[outcome.path.rpartition("/")[2], outcome.status.value] += 1
        return outcomes

    def _for_container(self, file: str, value: str, cgroup: str) -> Iterator[Update]:
        """Set a container's file; a burst also in crun's inner cgroup.

        crun with systemd gives the inner cgroup the same quota, and the kernel compares
        quota and burst in each of the two.
        """
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
        claims = self.claims.in_pod(pod, write.file)
        others = sum_below(self.tree, pod, write.file, container, claims)
        total = int(write.value) + others
        quota_file = _QUOTA_OF_BURST.get(write.file)
        if quota_file is not None:
            quota, _, _ = (held(self.tree, pod, quota_file) or "max").partition(" ")
            if not quota.isdecimal():  # "max", and on cgroup v1 "-1"
                return  # a pod without a quota is never throttled, so it needs no burst
            total = min(total, int(quota))
        yield from updates_of(write.file, str(total), pod)

    def _for_ancestors(
        self, write: Write, pod: str, container: str | None
    ) -> list[Update]:
        """Raise the pod's cgroup and those above it to what their children need.

        None of them is lowered here. The topmost is raised first, because a cgroup with
        more protection than its parent takes it from its siblings.
        """
        claims = self.claims.in_pod(pod, write.file)
        own = int(write.value)
        chain = above(self.tree, pod, container, write.file, own, claims)
        return [
            update
            for one in reversed(shortfalls(list(chain)))
            for update in updates_of(write.file, str(one.needs_bytes), one.path)
        ]

    def _lowered(self, file: str, pod: str) -> Iterator[Update]:
        """Lower the pod's cgroup, then those above it, where they exceed their needs.

        No cgroup is lowered below the value that the journal has as its original.
        """
        child, parent, needs = "", pod, 0
        claims = self.claims.in_pod(pod, file)
        while identify(parent) is not None:
            has = held(self.tree, parent, file) or ""
            needs += sum_below(self.tree, parent, file, child, claims)
            if has.isdecimal():
                path = self.tree.file_path(parent, file)
                original = self._executor.original(path, has) or has
                kept = max(needs, int(original)) if original.isdecimal() else int(has)
                if kept < int(has):
                    yield from updates_of(file, str(kept), parent)
                needs = min(kept, int(has))
            child, parent, claims = parent, parent.rpartition("/")[0], []


def _level(cgroup: str) -> str | None:
    place = identify(cgroup)
    return None if place is None or place.conmon else place.level


def _is_container(cgroup: str, pod: str) -> bool:
    return cgroup.rpartition("/")[0] == pod and _level(cgroup) == "container"


def add_raw(tree: Tree, file: str) -> None:
    """Register a type for a file that has none, whose text is written as it is.

    The engine has checked the text by then (engine/allowed_files.py).
    """
    known = {resource.file for resource in tree.registry}
    if tree.version == 2 and file not in known:
        controller = file.partition(".")[0]
        raw = Resource.of(2, controller, file, contents.text(), type=file)
        tree.registry.add(raw)
