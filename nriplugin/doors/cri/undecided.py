"""Updates whose decision is late or has failed.

A runtime keeps the cgroup v2 files that we sent for a container, and writes them again
at every update, after what it makes of the update's numbers. An update that is passed
on as kubelet sent it would end with our old values, and kubelet would take it for done.
So it is decided about once more, from what is known, without waiting for anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.engine.decide import decide_update
from nriplugin.engine.decision import When
from nriplugin.errors import NRIPluginError, RequestFails

if TYPE_CHECKING:
    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container, NodeFacts, Pod
    from nriplugin.engine.settings import EngineConfig


class Undecidable(NRIPluginError):
    """An update that must not be passed on as it came, and cannot be decided about."""


def decide_at_once(
    pod: Pod,
    container: Container,
    asked: Resources,
    facts: NodeFacts,
    config: EngineConfig,
) -> Decision:
    """Decide about an update of a container that has values of ours.

    If a defect of ours is in the way, it is the conversion alone that decides, and what
    other handlers once set is taken back.

    Raises:
        RequestFails: a handler could not do its work, and is configured to fail.
        Undecidable: something would have to be written before the runtime's part.
    """
    try:
        decision = decide_update(pod, container, asked, facts, config)
    except RequestFails:
        raise
    except Exception:  # noqa: BLE001 - whatever it is, the second way may work
        decision = decide_update(
            pod, container, asked, facts, config.without_handlers()
        )
    first = [write.file for write in decision.writes if write.when is When.BEFORE]
    if first:
        raise Undecidable(f"{first[0]} has to be written first")
    return decision
