"""Writes that no request carries, at the time when the engine wants them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from nriplugin.cgroup.paths import cgroup_of_parent
from nriplugin.cgroup.updates import Status
from nriplugin.engine.decision import When
from nriplugin.hands.eyes import container_cgroup, memory_use

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nriplugin.engine.decision import Write
    from nriplugin.engine.model import Pod, Use
    from nriplugin.hands.hands import Hands

_log = logging.getLogger(__name__)


class Turn:
    """Whether somebody still waits: who is late must not change anything any more."""

    def __init__(self) -> None:
        self.over = threading.Event()


class Writing:
    """The hands, used by one thread at a time: sums are read and then written."""

    def __init__(self, hands: Hands | None) -> None:
        """Write with these hands; with none, nothing is written."""
        self._hands = hands
        self._lock = threading.Lock()

    def before(
        self, writes: Iterable[Write], pod: Pod, container_id: str, turn: Turn
    ) -> None:
        """Do what comes before the runtime's part, unless that has begun."""
        self._do([w for w in writes if w.when is When.BEFORE], pod, container_id, turn)

    def after(self, writes: Iterable[Write], pod: Pod, container_id: str) -> str | None:
        """Do what comes after it; return the cgroup in which something was done."""
        due = [w for w in writes if w.when is When.AFTER]
        return self._do(due, pod, container_id, Turn())

    def use(self, pod: Pod, container_id: str) -> Use | None:
        """Return what a container uses, where that can be looked at."""
        parent = cgroup_of_parent(pod.cgroup_parent)
        if self._hands is None or parent is None:
            return None
        cgroup = container_cgroup(self._hands.tree, parent, container_id)
        return None if cgroup is None else memory_use(self._hands.tree, cgroup)

    def forget(self, cgroup: str | None) -> None:
        """Forget what was written to a cgroup that is gone."""
        if self._hands is not None and cgroup is not None:
            self._hands.forget(cgroup)

    def _do(
        self, due: list[Write], pod: Pod, container_id: str, turn: Turn
    ) -> str | None:
        parent = cgroup_of_parent(pod.cgroup_parent)
        if not due or self._hands is None or parent is None:
            return None
        with self._lock:
            if turn.over.is_set():
                return None
            cgroup = container_cgroup(self._hands.tree, parent, container_id)
            for outcome in self._hands.carry_out(due, parent, cgroup):
                # A cgroup that went away is no error.
                if not outcome.ok and outcome.status is not Status.GONE:
                    _log.warning(
                        "%s: %s: %s: %s",
                        *(outcome.path, outcome.content),
                        *(outcome.status, outcome.reason),
                    )
        return cgroup
