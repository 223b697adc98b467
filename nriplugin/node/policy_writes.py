"""Writes the values that policies hold at run time, and puts the originals back.

The values of a pod and of its containers are written as one branch of the tree, so that
the pod comes first where values grow and the container where they shrink. A file is
only written while it holds a value that may be replaced: the original, or the one that
nriplugin wrote last. Any other value is another program's, or a resize that nriplugin
has not been told of yet, and stays.

`PolicyRecord` says which files hold a policy's value. Only the journal knows the
originals, but it has rows of other direct writes as well. After a crash, the next
process puts those files back that the record names. Only one process at a time acts by
the record of a state directory.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.locate.paths import CRUN_INNER
from nriplugin.cgroup.types.registry import Type
from nriplugin.cgroup.writing.kernel_text import equal
from nriplugin.cgroup.writing.updates import Update
from nriplugin.errors import CgroupError
from nriplugin.loglimit import LimitedLog
from nriplugin.node.file_updates import ORIGIN, updates_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence, Set

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.node.direct_writes import DirectWriter

_log = logging.getLogger(__name__)

RECORD = "policies.json"
LOCK = "policies.lock"


class Target(NamedTuple):
    """A value that a file is to hold, and the values that it may replace."""

    cgroup: str
    file: str  # the name of the cgroup v2 file
    value: str
    known: tuple[str, ...]


class TargetResult(NamedTuple):
    """What came of a target."""

    target: Target
    ok: bool  # the file holds the value now, or what systemd makes of it
    now: str = ""  # what the file holds, if it does
    gone: bool = False  # the cgroup was removed
    other: str | None = None  # the value of another program, which stays
    reason: str = ""  # why the write failed


def held_value(tree: Tree, cgroup: str, file: str) -> str | None:
    """Return what a file holds, in the format of cgroup v2; None if it is not there."""
    try:
        if file == "cpu.max":
            quota_us = int(tree.get(Type.CPU_QUOTA, cgroup))
            period_us = int(tree.get(Type.CPU_PERIOD, cgroup))
            return f"{quota_us if quota_us >= 0 else 'max'} {period_us}"
        return tree.files.read(f"{cgroup}/{file}").strip()
    except CgroupError:
        return None


def is_gone(tree: Tree, cgroup: str, file: str) -> bool:
    """Whether a file does not exist: one that cannot be read just now may do so."""
    try:
        return not tree.files.exists(path_of(tree, cgroup, file))
    except CgroupError:
        return False


def path_of(tree: Tree, cgroup: str, file: str) -> str:
    """Return the path of a file; on cgroup v1, that of the quota for cpu.max."""
    if file == "cpu.max":
        return tree.path(Type.CPU_QUOTA, cgroup)
    return f"{cgroup}/{file}"


def write_branch(writer: DirectWriter, targets: Sequence[Target]) -> list[TargetResult]:
    """Write the files of a pod and of its containers, in the order of a branch.

    To be called within the writer's `exclusive`.
    """
    tree = writer.tree
    results: list[TargetResult] = []
    updates: list[Update] = []
    due: list[tuple[Target, list[Update]]] = []
    for target in targets:
        held = held_value(tree, target.cgroup, target.file)
        if held is None:
            gone = is_gone(tree, target.cgroup, target.file)
            reason = "" if gone else "it cannot be read"
            results.append(TargetResult(target, ok=False, gone=gone, reason=reason))
        elif not any(equal(target.file, one, held) for one in target.known):
            results.append(TargetResult(target, ok=False, other=held))
        else:
            own = list(_updates(tree, target))
            updates += own
            due.append((target, own))
    outcomes = {one.update.key: one for one in writer.write_levels(updates)}
    for target, own in due:
        failed = [
            outcome
            for update in own
            if (outcome := outcomes.get(update.key)) is not None and not outcome.ok
        ]
        reason = "; ".join(f"{one.status}: {one.reason or 'refused'}" for one in failed)
        now = held_value(tree, target.cgroup, target.file) or target.value
        results.append(TargetResult(target, ok=not failed, now=now, reason=reason))
    return results


def paths_of(tree: Tree, target: Target) -> set[str]:
    """Return the paths of the files that a target is about, as the journal has them."""
    return {tree.path(one.type, one.cgroup) for one in _updates(tree, target)}


def _updates(tree: Tree, target: Target) -> Iterator[Update]:
    """Return the updates for a target.

    crun's inner cgroup has the same quota as the outer one, so it gets the value, too.
    Another file is written there if both hold the same. The kernel refuses a quota
    below the cgroup's burst: such a burst is lowered.
    """
    cgroup, file, value = target.cgroup, target.file, target.value
    inner = f"{cgroup}/{CRUN_INNER}"
    for one in (cgroup, inner):
        if one == inner and not _follows(tree, cgroup, inner, file):
            continue
        yield from updates_of(file, value, one)
        quota = value.partition(" ")[0]
        if file == "cpu.max" and quota.isdecimal():
            burst = _burst(tree, one)
            if burst is not None and burst > int(quota):
                yield Update(Type.CPU_BURST, one, quota, origin=ORIGIN)


def _follows(tree: Tree, cgroup: str, inner: str, file: str) -> bool:
    """Whether crun's inner cgroup has a file's value from the outer one."""
    own = held_value(tree, inner, file)
    if own is None or file == "cpu.max":
        return own is not None
    return equal(file, own, held_value(tree, cgroup, file) or "")


def _burst(tree: Tree, cgroup: str) -> int | None:
    try:
        return int(tree.get(Type.CPU_BURST, cgroup))
    except CgroupError:
        return None


def beyond(tree: Tree, cgroup: str, file: str, original: str) -> str:
    """Return what to say if a container uses more than the memory.high it has again."""
    if file != "memory.high" or not original.isdecimal():
        return ""
    use = held_value(tree, cgroup, "memory.current") or ""
    if not use.isdecimal() or int(use) <= int(original):
        return ""
    return f"; it uses {use}, so the kernel reclaims memory and holds it back"


class PolicyRecord:
    """The paths of the files that hold a policy's value, kept across a crash."""

    def __init__(self, directory: str | None) -> None:
        """Keep the record in the state directory; without one, nothing is kept."""
        self._path = None if directory is None else os.path.join(directory, RECORD)
        self._lock_path = None if directory is None else os.path.join(directory, LOCK)
        self._lock: int | None = None
        self._stored: Set[str] = frozenset()
        # The paths of an earlier process that are not put back yet; `store` keeps them.
        self.left: frozenset[str] = frozenset()
        # Tried again at every interval, for as long as a disk is full.
        self._limited = LimitedLog(_log, burst=1, per_second=1 / 300)

    def exists(self) -> bool:
        """Return whether there is a record, of this process or an earlier one."""
        return self._path is not None and os.path.exists(self._path)

    def claim(self) -> bool:
        """Return whether this process may act: no other one with this record does.

        Each of two processes would take what the other one has written to a pod for the
        pod's own value, and raise it further. The kernel ends a claim with its process.
        """
        if self._lock_path is None or self._lock is not None:
            return True
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            lock = os.open(self._lock_path, flags, 0o600)
        except OSError:
            return True  # a directory that cannot be written: `store` says so
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            os.close(lock)
            return not isinstance(exc, BlockingIOError)
        self._lock = lock
        return True

    @property
    def claimed(self) -> bool:
        """Whether no other process can act now."""
        return self._lock is not None

    def release(self) -> None:
        """End the claim, so that another process may act."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def load(self) -> bool:
        """Read the paths that an earlier process has left; return whether that worked.

        A record that makes no sense is as good as none.
        """
        self.left = self._stored = frozenset()
        if self._path is None:
            return True
        try:
            with open(self._path, encoding="utf-8") as file:
                paths = json.load(file)
            self.left = frozenset(path for path in paths if isinstance(path, str))
            self._stored = self.left
        except FileNotFoundError:
            pass
        except OSError as exc:
            line = "policies: %s: cannot be read, so nothing is raised: %s"
            self._limited.log(logging.WARNING, line, self._path, exc)
            return False
        except (ValueError, TypeError) as exc:
            line = "policies: %s: makes no sense; `nriplugin restore` may help: %s"
            _log.warning(line, self._path, exc)
        return True

    def store(self, paths: Set[str]) -> bool:
        """Replace the record; return whether it has all these paths now."""
        paths = self.left | paths
        if self._path is None or paths == self._stored:
            return True
        try:
            if not paths:
                os.unlink(self._path)
                self._stored = frozenset()
                return True
            temporary = f"{self._path}.new"
            with open(temporary, "w", encoding="utf-8") as file:
                json.dump(sorted(paths), file)
            os.replace(temporary, self._path)
        except OSError as exc:
            self._limited.log(
                logging.WARNING,
                "policies: %s: cannot be written, so nothing is raised: %s",
                *(self._path, exc),
            )
            return False
        self._stored = frozenset(paths)
        return True


def difference(file: str, old: str, new: str) -> str | None:
    """Return by how much a file's value has changed, for `grown`; None if unknown."""
    before, _, old_period = old.partition(" ")
    after, _, period = new.partition(" ")
    if not (before.isdecimal() and after.isdecimal()):
        return None
    if file != "cpu.max":
        return str(int(after) - int(before))
    in_new_period = int(before) * int(period or "100000") // int(old_period or "100000")
    return f"{int(after) - in_new_period} {period or '100000'}"


def grown(file: str, original: str, growths: Sequence[str]) -> str | None:
    """Return the pod's value that makes room for growths; None if it has no limit."""
    amount, _, rest = original.partition(" ")
    if not amount.isdecimal():
        return None
    if file != "cpu.max":
        return str(int(amount) + sum(map(int, growths)))
    period_us = int(rest or "100000")
    total = int(amount)
    for one in growths:
        quota, _, per = one.partition(" ")
        # Rounded up: the pod must have room for the whole growth.
        total += -(-int(quota) * period_us // int(per or period_us))
    return f"{total} {period_us}"
