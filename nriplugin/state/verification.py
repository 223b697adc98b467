"""Counts of what the comparison of cgroup files with the decisions has found.

The background thread counts; `status` and metrics read.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nriplugin.engine.settings import EngineConfig


class VerificationCounts:
    """What was compared, and what became of files that held another value."""

    def __init__(self) -> None:
        self.interval_s = 0.0  # between two comparisons; 0 while there are none
        self.last_at: float | None = None  # seconds since 1970
        self.checked = 0  # containers, each counted whenever it is compared
        # By the name of the file.
        self.drift: Counter[str] = Counter()
        self.repairs: Counter[str] = Counter()
        self.failed_repairs: Counter[str] = Counter()


class ShadowCounts:
    """What would change if decisions that are only made for show were enforced."""

    def __init__(self) -> None:
        self.enabled = False  # for the whole node
        self.rules: tuple[str, ...] = ()  # rules in shadow mode, by name
        # Of the containers that exist now, as they were compared last:
        self.containers = 0  # that would get other values than they have
        self.files: Counter[str] = Counter()  # in how many containers each would change

    def configure(self, config: EngineConfig) -> None:
        """Take note of which decisions are for show alone."""
        self.enabled = config.base.shadow
        self.rules = tuple(
            rule.settings.rule for rule in config.rules if rule.settings.shadow
        )
