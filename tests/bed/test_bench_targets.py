"""`hack/bench daemon` says which of its figures miss their targets."""

from __future__ import annotations

from benches.daemon import Figures, missed

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
