"""The plan: the configuration and the facts by which decisions are made.

A `Plan` never changes. `CurrentPlan` holds the one in force, and replaces it as a
whole when the configuration is reloaded or a fact is learned. A request thread reads
`CurrentPlan.now` once per request, so that one decision never mixes two configurations
or two sets of facts. The decision cache belongs to a plan and ends with it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from nriplugin.engine.model import NodeFacts
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.engine.settings import DEFAULT_CONFIG
from nriplugin.state.decision_cache import DecisionCache

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve
    from nriplugin.engine.settings import EngineConfig


class Plan:
    """All inputs of a decision except the pod and the container."""

    __slots__ = ("cache", "config", "curves", "facts", "inactive", "numbers_only")

    def __init__(
        self,
        config: EngineConfig = DEFAULT_CONFIG,
        facts: NodeFacts | None = None,
        curves: Mapping[str, Curve] | None = None,
    ) -> None:
        """Combine a configuration, facts, and the curves of pods by their UID.

        `curves` has only the pods whose containers follow another curve than the node.
        """
        self.config = config
        self.facts = facts = facts or NodeFacts()
        self.curves = curves or {}
        base = config.base
        # Whether no decision can set a value: all handlers are off, or this is a node
        # with cgroup v1.
        nothing_on = not base.active and not config.rules
        self.inactive = nothing_on or facts.cgroup_version != 2
        # Whether a decision depends on the container's numbers alone, so that its pod
        # need not be read. Under systemd, crun needs a direct write for a weight that
        # its own curve would not give, so the decision depends on the pod's runtime.
        curves_differ = bool(self.curves) and config.curve is None
        runtime_counts = facts.driver == SYSTEMD and config.curve not in (
            None,
            facts.curve,
        )
        self.numbers_only = base.only_resources and not (
            config.rules or curves_differ or runtime_counts
        )
        self.cache = DecisionCache(config, numbers_only=self.numbers_only)


class CurrentPlan:
    """The plan in force: read by request threads, replaced by any thread."""

    __slots__ = ("_replacing", "now")

    def __init__(
        self, facts: NodeFacts | None = None, config: EngineConfig = DEFAULT_CONFIG
    ) -> None:
        """Begin with a configuration, which is the default one if none is given."""
        self._replacing = threading.Lock()
        self.now = Plan(config, facts)

    def apply(self, config: EngineConfig) -> None:
        """Put a configuration in force; the facts stay."""
        with self._replacing:
            self.now = Plan(config, self.now.facts, self.now.curves)

    def learn(
        self, facts: Mapping[str, Any], curves: Mapping[str, Curve] | None = None
    ) -> None:
        """Replace facts, given by their names in NodeFacts, and the curves of pods."""
        with self._replacing:
            now = self.now
            curves = now.curves if curves is None else curves
            self.now = Plan(now.config, now.facts._replace(**facts), curves)
