"""The metrics about policies at run time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.daemon.metric_families import counter, counters, gauge, gauges
from nriplugin.daemon.policy_status import policy_names
from nriplugin.state.policy_holds import OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.metric_encoding import Metric
    from nriplugin.state.lifecycle import Lifecycle


def policy_metrics(lifecycle: Lifecycle) -> Iterator[Metric]:
    """Return what policies do; policies and outcomes are fixed lists."""
    counts, names = lifecycle.policies.counts, policy_names()
    actions = dict(counts.actions)
    yield gauges(
        "policy_containers",
        "Containers for which a policy at run time is on.",
        ("policy",),
        [((name,), counts.containers.get(name, 0)) for name in names],
    )
    yield gauges(
        "policy_holding",
        "Containers of which a file holds a policy's value at the moment.",
        ("policy",),
        [((name,), counts.holding.get(name, 0)) for name in names],
    )
    yield counters(
        "policy_actions",
        "What became of the changes that policies wanted.",
        ("policy", "outcome"),
        [
            ((name, outcome), actions.get((name, outcome), 0))
            for name in names
            for outcome in OUTCOMES
        ],
    )
    yield counter(
        "policy_cpu_seconds",
        "CPU time of the thread that measures containers and asks the policies.",
        counts.cpu_s,
    )
    yield gauge(
        "policy_timestamp_seconds",
        "When policies were asked last, in seconds since 1970; 0 for never.",
        counts.last_at or 0,
    )
