"""Which of a pod's labels and annotations can change a decision.

Containers that are alike in these, and in their numbers, get the same decision, so it
can be kept. Annotations of ours are not listed, as they have any name: see
`kube.annotations.ours`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.handlers.cpu_burst import VOLCANO_SWITCH, VOLCANO_TIME
from nriplugin.engine.qos_level import VOLCANO_KEY
from nriplugin.kube.podgroup import GROUP_KEYS, JOB_KEYS, QUEUE_KEYS, TASK_KEYS

if TYPE_CHECKING:
    from nriplugin.engine.settings import EngineConfig


class Telling(NamedTuple):
    """The keys that count."""

    labels: tuple[str, ...]
    annotations: tuple[str, ...]


def telling_keys(config: EngineConfig) -> Telling:
    """Return what a configuration's rules and handlers look at."""
    labels: set[str] = set()
    annotations = {VOLCANO_SWITCH, VOLCANO_TIME, VOLCANO_KEY}
    for rule in config.rules:
        match = rule.match
        labels.update(match.labels or ())
        annotations.update(match.annotations or ())
        if match.needs_membership:
            keys = {*GROUP_KEYS, *JOB_KEYS, *QUEUE_KEYS, *TASK_KEYS}
            labels |= keys
            annotations |= keys
    return Telling(tuple(sorted(labels)), tuple(sorted(annotations)))
