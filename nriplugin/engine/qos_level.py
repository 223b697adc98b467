"""A container's QoS level, which two handlers read: for the CPU and for memory.

The level comes from nriplugin's annotation, else from Volcano's, else from whether the
pod is preemptable, if a setting says which level that stands for, else from the
handler's settings. A value that is none of the levels is refused, and the next source
counts.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from nriplugin.kube.podgroup import PREEMPTABLE_KEY, is_preemptable

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext

KEY = "qos-level"
VOLCANO_KEY = "volcano.sh/qos-level"


class QoSLevel(StrEnum):
    """How much a container's latency matters, in Volcano's words."""

    LC = "LC"  # latency critical
    HLS = "HLS"  # highly latency sensitive
    LS = "LS"  # latency sensitive
    BE = "BE"  # best effort


_LEVELS = {level.value: level for level in QoSLevel}
_EXPECTED = ", ".join(QoSLevel)


def qos_level(
    context: HandlerContext,
    handler: str,
    configured: QoSLevel | None,
    of_preemptable: QoSLevel | None = None,
) -> tuple[QoSLevel, str] | None:
    """Return the level and its source; None if no source has one.

    Args:
        context: what the decision is about.
        handler: the handler that asks.
        configured: the level in its settings, if there is one.
        of_preemptable: the level of a pod that Volcano may preempt, if that counts.
    """
    stated = context.annotation(KEY)
    if stated is not None:
        if stated.value in _LEVELS:
            return _LEVELS[stated.value], f"annotation {stated.key}"
        context.refuse(
            handler, f"{stated.key}: {stated.value!r:.60}, expected {_EXPECTED}"
        )
    volcano = context.foreign_annotation(VOLCANO_KEY, handler)
    if volcano is not None:
        if volcano in _LEVELS:
            return _LEVELS[volcano], f"annotation {VOLCANO_KEY}"
        context.refuse(handler, f"{VOLCANO_KEY}: {volcano!r:.60}, expected {_EXPECTED}")
    if of_preemptable is not None and is_preemptable(
        context.pod.labels, context.pod.annotations
    ):
        return of_preemptable, f"{PREEMPTABLE_KEY} of the pod"
    if configured is not None:
        return configured, context.settings.origin(f"{handler}.level")
    return None
