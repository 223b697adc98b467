"""What the NRI plugin knows of the node: its facts, and the containers that exist.

At Synchronize the runtime tells of every container. The plugin learns the runtime's
curve from them, finds out which of their values are its own, and has values put right
that a resize in its absence has left out of date; with `adopt`, containers also get
what they would get if they were made now. Answers to requests are for `NodePlugin`.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from nriplugin.api import nri_pb2 as nri
from nriplugin.daemon.background import Keeper
from nriplugin.doors.nri.adoption import Ownership, recognise, survey
from nriplugin.doors.nri.messages import read_existing
from nriplugin.doors.nri.responses import files_update
from nriplugin.engine.model import NodeFacts
from nriplugin.nri import Plugin
from nriplugin.nri.releases import release_of
from nriplugin.state.decision_log import Refusals
from nriplugin.state.inventory import Inventory, Known
from nriplugin.state.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nriplugin.api import view_pb2 as view
    from nriplugin.cgroup.types.tree import Tree
    from nriplugin.config import Config
    from nriplugin.config.file import AdoptSection
    from nriplugin.doors.nri.adoption import Correction
    from nriplugin.engine.model import Container, Pod
    from nriplugin.kube.managed import Managed
    from nriplugin.node.ownership_records import OwnershipRecords
    from nriplugin.nri.releases import Release

    Job = Callable[[], None]

_log = logging.getLogger(__name__)

# The first release that tells of cgroup v2 values which a container has.
_SHOWS_UNIFIED: Release = (0, 10, 0)
# Before it, a runtime can deadlock on an update that it did not ask for.
TAKES_UPDATES: Release = (0, 12, 1)

# Containers that the runtime updates with the answer to Synchronize, while others wait,
# and how many each second after that, where the configuration does not say.
AT_ONCE = 50
PER_SECOND = 10


class Outgoing:
    """What leaves because of a Synchronize: with its answer, and by and by."""

    __slots__ = ("later", "updates")

    def __init__(self) -> None:
        self.updates: list[nri.ContainerUpdate] = []
        self.later: list[Job] = []


class SynchronizedPlugin(Plugin):
    """Knows the node and its containers, and corrects what it knows to be wrong."""

    def __init__(
        self,
        facts: NodeFacts | None = None,
        tree: Tree | None = None,
        blind_because: str = "",
        records: OwnershipRecords | None = None,
    ) -> None:
        """Begin with what is known before the runtime has said anything.

        Args:
            facts: about the node.
            tree: its cgroups, to look at containers that exist.
            blind_because: why there is no tree.
            records: of what updates set, where there is a state directory.
        """
        self._blind_because = blind_because
        self.refusals = Refusals()
        self.inventory = Inventory()
        self.keeper = Keeper()
        self._tree = tree
        self._plan = Plan(facts=facts or NodeFacts())
        self._replacing = threading.Lock()  # the plan: by requests and by reloads
        self._applying = threading.Lock()
        self._curve_certain = False
        self._adopt: AdoptSection | None = None
        self._release: Release = (0, 0, 0)
        self._ownership = Ownership(shown=False)
        self._records = records
        # What containers were and will be that the runtime is about to update.
        self._becoming: dict[str, tuple[Known, Known]] = {}

    def close(self) -> None:
        """End what goes on beside the requests."""
        self.keeper.stop()

    # What decisions follow

    @property
    def plan(self) -> Plan:
        """Return what decisions follow now."""
        return self._plan

    def apply(self, config: Config) -> None:
        """Take a configuration, also while serving."""
        with self._applying:
            self._prepare(config)
            with self._replacing:
                self._plan = replace(self._plan, config=config.engine)
                self.failure_policy = config.failure_policy
                self._adopt = config.adopt if config.adopt.enabled else None

    def _prepare(self, config: Config) -> None:
        """Get ready for what a configuration needs beside decisions.

        Before it is in force: if this fails, nothing has changed.
        """
        if config.repair.enabled:
            _log.warning("repair: on, but the cgroups cannot be written: left alone")

    def configure(self, request: nri.ConfigureRequest) -> None:
        """Learn who the runtime is; take the configuration that it may hand over."""
        if request.config:
            from nriplugin.config import parse_config

            self.apply(parse_config(request.config, "configuration from the runtime"))
        name, version = request.runtime_name, request.runtime_version
        self._release = release_of(request)
        self._learn(runtime=name, runtime_version=version)
        _log.info("registered with %s %s", name, version)
        facts = self._plan.facts
        if facts.cgroup_version != 2:
            number, evidence = facts.cgroup_version, facts.cgroup_evidence
            _log.warning("inactive: cgroup v%d (%s)", number, evidence)
        elif self._blind_because:
            _log.warning("cgroups are not read: %s", self._blind_because)

    def _learn(self, **facts: Any) -> None:  # noqa: ANN401 - fields of NodeFacts
        with self._replacing:
            plan = self._plan
            self._plan = replace(plan, facts=plan.facts._replace(**facts))

    # What exists

    def synchronize(  # type: ignore[override] # the view declared above
        self, pods: Sequence[view.PodSandbox], containers: Sequence[view.Container]
    ) -> list[nri.ContainerUpdate] | None:
        """Learn from existing containers, and give them what they miss, if asked to."""
        _log.info("synchronized: %d pods, %d containers", len(pods), len(containers))
        if self._plan.facts.cgroup_version != 2:
            return None
        self._becoming.clear()  # no event of the last connection comes any more
        if self._tree is not None and not self._plan.idle:
            self._recognise_curve(containers, self._tree)
        recorded = {} if self._records is None else self._records.load()
        # Known from the connection before, and perhaps not stored yet.
        recorded |= {i: known.managed for i, known in self.inventory.snapshot().items()}
        self._ownership = Ownership(self._release >= _SHOWS_UNIFIED, recorded)
        gone = recorded.keys() - {container.id for container in containers}
        if self._records is not None and gone:
            self.keeper.soon(partial(self._records.drop, *gone))
        found = survey(
            *(pods, containers, self._plan, self._tree, self._ownership),
            complete=self._remembers,
        )
        self.inventory.replace(found.known)
        out = Outgoing()
        if found.stale:
            self._put_right(found.stale, out)
        adopt = self._adopt
        if adopt is not None and found.missing:
            for one in found.missing:
                self.refusals.warn(one.who, one.warnings)
            self._adopt_missing(found.missing, adopt.at_once, out)
        per_second = PER_SECOND if adopt is None else adopt.per_second
        self.keeper.paced(out.later, per_second)
        return out.updates

    def _recognise_curve(
        self, containers: Sequence[view.Container], tree: Tree
    ) -> None:
        shows = self._release >= _SHOWS_UNIFIED
        found, curves = recognise(containers, tree, shows_unified=shows)
        with self._replacing:
            facts = self._plan.facts
            # Later, what is there may all be ours, and teach nothing.
            if found.certain or not self._curve_certain:
                self._curve_certain = found.certain
                facts = facts._replace(
                    curve=found.curve,
                    curve_evidence=found.evidence,
                    curve_native=found.native,
                )
            self._plan = replace(self._plan, facts=facts, curves=curves)
        if self._plan.config.curve is None:  # else it is for a time without that
            _log.info("curve: %s (%s)", facts.curve, facts.curve_evidence)

    def _becomes(self, container_id: str, was: Known, known: Known) -> bool:
        """Take note of what a container has become, unless that is not so any more."""
        changed = self.inventory.change(container_id, was, known)
        if changed:
            self._keep(container_id, was.managed, known.managed)
        return changed

    def _keep(self, container_id: str, was: Managed, managed: Managed) -> None:
        """Have the keeper store a container's record, if it has changed."""
        if managed != was and self._records is not None:
            self.keeper.soon(partial(self._records.put, container_id, managed))

    def _put_right(
        self,
        stale: Sequence[Correction],
        out: Outgoing,
    ) -> None:
        """Undo what our old values did to resizes in our absence.

        By the runtime, so that it does not write the old values again.
        """
        _log.warning(
            "%d containers were resized while the plugin was away and kept its old "
            "values: they get the new ones",
            len(stale),
        )
        for one in stale:
            self.refusals.warn(one.who, [f"resized in our absence: {_listed(one)}"])
        self._send(stale, AT_ONCE, out)

    def _adopt_missing(
        self,
        missing: Sequence[Correction],
        at_once: int,
        out: Outgoing,
    ) -> None:
        """Give containers what they would get if they were made now."""
        self._send(missing, at_once, out)

    def _send(
        self,
        corrections: Sequence[Correction],
        at_once: int,
        out: Outgoing,
    ) -> None:
        """Have the runtime write: the first ones in its answer, the rest by and by."""
        corrections = [one for one in corrections if carried(one)]
        now, rest = corrections[:at_once], corrections[at_once:]
        if rest and self._release < TAKES_UPDATES:
            _log.warning(
                "%d containers are left as they are: this runtime may hang on updates "
                "that it did not ask for",
                len(rest),
            )
            rest = []
        _log.info("%d containers are updated now, %d later", len(now), len(rest))
        out.later += [partial(self._send_later, one) for one in rest]
        out.updates += [
            files_update(one.container_id, carried(one))
            for one in now
            if self._becomes(one.container_id, one.was, one.known)
        ]

    def _send_later(self, one: Correction) -> None:
        if one.container_id in self._becoming:
            return  # an update is under way, which has asked us
        if self._becomes(one.container_id, one.was, one.known):
            self.enqueue_update(files_update(one.container_id, carried(one)))

    def disconnected(self, reason: str) -> None:
        """Say so; the runner dials again, and all state comes anew."""
        self.keeper.paced((), 1)
        _log.info("disconnected: %s", reason)

    def _correct(self, one: Correction) -> None:
        """Correct one container by an update that the runtime did not ask for."""
        if carried(one) and self._release >= TAKES_UPDATES:
            self._send_later(one)

    def _forget(self, container_id: str) -> Known | None:
        known = self.inventory.drop(container_id)
        if known is not None and self._records is not None:
            self.keeper.soon(partial(self._records.drop, container_id))
        return known

    def _existing(
        self, pod: Pod, message: view.Container, plan: Plan
    ) -> tuple[Known, Container]:
        """Return a container that exists, and what of it is ours."""
        container = read_existing(message)
        known = self.inventory.get(message.id)
        if known is None:
            managed = self._ownership.of(message, pod, container, plan)
            ours, others, numbers = managed
            started = message.state != nri.CONTAINER_CREATED
            path = message.linux.cgroups_path
            known = Known(path, {}, ours, started, others, numbers)
        container = container._replace(
            ours=known.ours, decided=known.files, others=known.others
        )
        return known, container

    @property
    def _remembers(self) -> bool:
        """Whether containers have to be known by more than their requests."""
        return not self._plan.plain or self._adopt is not None


def _listed(one: Correction) -> str:
    return ", ".join(f"{file}={value}" for file, value in one.files.items())


def carried(one: Correction) -> dict[str, str]:
    """Return what a runtime can still give a container."""
    return {f: v for f, v in one.files.items() if not (one.idle and f == "cpu.idle")}
