"""Gives containers that existed before nriplugin the values that they lack.

The doors find such containers, and this module makes and carries out their corrections
by direct writes: some at once, the others later at a limited rate. It runs where no
request waits for it.
"""

from __future__ import annotations

import logging
from functools import partial
from time import time
from typing import TYPE_CHECKING

from nriplugin.engine.stale import numbers_of
from nriplugin.state.corrections import correction_of
from nriplugin.state.decision_summary import summarise
from nriplugin.state.events import EventKind
from nriplugin.state.inventory import NO_FILES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.state.corrections import Correction
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.lifecycle import Lifecycle

    Job = Callable[[], None]

_log = logging.getLogger(__name__)

# The text of the event for a container whose values are right by themselves.
LACKS_NOTHING = "its files held every value already"


def adoption_of(
    was: ContainerEntry,
    decision: Decision,
    absent: Mapping[str, str],
    resources: Resources,
) -> Correction:
    """Return the correction that gives a container its missing values.

    Args:
        was: the container's entry.
        decision: the decision that would be made if the container were created now.
        absent: the decision's files that do not hold their value.
        resources: what the runtime keeps for the container.
    """
    wanted = decision.expected()
    become = was._replace(
        files=wanted,
        outdated={f: v for f, v in was.ours.items() if f not in wanted},
        numbers=numbers_of(resources),
        decision=summarise(decision),
        adopted=True,
        decided_at=time(),
        lacks=NO_FILES,
    )
    return correction_of(was, become, absent, decision)


class Adopting:
    """Carries out corrections by direct writes, and says which containers they adopt.

    The life-cycle must have a writer.
    """

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    def begin(self, missing: Sequence[Correction], at_once: int) -> list[Job]:
        """Write the first ones soon; return the jobs that are to be done later."""
        now, rest = missing[:at_once], missing[at_once:]
        _log.info("adopt: %d containers now, %d later", len(now), len(rest))
        for one in now:
            self._lifecycle.scheduler.soon(partial(self.write, one))
        return [partial(self.write, one) for one in rest]

    def write(self, one: Correction) -> None:
        """Write one correction, on the background thread, when the container runs."""
        corrections = self._lifecycle.corrections
        if corrections.waits_for_start(one, partial(self.write, one)):
            return
        if corrections.write(one):
            self.note(one)
            self._lifecycle.store_record(one.was, one.become)

    def note(self, one: Correction) -> None:
        """Say that a correction was carried out, if it has adopted the container."""
        if one.become.adopted and not one.was.adopted:
            self._lifecycle.events.note(EventKind.ADOPTED, one.become)
