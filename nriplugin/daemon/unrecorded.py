"""What the inventory does not keep about a container, worked out when it is asked for.

The inventory keeps a container's numbers as a short text, and no decision for one that
is older than this process. `why` needs what the runtime would have written by itself,
and a decision if the inventory has all that it depends on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert import convert
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import HandlerFailed
from nriplugin.engine.model import Container, Pod
from nriplugin.engine.stale import resources_of_numbers
from nriplugin.errors import ConversionError
from nriplugin.state.decision_summary import summarise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Resources
    from nriplugin.state.decision_summary import DecisionSummary
    from nriplugin.state.inventory import ContainerEntry
    from nriplugin.state.plan import Plan


class DecidedNow(NamedTuple):
    """A decision that was made to be shown, and to which nothing was done."""

    files: Mapping[str, str]
    summary: DecisionSummary


def given_resources(entry: ContainerEntry) -> Resources | None:
    """Return the numbers that kubelet sent; None if they are not known."""
    if entry.numbers:
        return resources_of_numbers(entry.numbers)
    return None if entry.kept is None else entry.kept.resources


def native_values(
    entry: ContainerEntry, given: Resources | None, plan: Plan
) -> Mapping[str, str]:
    """Return the files that the runtime would have written without nriplugin."""
    if given is None:
        return entry.others
    curve = plan.curves.get(entry.pod.uid, plan.facts.curve)
    try:
        made = convert(given._replace(unified={}), curve).files
    except ConversionError:
        return entry.others
    return {**made, **entry.others}


def decided_now(
    entry: ContainerEntry, given: Resources | None, plan: Plan
) -> DecidedNow | None:
    """Decide about a container; None if the inventory lacks what that depends on.

    A decision depends on the pod's labels and annotations, which only the CRI door
    keeps, unless the container's numbers alone count under this plan.
    """
    if given is None:
        return None
    pod = entry.pod.described
    if pod is None:
        if not plan.numbers_only:
            return None
        pod = Pod(uid=entry.pod.uid, curve=plan.curves.get(entry.pod.uid))
    container = entry.kept or Container(entry.name, entry.id)
    container = container._replace(
        resources=given, ours=entry.ours, others=entry.others
    )
    try:
        decision = decide(pod, container, plan.facts, plan.config)
    except HandlerFailed:
        return None
    return DecidedNow(decision.expected(), summarise(decision))
