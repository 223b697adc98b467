"""Carries out the triggers of policies: writes that have their effect once.

A write to memory.reclaim may take long, so there is a limit to the time that one look
spends on triggers. Containers whose turn has not come are first at the next look, if
their policies still ask for it.
"""

from __future__ import annotations

import logging
from errno import EAGAIN, EINTR, ENODEV, ENOENT, EOPNOTSUPP, errorcode
from time import monotonic
from typing import TYPE_CHECKING

from nriplugin.loglimit import LimitedLog
from nriplugin.node.policy_triggers import pull
from nriplugin.state.policy_holds import FAILED, PARTLY, TRIGGERED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.engine.policies import Trigger
    from nriplugin.state.pending import PendingWrites
    from nriplugin.state.policy_holds import PolicyCounts, PolicyState

_log = logging.getLogger(__name__)

# The time after which no more trigger is begun at one look.
MOST_S = 1.0
# Answers of the kernel that are no failure: it found less to do than was asked for, was
# interrupted, does not have the file, which the policy tells, or the cgroup is gone.
_NORMAL = (EAGAIN, EINTR, ENODEV, ENOENT, EOPNOTSUPP)


class PolicyTriggers:
    """Carries out the triggers of all containers in turn."""

    def __init__(
        self, tree: Tree, pending: PendingWrites, counts: PolicyCounts
    ) -> None:
        self.clock: Callable[[], float] = monotonic  # replaced by tests
        self._tree = tree
        self._pending = pending
        self._counts = counts
        self._limited = LimitedLog(_log)
        self._last = ""  # the container that was the last one to have its turn

    def carry_out(self, states: Iterable[PolicyState]) -> None:
        """Do what the policies asked for at this look; nothing is left for the next."""
        due = [state for state in states if state.triggers]
        due.sort(key=lambda state: (state.entry.id <= self._last, state.entry.id))
        until_s = self.clock() + MOST_S
        for state in due:
            triggers, state.triggers = state.triggers, ()
            if self.clock() < until_s and self._may_write(state):
                self._last = state.entry.id
                self._carry_out(state, triggers)

    def _may_write(self, state: PolicyState) -> bool:
        pending = self._pending
        if pending.writer is None or pending.withdrawn:
            return False
        return not pending.is_changing(state.entry)

    def _carry_out(
        self, state: PolicyState, triggers: Iterable[tuple[str, Trigger]]
    ) -> None:
        done = {}
        for policy, trigger in triggers:
            result = pull(self._tree, state.cgroup, trigger)
            done[trigger.file] = result
            outcome = FAILED
            if not result.errno:
                outcome = TRIGGERED
            elif result.errno in _NORMAL:
                outcome = PARTLY
            else:
                self._limited.log(
                    logging.WARNING,
                    "%s: %s/%s: %s: %s",
                    *(policy, state.cgroup, trigger.file, trigger.value),
                    errorcode.get(result.errno, result.errno),
                )
            self._counts.actions[policy, outcome] += 1
        state.triggered = done
