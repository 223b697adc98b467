"""The decision about a new container, with everything that is cached beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nriplugin.engine.decide import decide
from nriplugin.engine.provenance import others_files
from nriplugin.engine.shadow import to_enforce
from nriplugin.engine.stale import numbers_of
from nriplugin.kube.managed import Managed
from nriplugin.node.protection import FILES as PROTECTION
from nriplugin.state.decision_cache import CachedDecision
from nriplugin.state.decision_summary import summarise
from nriplugin.state.inventory import NO_FILES

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container, Pod
    from nriplugin.state.plan import Plan

    # Makes a door's response from a decision about a new container.
    Render = Callable[[Decision, Managed], Any]


def decide_creation(
    plan: Plan, pod: Pod, container: Container, render: Render | None = None
) -> CachedDecision:
    """Decide about a container that is about to be created, without the cache.

    Raises:
        HandlerFailed: a handler could not do its work, and is configured to fail.
    """
    decision = to_enforce(decide(pod, container, plan.facts, plan.config))
    files, resources = decision.expected(), container.resources
    others = others_files(resources.unified, decision.files) or NO_FILES
    managed = Managed(files, others, numbers_of(resources))
    # A runtime on cgroup v1 gets the empty answer.
    response = None
    if render is not None and not plan.facts.direct_only:
        response = render(decision, managed)
    protects = not PROTECTION.isdisjoint(files)
    shown = decision.shadow
    shadow = NO_FILES if shown is None else shown.expected()
    summary = summarise(decision)
    return CachedDecision(decision, summary, managed, protects, response, shadow)
