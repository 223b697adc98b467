"""`WriteQueue`: updates that a thread of their own writes, merged by file.

A write may block for long: a lower memory limit for as long as the kernel reclaims, a
unit's property for as long as systemd takes. `submit` never waits for a file.

* Every update that is accepted gets exactly one outcome, through `done`.
* Of several values of one file that wait, only the last is written, in the place of the
  first. The others get the outcome `superseded`.
* What is submitted together is written together, in the order of submission. Levels
  stay levels (`Executor.leveled_update_batch`).
* At most `limit` updates wait. A submission that does not fit is not accepted, as a
  whole, and is counted. A new value of a file that waits always fits.
* `allowed` is asked under the executor's lock just before the write: what was right at
  the submission may not be any more. If it says no, the outcome is `dropped`.
* At the end the batch under way is finished. What still waits is written or dropped, as
  the caller of `run` chooses.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.writing.updates import Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nriplugin.cgroup.writing.executor import Executor
    from nriplugin.cgroup.writing.updates import Update

    Allowed = Callable[[], bool]
    Done = Callable[[Outcome], None]

_log = logging.getLogger(__name__)

# Koordlet's executor has room for as many. Each takes about 0.5 KB.
LIMIT = 1024
# `run` looks at its stop flag this often while nothing is submitted and nobody calls
# `wake`.
LOOK_S = 1.0


class _Waiting(NamedTuple):
    """An update that waits, and what its submitter wants to be asked and told."""

    update: Update
    allowed: Allowed | None
    done: Done | None
    fresh: bool


class _Batch(NamedTuple):
    """Updates that are written together; one level unless `leveled`."""

    levels: list[dict[str, _Waiting]]  # by key
    leveled: bool


class WriteQueue:
    """Updates that wait for the thread that calls `run`. Any thread may submit."""

    def __init__(self, executor: Executor, *, limit: int = LIMIT) -> None:
        """Begin empty; `limit` is how many updates may wait."""
        self.executor = executor
        # Outcomes by status, and submissions that were not accepted as `refused`.
        self.counts: Counter[Status] = Counter()
        self._limit = limit
        self._lock = threading.Lock()  # held for look-ups only
        self._changed = threading.Condition(self._lock)
        self._batches: deque[_Batch] = deque()
        self._levels: dict[str, dict[str, _Waiting]] = {}  # key -> the level it is in
        # When the batch under way was begun (`monotonic`); None between two batches.
        self._writing_since: float | None = None

    def __len__(self) -> int:
        """Return how many updates wait."""
        return len(self._levels)

    @property
    def busy_s(self) -> float:
        """Return for how many seconds the batch under way takes; 0 if there is none."""
        began = self._writing_since
        return 0.0 if began is None else monotonic() - began

    def submit(
        self,
        updates: Iterable[Update],
        *,
        allowed: Allowed | None = None,
        done: Done | None = None,
        fresh: bool = False,
    ) -> bool:
        """Have updates written; return whether they were accepted.

        Args:
            updates: as for `Executor.update_batch`.
            allowed: says, on the thread of `run`, whether they may still be written.
            done: is called once per update with its outcome: on the thread of `run`, or
                on the one that submits a later value.
            fresh: whether another program has written to the files, so that the
                executor's cache does not count.

        Raises:
            ConfigError: a type is not in the registry; nothing is accepted.
        """
        return self._submit([updates], False, (allowed, done, fresh))

    def submit_leveled(
        self,
        levels: Sequence[Iterable[Update]],
        *,
        allowed: Allowed | None = None,
        done: Done | None = None,
        fresh: bool = False,
    ) -> bool:
        """Do as `submit` for a branch of the tree, given from the top down.

        Raises:
            ConfigError: a type is not in the registry; nothing is accepted.
        """
        return self._submit(levels, True, (allowed, done, fresh))

    def write_next(self) -> bool:
        """Write the batch that waits longest; return whether there was one."""
        with self._lock:
            if not self._batches:
                return False
            batch = self._batches.popleft()
            for level in batch.levels:
                for key in level:
                    del self._levels[key]
        self._writing_since = monotonic()
        try:
            self._write(batch)
        finally:
            self._writing_since = None
        return True

    def run(self, stop: threading.Event, *, drain: bool = False) -> None:
        """Write what is submitted, until `stop` is set.

        Args:
            stop: ends the loop; `wake` makes that immediate.
            drain: whether what waits then is written. If not, it is dropped.
        """
        while not stop.is_set():
            if not self.write_next():
                with self._changed:
                    if not (self._batches or stop.is_set()):
                        self._changed.wait(LOOK_S)
        while drain and self.write_next():
            pass
        with self._lock:
            left = [one for batch in self._batches for one in _all_of(batch)]
            self._batches.clear()
            self._levels.clear()
        self._drop(left, "the queue has ended")

    def wake(self) -> None:
        """Make `run` look at its stop flag now."""
        with self._changed:
            self._changed.notify_all()

    def _submit(
        self,
        given: Iterable[Iterable[Update]],
        leveled: bool,
        wishes: tuple[Allowed | None, Done | None, bool],
    ) -> bool:
        levels = [list(level) for level in given]
        for level in levels:
            for update in level:
                self.executor.check(update)
        superseded: list[_Waiting] = []
        with self._changed:
            keys = {update.key for level in levels for update in level}
            if len(self._levels) + len(keys - self._levels.keys()) > self._limit:
                self.counts[Status.REFUSED] += 1
                return False
            batch = _Batch([{} for _ in levels], leveled)
            for new, level in zip(batch.levels, levels, strict=True):
                for update in level:
                    place = self._levels.setdefault(update.key, new)
                    if update.key in place:
                        superseded.append(place[update.key])
                    place[update.key] = _Waiting(update, *wishes)
            if any(batch.levels):
                self._batches.append(batch)
            self._changed.notify_all()
        for one in superseded:
            self._tell(one, self._unwritten(one, Status.SUPERSEDED, "a later value"))
        return True

    def _write(self, batch: _Batch) -> None:
        waiting = {one.update.key: one for one in _all_of(batch)}
        executor = self.executor
        with executor.exclusive():
            allowed = {k for k, one in waiting.items() if _may(one)}
            for key in allowed:
                if waiting[key].fresh:
                    executor.note_change(executor.path_of(waiting[key].update))
            levels = [
                [one.update for key, one in level.items() if key in allowed]
                for level in batch.levels
            ]
            try:
                if batch.leveled:
                    outcomes = executor.leveled_update_batch(levels)
                else:
                    outcomes = executor.update_batch(levels[0])
            except Exception as exc:  # noqa: BLE001 - later batches must be written
                _log.exception("a batch of updates failed")
                failed = (waiting[u.key] for level in levels for u in level)
                outcomes = [
                    self._unwritten(one, Status.FAILED, repr(exc)) for one in failed
                ]
        written = [update.key for level in levels for update in level]
        for key, outcome in zip(written, outcomes, strict=True):
            self._tell(waiting[key], outcome)
        self._drop([o for k, o in waiting.items() if k not in allowed], "not allowed")

    def _drop(self, waiting: Iterable[_Waiting], reason: str) -> None:
        for one in waiting:
            self._tell(one, self._unwritten(one, Status.DROPPED, reason))

    def _unwritten(self, one: _Waiting, status: Status, reason: str) -> Outcome:
        update = one.update
        path = self.executor.path_of(update)
        return Outcome(update, status, path, str(update.value), reason=reason)

    def _tell(self, one: _Waiting, outcome: Outcome) -> None:
        self.counts[outcome.status] += 1
        if one.done is None:
            return
        try:
            one.done(outcome)
        except Exception:  # noqa: BLE001 - the other updates must be written all the same
            _log.exception("%s: a function that takes outcomes failed", outcome.path)


def _all_of(batch: _Batch) -> Iterable[_Waiting]:
    for level in batch.levels:
        yield from level.values()


def _may(one: _Waiting) -> bool:
    if one.allowed is None:
        return True
    try:
        return one.allowed()
    except Exception:  # noqa: BLE001 - what may not be known to be right is not written
        _log.exception("%s: a function that allows writes failed", one.update.key)
        return False
