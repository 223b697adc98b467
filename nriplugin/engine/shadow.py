"""What is done for a container in shadow mode: nothing, but no resize may get lost.

In shadow mode a decision is made and shown, and nothing of it is sent or written. A
container that has no values of nriplugin's gets an empty decision in its place.

A container may still have values from a time when decisions were enforced. The runtime
keeps these and writes them over kubelet's numbers at every update, so an empty answer
would undo the update. Such a container gets the decision of a configuration with all
handlers off: the files that nriplugin has set before follow the request, values that no
handler would set then are ended where the update touches them, and nothing is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.engine.decide import decide_update
from nriplugin.engine.decision import Decision

if TYPE_CHECKING:
    from nriplugin.convert import Resources
    from nriplugin.engine.model import Container, NodeFacts, Pod, Use
    from nriplugin.engine.settings import EngineConfig


def to_enforce(decision: Decision) -> Decision:
    """Return what to do for a new container: the decision, or nothing of it."""
    if not decision.settings.shadow:
        return decision
    nothing = Decision(decision.settings)
    nothing.refused, nothing.left = decision.refused, decision.left
    nothing.shadow = decision
    return nothing


def to_enforce_at_update(
    decision: Decision,
    pod: Pod,
    container: Container,
    asked: Resources,
    facts: NodeFacts,
    config: EngineConfig,
    use: Use | None = None,
    *,
    unasked: bool = False,
) -> Decision:
    """Return what to do at an update about which a decision was made.

    The arguments after the decision are those that it was made of.

    Raises:
        HandlerFailed: the numbers cannot be converted, and the runtime would write
            earlier values of nriplugin's over them.
    """
    if not decision.settings.shadow:
        return decision
    if not container.ours:
        return to_enforce(decision)
    rest = config.without_handlers()
    kept = decide_update(pod, container, asked, facts, rest, use, unasked=unasked)
    kept.shadow = decision
    return kept
