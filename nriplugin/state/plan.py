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

    __slots__ = (
        *("cache", "config", "curves", "facts", "inactive", "numbers_only"),
        *("silent", "uses_requests"),
    )

    def __init__(
        self,
        config: EngineConfig = DEFAULT_CONFIG,
        facts: NodeFacts | None = None,
        curves: Mapping[str, Curve] | None = None,
        *,
        silent: bool = False,
    ) -> None:
        """Combine a configuration, facts, and the curves of pods by their UID.

        Args:
            config: the configuration.
            facts: the facts about the node.
            curves: only those pods whose containers follow another curve than the node.
            silent: whether another process of nriplugin makes all decisions.
        """
        self.config = config
        self.facts = facts = facts or NodeFacts()
        self.curves = curves or {}
        base = config.base
        # Whether no decision can set a value: all handlers are off, or on a node with
        # cgroup v1, which needs no conversion, all others.
        nothing_on = not base.active or (facts.direct_only and base.only_resources)
        self.inactive = nothing_on and not config.rules
        # Whether requests about existing containers get no answer, either, because
        # another process of nriplugin answers them.
        self.silent = silent
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
        # Whether the memory request of a container can change a decision.
        self.uses_requests = config.uses_memory_requests
        self.cache = DecisionCache(config, numbers_only=self.numbers_only)


class CurrentPlan:
    """The plan in force: read by request threads, replaced by any thread.

    A process that was withdrawn has a plan in which every handler is off, whatever is
    applied later. Such a plan sets no value on a new container. It still answers the
    update of a container that has values of nriplugin's: with the converted request,
    and with the end of every other value. Without an answer the runtime would write
    those values over kubelet's new numbers, and the resize would be lost.

    A process that is silent has no part in decisions at all, because another process of
    nriplugin makes them.
    """

    __slots__ = ("_config", "_facts", "_replacing", "_silent", "now", "withdrawn")

    def __init__(
        self, facts: NodeFacts | None = None, config: EngineConfig = DEFAULT_CONFIG
    ) -> None:
        """Begin with a configuration, which is the default one if none is given."""
        self._replacing = threading.Lock()
        self.withdrawn = False
        self._silent = False
        self.now = Plan(config, facts)
        # As given; the plan has others if the process is withdrawn.
        self._config = self.now.config
        self._facts = self.now.facts

    @property
    def others_decide(self) -> bool:
        """Return whether another process of nriplugin makes all decisions."""
        return self._silent

    def apply(self, config: EngineConfig) -> None:
        """Put a configuration in force; the facts stay."""
        with self._replacing:
            self._config = config
            self._replace(self.now.curves)

    def learn(
        self, facts: Mapping[str, Any], curves: Mapping[str, Curve] | None = None
    ) -> None:
        """Replace facts, given by their names in NodeFacts, and the curves of pods."""
        with self._replacing:
            self._facts = self._facts._replace(**facts)
            self._replace(self.now.curves if curves is None else curves)

    def withdraw(self) -> None:
        """Decide nothing any more, but for updates of containers with own values."""
        with self._replacing:
            self.withdrawn = True
            self._replace(self.now.curves)

    def set_silent(self, silent: bool) -> None:
        """Begin or end to leave all decisions to another process."""
        with self._replacing:
            self._silent = silent
            self._replace(self.now.curves)

    def _replace(self, curves: Mapping[str, Curve]) -> None:
        config, facts = self._config, self._facts
        if self.withdrawn or self._silent:
            config = config.without_handlers()
        self.now = Plan(config, facts, curves, silent=self._silent)
