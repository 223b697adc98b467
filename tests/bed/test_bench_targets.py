"""`hack/bench daemon` says which of its figures miss their targets."""

from __future__ import annotations

from benches.daemon import HANDLERS, POLICIES, Figures, missed

from nriplugin.config import parse_config
from nriplugin.engine.handlers import table

MEMORY: dict[str, Figures] = {
    "core": {"rss_mb": 23.9, "target_mb": 24},
    "handlers": {"rss_mb": 80.0},  # has no target
}
REQUEST: Figures = {"p50_above_core": 0.02, "target": 0.03}


def test_figures_within_their_targets() -> None:
    """Nothing is said about them."""
    assert missed({"memory": MEMORY, "request": {"everything": REQUEST}}) == []


def test_figures_that_miss_their_targets() -> None:
    """Each is named, with the target."""
    memory = {**MEMORY, "core": {"rss_mb": 25.54, "target_mb": 24}}
    request = {"everything": {**REQUEST, "p50_above_core": 0.05}}
    assert missed({"memory": memory, "request": request}) == [
        "memory of core: 25.5 MB, expected at most 24 MB",
        "p50 of everything: 0.050 of Go's above core, not 0.03",
    ]


def test_every_policy_at_run_time_is_measured() -> None:
    """What a look costs is what it costs with all of them."""
    on = parse_config(HANDLERS + POLICIES, "test").engine.base.active
    policies = {one.name for one in table.HANDLERS if one.at_run_time is not None}
    assert policies <= set(on)
