"""Decisions about updates from memory alone, for when the ordinary decision failed.

A runtime keeps the cgroup v2 files that nriplugin sent for a container, and writes them
again at every update, after the files that it makes of the update's numbers. If a late
or failed decision were answered by passing on kubelet's request as it came, the resize
would end with nriplugin's old values, and kubelet would take it for done. So the update
is decided once more, from the inventory alone: this decision does not ask the runtime,
does not read files, and does not write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.engine.decide import decide_update
from nriplugin.engine.decision import When
from nriplugin.engine.idle import FILE as IDLE
from nriplugin.engine.idle import needs_cleared_shares
from nriplugin.engine.shadow import to_enforce_at_update
from nriplugin.errors import NRIPluginError, RequestFails

if TYPE_CHECKING:
    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container, NodeFacts, Pod
    from nriplugin.engine.settings import EngineConfig


class Undecidable(NRIPluginError):
    """An update cannot be decided from memory, and must not be forwarded unchanged."""


def decide_immediately(
    pod: Pod,
    container: Container,
    asked: Resources,
    facts: NodeFacts,
    config: EngineConfig,
) -> Decision:
    """Decide about an update of a container that has values from nriplugin.

    If a handler raises because of a defect, the conversion alone decides, and values
    that the handlers set earlier are taken back.

    Raises:
        RequestFails: a handler could not do its work, and is configured to fail.
        Undecidable: a direct write would have to be done before the runtime's part.
    """
    try:
        decision = decide_update(pod, container, asked, facts, config)
        if decision.settings.shadow:
            decision = to_enforce_at_update(
                decision, pod, container, asked, facts, config
            )
    except RequestFails:
        raise
    except Exception:  # noqa: BLE001 - any defect: the conversion alone may work
        decision = decide_update(
            pod, container, asked, facts, config.without_handlers()
        )
    first = [write.file for write in decision.writes if write.when is When.BEFORE]
    # An idle container can do without that write, if its shares are cleared.
    if set(first) == {IDLE} and needs_cleared_shares(decision, container, first):
        facts = facts._replace(writable=False)
        return decide_update(pod, container, asked, facts, config)
    if first:
        raise Undecidable(f"{first[0]} has to be written first")
    return decision
