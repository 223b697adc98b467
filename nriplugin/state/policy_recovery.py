"""When the values of policies go back that an earlier process has left in files.

The record says which files these are (node/policy_writes.py), and policy_put_back.py
what they go back to. A value that cannot be put back stays in the record, and every
look tries again. Until then no policy acts in that pod: it would take the value for the
pod's own.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nriplugin.errors import JournalError
from nriplugin.loglimit import LimitedLog

if TYPE_CHECKING:
    from nriplugin.engine.model import NodeFacts
    from nriplugin.node.policy_writes import PolicyRecord
    from nriplugin.state.inventory import Inventory
    from nriplugin.state.locating import CgroupLocator
    from nriplugin.state.pending import PendingWrites

_log = logging.getLogger(__name__)


class PolicyRecovery:
    """Puts back, once, what an earlier process has left; one thread uses it."""

    def __init__(
        self,
        record: PolicyRecord,
        pending: PendingWrites,
        inventory: Inventory,
        locator: CgroupLocator,
    ) -> None:
        """Do nothing until `look` is called."""
        self.begun = False  # whether the record was read
        self._record = record
        self._pending = pending
        self._inventory = inventory
        self._locator = locator
        # What fails is tried again at every interval.
        self._limited = LimitedLog(_log, burst=8, per_second=1 / 300)

    @property
    def done(self) -> bool:
        """Return whether nothing is left that could be put back."""
        return self.begun and not self._record.left

    def concerns(self, pod: str) -> bool:
        """Return whether a file of a pod or of its containers is left."""
        return any(f"{pod}/" in path for path in self._record.left)

    def begin_anew(self) -> None:
        """Read the record again at the next look: another process may act meanwhile."""
        self.begun = False

    def look(self, facts: NodeFacts) -> None:
        """Put back what is left."""
        left, writer = self._record.left, self._pending.writer
        if not self.begun:
            if not self._record.load():
                return
            self.begun, left = True, self._record.left
            if left and writer is None:
                _log.warning(
                    "policies: %d values of an earlier process stay as they are, "
                    "because direct writes are off",
                    len(left),
                )
        if not left or writer is None:
            return
        # Imported only here: hardly any process follows one that was killed.
        from nriplugin.state.policy_put_back import put_back

        known = [
            (cgroup, entry)
            for entry in self._inventory.snapshot().values()
            if (cgroup := self._locator.cgroup_of(entry)) is not None
        ]
        try:
            self._record.left = put_back(writer, left, known, facts, self._limited)
        except JournalError as exc:
            self._limited.log(logging.WARNING, "policies: %s", exc)
