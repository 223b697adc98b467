"""`Executor`: turns updates into writes, no more than needed, each of them undoable.

* A value that was written is cached, and the same update again costs a look-up, until
  the value is `refresh_s` old. Then the file is read again, because another program may
  have changed it.
* A file that already holds the value is not written: the kernel would rebuild its
  scheduling domains, or reclaim memory, for nothing. Updates that are not cacheable are
  always written.
* With a journal, the original value is committed before the file is written. If the
  commit fails, the update is refused.
* A failed update does not stop the others of its batch, and no error of the kernel is
  raised. A type that the registry lacks is a mistake of the caller and is raised before
  anything is written.

An executor may be used by several threads. One lock is held for the whole of a batch,
so that two leveled updates never interleave. A caller whose values depend on files that
it reads holds the same lock over reading and writing: `with executor.exclusive():`. A
write to a memory limit may block for as long as the kernel reclaims, so a thread that
must not wait hands its updates to an `WriteQueue`. Executors of other processes are
excluded by the journal that they share.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from nriplugin.cgroup.writing.cache import Cache
from nriplugin.cgroup.writing.file_writer import FileWriter, Result
from nriplugin.cgroup.writing.journal_entries import entries_of, gone
from nriplugin.cgroup.writing.kernel_text import same
from nriplugin.cgroup.writing.leveled import downwards, upwards
from nriplugin.cgroup.writing.merging import MERGES
from nriplugin.cgroup.writing.planning import UpdatePlan
from nriplugin.cgroup.writing.updates import REFRESH_S, Outcome, Status
from nriplugin.cgroup.writing.write_order import lift_quotas, needed
from nriplugin.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.cgroup.writing.journal_entries import OriginalsJournal
    from nriplugin.cgroup.writing.updates import Change, Update, Writer

# The kubelet removes a pod's cgroup long after its sandbox ended, so `forget` finds it
# still there and keeps its rows. After this many calls all rows of the journal are
# checked.
_SWEEP_EVERY = 100


class Executor:
    """Writes the files of one tree."""

    def __init__(
        self,
        tree: Tree,
        *,
        journal: OriginalsJournal | None = None,
        writer: Writer | None = None,
        refresh_s: float = REFRESH_S,
        clock: Callable[[], float] = time.monotonic,
        trace: Callable[[str, str], None] | None = None,
    ) -> None:
        """Begin with an empty cache.

        Args:
            tree: whose files are written.
            journal: stores original values; a journal is for one tree only.
            writer: is asked before a file is written (see `Writer`).
            refresh_s: how long a written value stays in the cache.
            clock: the seconds that `refresh_s` is counted in.
            trace: called with path and content after every write that succeeded.
        """
        self._tree = tree
        self._journal = journal
        self._file_writer = FileWriter(tree, writer, trace)
        self._cache = Cache(tree.registry, refresh_s, clock)
        self._lock = threading.RLock()
        self._forgotten = 0  # since the last sweep

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep other threads and processes from writing between a read and an update.

        The same thread may enter again. Without a journal, the other threads that use
        this executor are excluded; with one, so are all threads and processes that use
        the same journal. If the journal cannot be locked nothing is raised here: the
        updates inside are then refused, with the reason in their outcomes.
        """
        with self._lock, ExitStack() as held:
            if self._journal is not None:
                with suppress(JournalError):
                    held.enter_context(self._journal.exclusive())
            yield

    @property
    def refresh_s(self) -> float:
        """For how long a written value counts without looking at the file."""
        return self._cache.refresh_s

    @refresh_s.setter
    def refresh_s(self, seconds: float) -> None:
        self._cache.refresh_s = seconds

    def check(self, update: Update) -> None:
        """Refuse an update whose type is not in the registry.

        Raises:
            ConfigError: it is not.
        """
        self._tree.registry.get(update.type)

    def path_of(self, update: Update) -> str:
        """Return the path of the file that an update is about."""
        return self._tree.path(update.type, update.cgroup)

    def update(self, update: Update, cacheable: bool = True) -> Outcome:
        """Write one value, unless the file holds it.

        Raises:
            ConfigError: the type is not in the registry.
        """
        return self.update_batch((update,), cacheable)[0]

    def update_batch(
        self,
        updates: Iterable[Update],
        cacheable: bool = True,
        *,
        fresh: bool = False,
    ) -> list[Outcome]:
        """Write values in the order given; of several with one key, only the last.

        Within a cgroup, the kernel's rules about order come first (write_order.py).

        Args:
            updates: the values.
            cacheable: whether a file that holds its value is left alone.
            fresh: whether every file is read first, whatever the cache says. For files
                that another program may just have written.

        Raises:
            ConfigError: a type is not in the registry; nothing is written.
        """
        latest = {update.key: update for update in updates}
        with self._lock:
            outcomes, rest = self._cache.look_up(latest, cacheable and not fresh)
            if not rest:  # the usual case: every value is in the cache
                return list(outcomes.values())
            plan = UpdatePlan(self._tree, self._file_writer, [rest])
            self._carry_out(plan, lambda: self._write_batch(plan, not cacheable))
        outcomes |= plan.outcomes
        return [outcomes[key] for key in latest]

    def leveled_update_batch(
        self,
        levels: Sequence[Sequence[Update]],
        cacheable: bool = True,
        *,
        fresh: bool = False,
    ) -> list[Outcome]:
        """Write a branch of the tree, given from the top down.

        From the top down, parents first get the merge of what they hold and what they
        are to hold; from the bottom up, every cgroup then gets its exact value (see
        leveled.py and merging.py). So no cgroup is ever too large for its parent. A
        file that holds its value is not written, cacheable or not. `fresh` is as for
        `update_batch`.

        Raises:
            ConfigError: a type is not in the registry; nothing is written.
        """
        latest = {update.key: update for level in levels for update in level}
        with self._lock:
            outcomes, rest = self._cache.look_up(latest, cacheable and not fresh)
            if not rest:
                return list(outcomes.values())
            asked = {update.key: update for update in rest}
            plan = UpdatePlan(
                self._tree,
                self._file_writer,
                # Of several with one key, the last value counts, at the level of the
                # first.
                [
                    [asked.pop(u.key) for u in level if u.key in asked]
                    for level in levels
                ],
                MERGES,
            )
            self._carry_out(plan, lambda: self._write_levels(plan))
        outcomes |= plan.outcomes
        return [outcomes[key] for key in latest]

    def note_change(self, path: str) -> None:
        """Take note that another program has written to a file."""
        with self._lock:
            self._cache.drop_path(path)

    def forget(self, cgroup: str) -> None:
        """Drop the cached values of a cgroup that ended, and of those below it.

        The journal keeps the rows of files that still exist: a pod's cgroup outlives
        its sandbox, and `restore` has to undo what was written to it.
        """
        with self._lock:
            self._forget(cgroup)
            self._forgotten += 1
            if self._forgotten >= _SWEEP_EVERY:
                self.sweep()

    def original(self, path: str, held: str) -> str | None:
        """Return what a file held before nriplugin wrote to it.

        None if what it holds now is not a value that nriplugin wrote.
        """
        if self._journal is None:
            return None
        with self._lock, suppress(JournalError):
            row = self._journal.row(path)
            if row is not None and row.is_ours(held):
                return None if gone(self._tree.files, [row]) else row.original
        return None

    def disown(self, paths: Iterable[str]) -> None:
        """Take note that another program has written what files hold already.

        The journal cannot see that. What they hold is their original from now on.
        """
        if self._journal is not None:
            with self._lock, suppress(JournalError):
                self._journal.drop(paths)

    def sweep(self) -> None:
        """Drop the journal's rows of files that are gone."""
        with self._lock:
            self._forgotten = 0
            self._drop_gone()

    def _carry_out(self, plan: UpdatePlan, write: Callable[[], None]) -> None:
        if self._journal is None:
            self._read(plan)
            write()
            return
        # The lock is held from reading the files to writing them: otherwise another
        # process could write in between, and its value would never be recorded.
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
                continue  # the second pass tries again, and its outcome counts
            done.append(step)
            # The parent holds its exact value already: the second pass will leave it
            # out, so this is its outcome.
            if step.path in final and step.content == final[step.path].content:
                self._note(plan, step, result)
        self._write(plan, upwards(plan.levels, done))
        self._skip_the_rest(plan, final.values())

    def _write(
        self, plan: UpdatePlan | None, steps: Sequence[Change]
    ) -> list[tuple[Change, Result]]:
        """Record the originals, then write.

        Without a plan, the values are those of a first pass: they are not cached and
        have no outcome.
        """
        if not steps:
            return []
        if self._journal is not None:
            self._journal.record(entries_of(self._tree.files, steps))
        results = []
        for step in steps:
            result = self._file_writer.write(step)
            if self._journal is not None and result.status is Status.WRITTEN:
                now = step.content if result.held is None else result.held
                self._journal.settle(step.path, step.content, now)
            if plan is None:
                self._cache.drop(step)
            else:
                self._note(plan, step, result)
            results.append((step, result))
        return results

    def _note(self, plan: UpdatePlan, change: Change, result: Result) -> None:
        """Give the updates of a file their outcome, and cache the value."""
        file, held = change.resource.file, result.held
        differs = held is not None and not same(file, change.content, held)
        for update in change.updates:
            plan.outcomes[update.key] = Outcome(
                update,
                result.status,
                change.path,
                change.content,
                result.operation,
                result.errno,
                result.reason,
                held if differs else None,
                result.by_writer,
            )
        if result.status in (Status.WRITTEN, Status.SKIPPED):
            self._cache.remember(change, change.content if held is None else held)
        elif result.status is Status.GONE:
            self._forget(change.cgroup)
        else:
            self._cache.drop(change)

    def _skip_the_rest(self, plan: UpdatePlan, changes: Iterable[Change]) -> None:
        """Give updates that needed no write their outcome, and cache what was read."""
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
            # On an error the rows stay. That is harmless: `restore` checks each file.
            with suppress(JournalError):
                rows = self._journal.rows(below)
                self._journal.forget(gone(self._tree.files, rows))
