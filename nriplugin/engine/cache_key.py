"""Which of a pod's labels and annotations can change a decision.

Two containers that are equal in these, in their numbers and in what else a door hands
to the engine get the same decision, so a door can keep it. The keys come from the rules
of the configuration and from the declarations of the handlers. nriplugin's own
annotations are not among them, as any name of a file makes one: `kube.annotations.ours`
finds those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.handlers import table
from nriplugin.kube.podgroup import GROUP_KEYS, JOB_KEYS, QUEUE_KEYS, TASK_KEYS

if TYPE_CHECKING:
    from nriplugin.engine.settings import EngineConfig


class DecidingKeys(NamedTuple):
    """The keys of a pod's labels and annotations that decisions depend on."""

    labels: tuple[str, ...]
    annotations: tuple[str, ...]


def deciding_keys(config: EngineConfig) -> DecidingKeys:
    """Return the keys that a configuration's rules and the handlers look at."""
    labels = {key for handler in table.HANDLERS for key in handler.foreign_labels}
    annotations = {
        key for handler in table.HANDLERS for key in handler.foreign_annotations
    }
    for rule in config.rules:
        match = rule.match
        labels.update(match.labels or ())
        annotations.update(match.annotations or ())
        if match.needs_membership:
            keys = {*GROUP_KEYS, *JOB_KEYS, *QUEUE_KEYS, *TASK_KEYS}
            labels |= keys
            annotations |= keys
    return DecidingKeys(tuple(sorted(labels)), tuple(sorted(annotations)))
