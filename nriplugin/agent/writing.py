"""The NRI plugin on a node whose cgroups it may write.

Writes that come before the runtime's are done before the answer. Those that come after
a creation are done when the container is about to start, after an update by the keeper,
so that no request waits for the kernel to reclaim memory.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.agent.inventory import Known
from nriplugin.agent.plugin import NodePlugin
from nriplugin.agent.reading import cgroups_of, parse_pod
from nriplugin.api import view_pb2 as view
from nriplugin.cgroup.updates import Status
from nriplugin.engine.decision import When
from nriplugin.errors import NRIPluginError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nriplugin.agent.answered import Answer
    from nriplugin.agent.survey import Missing
    from nriplugin.api import nri_pb2 as nri
    from nriplugin.cgroup.tree import Tree
    from nriplugin.cgroup.updates import Outcome
    from nriplugin.config import Config
    from nriplugin.config.file import AdoptSection
    from nriplugin.engine.decision import Decision, Write
    from nriplugin.engine.model import NodeFacts, Pod
    from nriplugin.hands.hands import Hands

_log = logging.getLogger(__name__)

# A runtime that says nothing for so long about an update has failed at it.
UPDATE_PATIENCE_S = 10.0


class _Pending(NamedTuple):
    """What is to be done when the runtime is done with a container."""

    known: Known
    pod: str
    writes: Sequence[Write]
    since: float


class WritingPlugin(NodePlugin):
    """Decides, and writes what the runtime cannot."""

    views = MappingProxyType(
        {
            **NodePlugin.views,
            "start_container": view.ContainerEvent,
            "post_update_container": view.ContainerEvent,
        }
    )

    def __init__(
        self, facts: NodeFacts, tree: Tree, open_hands: Callable[[], Hands]
    ) -> None:
        """Write through the hands, which are opened when a configuration needs them."""
        self._open_hands = open_hands
        self._hands: Hands | None = None
        self._repairs = False
        self._pending: dict[str, _Pending] = {}
        super().__init__(replace(facts, writable=False), tree)

    def close(self) -> None:
        """Stop writing."""
        super().close()
        if self._hands is not None:
            self._hands.close()

    def _prepare(self, config: Config) -> None:
        """Open the hands for the first configuration that has a use for them."""
        repair = config.repair
        if self._hands is None and (self._remembers or repair.enabled):
            try:
                self._hands = self._open_hands()
            except NRIPluginError as exc:
                _log.warning("cgroups are not written: %s", exc)
            else:
                self._learn(writable=True)
        self._repairs = repair.enabled and self._hands is not None
        self.keeper.every(repair.every_seconds, self.repair if self._repairs else None)

    @property
    def _remembers(self) -> bool:
        return super()._remembers or self._repairs

    # Creation

    def _write_new(self, request: view.CreateContainerRequest, answer: Answer) -> None:
        pod = parse_pod(request.pod, {})
        message = request.container
        known = Known(message.linux.cgroups_path, answer.files)
        self._write_or_wait(pod, message, answer.decision, known, creating=True)

    def start_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Write what has to wait for the cgroup: it is there, and no process runs."""
        pending = self._pending.pop(container.id, None)
        if pending is not None:
            self._carry_out(pending)

    # Updates

    def _updating(self, pod: Pod, message: view.Container, decision: Decision) -> None:
        known = self._becoming(message, decision)
        self._write_or_wait(pod, message, decision, known, creating=False)

    def post_update_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Take note that the runtime has done it, and do the rest."""
        pending = self._pending.pop(container.id, None)
        if pending is not None:
            self.inventory.put(container.id, pending.known)
            if pending.writes:
                self.keeper.soon(partial(self._carry_out, pending))

    def remove_container(  # type: ignore[override] # the view declared above
        self, pod: object, container: view.Container
    ) -> None:
        """Forget the container."""
        self._pending.pop(container.id, None)
        known = self.inventory.drop(container.id)
        if known is not None and known.cgroup is not None and self._hands is not None:
            self.keeper.soon(partial(self._hands.forget, known.cgroup))

    def _write_or_wait(
        self,
        pod: Pod,
        message: view.Container,
        decision: Decision,
        known: Known,
        *,
        creating: bool,
    ) -> None:
        parent, cgroup = cgroups_of(pod, message)
        before = [w for w in decision.writes if w.when is When.BEFORE]
        after = [w for w in decision.writes if w.when is When.AFTER]
        if before and parent is not None and self._hands is not None:
            own = None if creating else cgroup
            _say(self._hands.carry_out(before, parent, own))
        if after or not creating:
            self._pending[message.id] = _Pending(
                known, parent or "", after, monotonic()
            )

    def _carry_out(self, pending: _Pending) -> None:
        if self._hands is not None:
            writes, cgroup = pending.writes, pending.known.cgroup
            _say(self._hands.carry_out(writes, pending.pod, cgroup))

    # Containers that exist

    def _adopt_missing(
        self, missing: Sequence[Missing], adopt: AdoptSection
    ) -> list[nri.ContainerUpdate]:
        """Write by ourselves: the first ones soon, the rest by and by."""
        if self._hands is None:
            return super()._adopt_missing(missing, adopt)
        now, later = missing[: adopt.at_once], missing[adopt.at_once :]
        _log.info("adopt: %d containers now, %d later", len(now), len(later))
        for one in now:
            self.keeper.soon(partial(self._adopt_one, one))
        self.keeper.paced(
            [partial(self._adopt_one, one) for one in later], adopt.per_second
        )
        return []

    def _adopt_one(self, one: Missing) -> None:
        hands, cgroup = self._hands, one.known.cgroup
        if hands is None or cgroup is None:
            return
        if self.inventory.get(one.container_id) is None:
            return  # it is gone
        before = [w for w in one.writes if w.when is When.BEFORE]
        after = [w for w in one.writes if w.when is When.AFTER]
        if one.pod is not None:
            _say(hands.carry_out(before, one.pod, cgroup))
        _say(hands.put(one.files, cgroup))
        if one.pod is not None:
            _say(hands.carry_out(after, one.pod, cgroup))
        self.inventory.change(one.container_id, one.known)

    def repair(self) -> None:
        """Put right what somebody else changed, in every container that we know."""
        hands = self._hands
        if hands is None:
            return
        for container_id, known in self.inventory.snapshot().items():
            if known.cgroup is None or self._is_changing(container_id, known):
                continue
            outcomes = hands.put(known.files, known.cgroup)
            _say(outcomes)
            for outcome in outcomes:
                if outcome.status is Status.WRITTEN:
                    _log.info("repair: %s: %s", outcome.path, outcome.content)

    def _is_changing(self, container_id: str, known: Known) -> bool:
        """Whether the runtime is at work on a container, or was since we looked."""
        pending = self._pending.get(container_id)
        if pending is not None and monotonic() - pending.since < UPDATE_PATIENCE_S:
            return True
        return self.inventory.get(container_id) is not known


def _say(outcomes: Sequence[Outcome]) -> None:
    """Tell of what went wrong; a cgroup that is gone is nothing wrong."""
    for outcome in outcomes:
        if not outcome.ok and outcome.status is not Status.GONE:
            _log.warning(
                "%s: %s: %s", outcome.path, outcome.status, outcome.reason or "refused"
            )
