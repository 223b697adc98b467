"""Turns updates into writes: no more of them than needed, none that cannot be undone.

* What was written is remembered, and an update that says the same again costs a
  look-up, until the value is `refresh_s` old. Then the file is looked at again:
  somebody may have changed it.
* A file that holds the value already is not written: the kernel would rebuild its
  scheduling domains, or reclaim memory, for nothing. Updates that are not cacheable
  are always written.
* With a journal, the original value is committed before the file is touched. If that
  fails the update is refused.
* One update's failure is its own: the others of the batch go on, and nothing is raised
  for what the kernel says. A type that the registry lacks is a mistake of the caller's
  and is raised before anything is written.

Safe to use from several threads: one lock, held for the whole of a batch, so that a
leveled update is never interleaved with another. A caller whose values depend on what
it reads holds the same lock over both: `with executor.exclusive():`. A write to a
memory limit may block for as long as the kernel reclaims; whoever must not wait for
that has an executor of their own. Executors of other processes are kept apart by the
journal that they share.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from nriplugin.cgroup.journal.entries import entries_of, gone
from nriplugin.cgroup.writing.cache import Cache
from nriplugin.cgroup.writing.file_writer import FileWriter, Result
from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.cgroup.writing.leveled import downwards, upwards
from nriplugin.cgroup.writing.planning import UpdatePlan
from nriplugin.cgroup.writing.quirks import lift_quotas, needed
from nriplugin.cgroup.writing.updates import Outcome, Status
from nriplugin.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nriplugin.cgroup.journal.journal import Journal
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.updates import Change, Update, Writer

REFRESH_S = 60.0

# A cgroup may go long after it was forgotten, such as a pod's after its sandbox. So
# after so many of them all rows of the journal are looked at.
_SWEEP_EVERY = 100


class Executor:
    """The one who writes, for one tree."""

    def __init__(
        self,
        tree: Tree,
        *,
        journal: Journal | None = None,
        writer: Writer | None = None,
        refresh_s: float = REFRESH_S,
        clock: Callable[[], float] = time.monotonic,
        trace: Callable[[str, str], None] | None = None,
    ) -> None:
        """Begin with an empty cache.

        Args:
            tree: what is written.
            journal: where originals are kept; a journal is for one tree.
            writer: asked first (see `Writer`).
            refresh_s: how long a written value is taken for granted.
            clock: seconds, for the above.
            trace: called with path and content after every write that succeeded.
        """
        self._tree = tree
        self._journal = journal
        self._hands = FileWriter(tree, writer, trace)
        self._cache = Cache(tree.registry, refresh_s, clock)
        self._lock = threading.RLock()
        self._forgotten = 0  # since the last sweep

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other threads and processes from writing between a read and an update.

        It may be entered again from inside. Without a journal it excludes the other
        threads that use this executor; with one, everybody who uses the same journal.
        Nothing is raised where the journal cannot be locked: the update says so.
        """
        with self._lock, ExitStack() as held:
            if self._journal is not None:
                with suppress(JournalError):
                    held.enter_context(self._journal.exclusive())
            yield

    def update(self, update: Update, cacheable: bool = True) -> Outcome:
        """Write one value, unless it is there.

        Raises:
            ConfigError: the type is not in the registry.
        """
        return self.update_batch((update,), cacheable)[0]

    def update_batch(
        self, updates: Iterable[Update], cacheable: bool = True
    ) -> list[Outcome]:
        """Write values in their order; of several for the same, only the last.

        Within a cgroup, the kernel's order goes first (see quirks.py).

        Raises:
            ConfigError: a type is not in the registry; nothing is written.
        """
        latest = {update.key: update for update in updates}
        with self._lock:
            outcomes, rest = self._cache.look_up(latest, cacheable)
            if not rest:  # as nearly always
                return list(outcomes.values())
            plan = UpdatePlan(self._tree, self._hands, [rest])
            self._carry_out(plan, lambda: self._write_batch(plan, not cacheable))
        outcomes |= plan.outcomes
        return [outcomes[key] for key in latest]

    def leveled_update_batch(
        self, levels: Sequence[Sequence[Update]], cacheable: bool = True
    ) -> list[Outcome]:
        """Write a branch of the tree, given from the top down, so that all of it fits.

        Parents are first given the merge of what they hold and what they shall hold,
        then everybody the exact value from the bottom up (see leveled.py). A file that
        holds its value is not written, cacheable or not.

        Raises:
            ConfigError: a type is not in the registry; nothing is written.
        """
        latest = {update.key: update for level in levels for update in level}
        with self._lock:
            outcomes, rest = self._cache.look_up(latest, cacheable)
            if not rest:
                return list(outcomes.values())
            asked = {update.key: update for update in rest}
            plan = UpdatePlan(
                self._tree,
                self._hands,
                # Of several for the same, the last one, at the first one's level.
                [
                    [asked.pop(u.key) for u in level if u.key in asked]
                    for level in levels
                ],
            )
            self._carry_out(plan, lambda: self._write_levels(plan))
        outcomes |= plan.outcomes
        return [outcomes[key] for key in latest]

    def forget(self, cgroup: str) -> None:
        """Drop what is remembered of a cgroup that ended, and of all below it.

        The journal keeps its rows of files that are still there: a pod's cgroup
        outlives its sandbox, and what was written to it is to be undone.
        """
        with self._lock:
            self._forget(cgroup)
            self._forgotten += 1
            if self._forgotten >= _SWEEP_EVERY:
                self.sweep()

    def original(self, path: str, there: str) -> str | None:
        """Return what a file held before us, if what is there now is ours."""
        if self._journal is None:
            return None
        with self._lock, suppress(JournalError):
            row = self._journal.row(path)
            if row is not None and row.is_ours(there):
                return None if gone(self._tree.files, [row]) else row.original
        return None

    def sweep(self) -> None:
        """Drop what the journal has of files that are gone."""
        with self._lock:
            self._forgotten = 0
            self._drop_gone()

    def _carry_out(self, plan: UpdatePlan, write: Callable[[], None]) -> None:
        if self._journal is None:
            self._read(plan)
            write()
            return
        try:
            with self._journal.exclusive():
                self._read(plan)
                write()
        except JournalError as exc:
            plan.refuse(str(exc))

    def _read(self, plan: UpdatePlan) -> None:
        plan.read()
        for outcome in plan.outcomes.values():
            if outcome.status is Status.GONE:
                self._forget(outcome.update.cgroup)

    def _write_batch(self, plan: UpdatePlan, always: bool) -> None:
        (changes,) = plan.levels
        steps = needed(changes, always=always)
        self._write(plan, [*plan.first, *steps])
        self._skip_the_rest(plan, changes)

    def _write_levels(self, plan: UpdatePlan) -> None:
        lift_quotas(self._tree, plan.levels)
        final = {change.path: change for level in plan.levels for change in level}
        done = []
        for step, result in self._write(None, [*plan.first, *downwards(plan.levels)]):
            if result.status is not Status.WRITTEN:
                continue  # the second pass tries again, and its answer counts
            done.append(step)
            if step.path in final and step.content == final[step.path].content:
                self._note(plan, step, result)
        self._write(plan, upwards(plan.levels, done))
        self._skip_the_rest(plan, final.values())

    def _write(
        self, plan: UpdatePlan | None, steps: Sequence[Change]
    ) -> list[tuple[Change, Result]]:
        """Journal and write; without a plan, values that only stay for a moment."""
        if not steps:
            return []
        if self._journal is not None:
            self._journal.record(entries_of(self._tree.files, steps))
        results = []
        for step in steps:
            result = self._hands.write(step)
            if self._journal is not None and result.status is Status.WRITTEN:
                there = step.content if result.held is None else result.held
                self._journal.settle(step.path, step.content, there)
            if plan is None:
                self._cache.drop(step)
            else:
                self._note(plan, step, result)
            results.append((step, result))
        return results

    def _note(self, plan: UpdatePlan, change: Change, result: Result) -> None:
        """Give the updates of a file their outcome, and remember it."""
        file, there = change.resource.file, result.held
        differs = there is not None and not same(file, change.content, there)
        for update in change.updates:
            plan.outcomes[update.key] = Outcome(
                update,
                result.status,
                change.path,
                change.content,
                result.operation,
                result.errno,
                result.reason,
                there if differs else None,
                result.by_writer,
            )
        if result.status in (Status.WRITTEN, Status.SKIPPED):
            self._cache.remember(change, change.content if there is None else there)
        elif result.status is Status.GONE:
            self._forget(change.cgroup)
        else:
            self._cache.drop(change)

    def _skip_the_rest(self, plan: UpdatePlan, changes: Iterable[Change]) -> None:
        """Settle what needed no write; the file was read, so that is remembered too."""
        reason = "the file holds it already"
        for change in changes:
            if any(update.key not in plan.outcomes for update in change.updates):
                skipped = Result(Status.SKIPPED, "read", None, reason, change.current)
                self._note(plan, change, skipped)

    def _forget(self, cgroup: str) -> None:
        self._cache.forget(cgroup)
        self._drop_gone(cgroup)

    def _drop_gone(self, below: str | None = None) -> None:
        if self._journal is not None:
            with suppress(JournalError):  # the rows stay: they say nothing wrong
                rows = self._journal.rows(below)
                self._journal.forget(gone(self._tree.files, rows))
