"""What decisions follow at a moment: configuration and facts, replaced as one.

The request thread reads it, others replace it: a decision never sees half a change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nriplugin.engine.model import NodeFacts
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.engine.settings import DEFAULT_CONFIG
from nriplugin.state.decision_cache import Answered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve
    from nriplugin.engine.settings import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that a decision is made from, but for the container."""

    config: EngineConfig = DEFAULT_CONFIG
    facts: NodeFacts = field(default_factory=NodeFacts)
    # The curves of pods whose containers differ from the node's, by UID.
    curves: Mapping[str, Curve] = field(default_factory=dict)
    # All follow: whether nothing is ever decided, and whether nothing but a
    # container's own numbers counts, so that its pod need not even be read.
    idle: bool = field(init=False)
    plain: bool = field(init=False)
    answered: Answered = field(init=False)

    def __post_init__(self) -> None:
        config = self.config
        nobody = not config.base.active and not config.rules
        idle = nobody or self.facts.cgroup_version != 2
        differ = bool(self.curves) and config.curve is None
        # Under crun, a weight may take more than an answer: who runs a pod counts.
        systemd = self.facts.driver == SYSTEMD
        scoped = systemd and config.curve not in (None, self.facts.curve)
        plain = config.base.only_resources and not (config.rules or differ or scoped)
        object.__setattr__(self, "idle", idle)
        object.__setattr__(self, "plain", plain)
        answered = Answered(config, self.curves, plain=plain)
        object.__setattr__(self, "answered", answered)
