"""Writes what policies want to the files of one pod and its containers.

The background thread writes like a correction (corrections.py): it publishes that it
writes to the containers, takes the writer's lock, and leaves a container alone that the
runtime is changing just then. The next interval comes back to it.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from time import time
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.cgroup.writing.kernel_text import equal
from nriplugin.engine.handlers.resources import lasting_quota
from nriplugin.loglimit import LimitedLog
from nriplugin.node.policy_writes import (
    Target,
    beyond,
    difference,
    grown,
    held_value,
    is_gone,
    paths_of,
    write_branch,
)
from nriplugin.state.events import EventKind
from nriplugin.state.policy_holds import (
    FAILED,
    LEFT,
    NO_HOLDS,
    RESTORED,
    SET,
    HeldFile,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.node.policy_writes import PolicyRecord, TargetResult
    from nriplugin.state.events import EventLog
    from nriplugin.state.pending import PendingWrites
    from nriplugin.state.policy_holds import (
        PolicyCounts,
        PolicyState,
        Wanted,
    )

_log = logging.getLogger(__name__)


class _Due(NamedTuple):
    """A target, and what becomes of the file's hold when it is written."""

    target: Target
    original: str
    wanted: Wanted | None  # None: the original goes back
    state: PolicyState | None = None  # None: a file of the pod


class PolicyWriting:
    """Carries out actions, and knows which files hold a policy's value."""

    def __init__(
        self,
        tree: Tree,
        pending: PendingWrites,
        events: EventLog,
        record: PolicyRecord,
        counts: PolicyCounts,
    ) -> None:
        self._tree = tree
        self._pending = pending
        self._events = events
        self._record = record
        self._counts = counts
        self._limited = LimitedLog(_log)
        # By pod's cgroup and file. The inner mappings are replaced as a whole, because
        # other threads read them.
        self.pods: dict[str, Mapping[str, HeldFile]] = {}
        # By cgroup and file: the paths that hold a policy's value, or are about to.
        self._paths: dict[tuple[str, str], set[str]] = {}

    def carry_out(
        self, pods: Mapping[str, Sequence[PolicyState]], *, ending: bool = False
    ) -> None:
        """Write what the policies want, for the containers of each pod.

        `ending` says that there is no next interval: values then go back even in the
        middle of an update. A new value of the runtime is not touched in any case.
        """
        # Usually every file holds what it should, and nothing is locked.
        all_due = {pod: self._due(pod, states) for pod, states in pods.items()}
        if self._pending.writer is None or not any(all_due.values()):
            return
        for due in all_due.values():
            for one in due:
                if one.wanted:
                    place = one.target.cgroup, one.target.file
                    self._paths[place] = paths_of(self._tree, one.target)
        recorded = self.store()
        for pod, due in all_due.items():
            if due:
                self._write(pod, pods[pod], recorded=recorded, ending=ending)
            for one in due:
                cgroup, file, *_ = one.target
                if file not in self._holds(pod, one.state):
                    # It was not written, as the runtime is changing a container.
                    self._paths.pop((cgroup, file), None)
        self.store()

    def forget_ended(self, containers: Collection[str]) -> None:
        """Forget what was held by cgroups that are gone, or by pods without a limit.

        `containers` are the cgroups of those containers that still exist. The cgroup of
        a pod may outlive its last container.
        """
        for pod, holds in list(self.pods.items()):
            if all(self._is_over(pod, file) for file in holds):
                del self.pods[pod]
        for place in [*self._paths]:
            if place[0] not in containers and place[0] not in self.pods:
                del self._paths[place]

    def _is_over(self, pod: str, file: str) -> bool:
        now = held_value(self._tree, pod, file)
        return is_gone(self._tree, pod, file) if now is None else now.startswith("max")

    def resized(self, state: PolicyState, become: Mapping[str, str]) -> None:
        """Follow the resize of a container in the originals of its pod.

        kubelet writes a higher value to the pod before it resizes the container. If
        that is just the value that the pod holds because of a policy, the file does not
        show it, and neither does that of the container. A lower value comes after the
        container's, and is seen in the file.

        `become` are the originals of the container's files, by file.
        """
        pod, was = state.entry.pod_cgroup or "", state.original
        same = [
            (state.cgroup, file)
            for file, hold in state.held.items()
            if equal(file, hold.value, become.get(file, ""))
        ]
        holds = dict(self.pods.get(pod, NO_HOLDS))
        for file, hold in holds.items():
            original = hold.original
            delta = difference(file, was.get(file, ""), become.get(file, ""))
            now = held_value(self._tree, pod, file)
            if now is not None and not equal(file, now, hold.value):
                original = now
            # If not the same, kubelet's value was seen in the file before.
            elif delta and not delta.startswith("-") and original == hold.first:
                higher = grown(file, original, [delta])
                if higher and equal(file, higher, hold.value):
                    original = higher
                    same.append((pod, file))
            holds[file] = hold._replace(original=original, first=original)
        if holds:
            self.pods[pod] = holds
        if self._pending.writer is not None:
            for cgroup, file in same:
                target = Target(cgroup, file, become.get(file, ""), ())
                self._pending.writer.disown(paths_of(self._tree, target))

    def _write(
        self,
        pod: str,
        states: Sequence[PolicyState],
        *,
        recorded: bool,
        ending: bool,
    ) -> None:
        writer, pending = self._pending.writer, self._pending
        assert writer is not None
        with ExitStack() as stack:
            for state in states:
                stack.enter_context(pending.writing_to(state.entry.id))
            stack.enter_context(writer.exclusive())
            changing = [one for one in states if pending.is_changing(one.entry)]
            # Anew: only now nobody else writes.
            all_due = self._due(pod, states)
            if changing and not ending:
                # The values of the pod's other containers may go back meanwhile.
                all_due = [
                    one
                    for one in all_due
                    if one.wanted is None and one.state not in (None, *changing)
                ]
            raises = recorded and not pending.withdrawn
            due = {
                (one.target.cgroup, one.target.file): one
                for one in all_due
                if raises or one.wanted is None
            }
            results = write_branch(writer, [one.target for one in due.values()])
            # Those of an update that has begun after the look above: what was written
            # may have replaced the runtime's new value.
            beside = [one for one in states if pending.is_changing(one.entry)]
            for result in results:
                one = due[result.target.cgroup, result.target.file]
                self._conclude(pod, one, result, again=one.state in beside)

    # What has to be written

    def _due(self, pod: str, states: Sequence[PolicyState]) -> list[_Due]:
        due = [*self._for_pod(pod, states)]
        for state in states:
            due += self._for_container(state)
        return due

    def _for_container(self, state: PolicyState) -> Iterator[_Due]:
        for file in {**state.wanted, **state.held}:
            hold, wanted = state.held.get(file), state.wanted.get(file)
            original = state.original.get(file) or (hold.original if hold else None)
            if original is None:
                continue
            value = original if wanted is None else wanted.value
            now = held_value(self._tree, state.cgroup, file)
            holds = hold and wanted and not hold.partly
            if hold and holds and (hold.asked, hold.value) == (value, now):
                continue
            known: tuple[str, ...] = (original, hold.value) if hold else (original,)
            if file == "cpu.max":
                known += (lasting_quota(original),)  # systemd may have rounded it
            target = Target(state.cgroup, file, value, known)
            yield _Due(target, original, wanted, state)

    def _for_pod(self, pod: str, states: Sequence[PolicyState]) -> Iterator[_Due]:
        holds = self.pods.get(pod, NO_HOLDS)
        growths: dict[str, list[Wanted]] = {file: [] for file in holds}
        for state in states:
            for file, growth in state.growths.items():
                growths.setdefault(file, []).append(growth)
        for file, parts in growths.items():
            hold, now = holds.get(file), held_value(self._tree, pod, file)
            if now is None:
                continue
            # What nriplugin has not written there is kubelet's, and a new original.
            ours = hold is not None and equal(file, now, hold.value)
            original = hold.original if hold and ours else now
            value = grown(file, original, [one.value for one in parts])
            if value is None:
                continue  # without a limit there is nothing to raise
            if hold and ours and parts and hold.asked == value:
                continue
            wanted = parts[0]._replace(value=value) if parts else None
            yield _Due(Target(pod, file, value, (now,)), original, wanted)

    # What came of it

    def _conclude(
        self, pod: str, one: _Due, result: TargetResult, *, again: bool
    ) -> None:
        """Count a result, and keep or end the hold of the file.

        `again` keeps it in any case: the next look writes what is right by then.
        """
        file = one.target.file
        hold = self._holds(pod, one.state).get(file)
        policy = one.wanted.policy if one.wanted else hold.policy if hold else ""
        if result.gone:
            become = None
        elif result.other is not None:
            self._counts.actions[policy, LEFT] += 1
            become = None
        elif not result.ok:
            self._counts.actions[policy, FAILED] += 1
            self._limited.log(
                logging.WARNING,
                "%s: %s/%s: %s: %s",
                *(policy, one.target.cgroup, file, one.target.value, result.reason),
            )
            become = hold
            if one.wanted and equal(file, result.now, one.target.value):
                become = _held(hold, one, result.now)._replace(partly=True)
        elif one.wanted is None:
            self._counts.actions[policy, RESTORED] += 1
            become = None
            if hold is not None and again:
                become = hold._replace(asked=one.target.value, value=result.now)
        else:
            self._counts.actions[policy, SET] += 1
            become = _held(hold, one, result.now)
        if one.state is not None:
            self._tell(one.state, file, hold, become)
        self._keep(pod, one, become)

    def _keep(self, pod: str, one: _Due, become: HeldFile | None) -> None:
        file, state = one.target.file, one.state
        holds = dict(self._holds(pod, state))
        if become is None:
            holds.pop(file, None)
            self._paths.pop((one.target.cgroup, file), None)
        else:
            holds[file] = become
        if state is not None:
            state.held = holds
        elif holds:
            self.pods[pod] = holds
        else:
            self.pods.pop(pod, None)

    def _holds(self, pod: str, state: PolicyState | None) -> Mapping[str, HeldFile]:
        """Return what is held of a container, or of the pod itself."""
        return self.pods.get(pod, NO_HOLDS) if state is None else state.held

    def _tell(
        self,
        state: PolicyState,
        file: str,
        was: HeldFile | None,
        become: HeldFile | None,
    ) -> None:
        """Note the first and the last change of a file as events, and none between."""
        if was is None and become is not None:
            text = (
                f"{become.policy}: {file} {become.original} -> {become.value}: "
                f"{become.reason}"
            )
            self._events.note(EventKind.HELD, state.entry, text)
        elif was is not None and become is None:
            why = state.reasons.get(was.policy, "") or "the policy is off"
            text = f"{was.policy}: {file} back after {was.changes} changes: {why}"
            more = beyond(self._tree, state.cgroup, file, was.original)
            self._events.note(EventKind.RELEASED, state.entry, text + more)
            if more:  # clients of Watch are gone when the process ends
                self._limited.log(
                    logging.WARNING,
                    "%s: %s: %s back to %s%s",
                    *(was.policy, state.entry.path, file, was.original, more),
                )

    def store(self) -> bool:
        """Store which files hold a policy's value; return whether that is done."""
        return self._record.store(frozenset().union(*self._paths.values()))


def _held(hold: HeldFile | None, one: _Due, now: str) -> HeldFile:
    assert one.wanted is not None
    policy, value, reason = one.wanted
    if hold is None:
        return HeldFile(
            *(policy, value, now, one.original, time(), reason), first=one.original
        )
    return hold._replace(
        policy=policy,
        asked=value,
        value=now,
        original=one.original,
        reason=reason,
        changes=hold.changes + (hold.asked != value),
        partly=False,
    )
