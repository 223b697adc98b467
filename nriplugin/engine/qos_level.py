"""A container's QoS level: our annotation, Volcano's, a rule, or the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.engine.settings import QoSLevel

if TYPE_CHECKING:
    from nriplugin.engine.context import Case

KEY = "qos-level"
VOLCANO_KEY = "volcano.sh/qos-level"

_LEVELS = {level.value: level for level in QoSLevel}
_EXPECTED = ", ".join(QoSLevel)


def qos_level(
    case: Case, handler: str, configured: QoSLevel | None
) -> tuple[QoSLevel, str] | None:
    """Return the level and who says so; None where nobody does."""
    ours = case.annotation(KEY)
    if ours is not None:
        if ours.value in _LEVELS:
            return _LEVELS[ours.value], f"annotation {ours.key}"
        case.refuse(handler, f"{ours.key}: {ours.value!r:.60}, expected {_EXPECTED}")
    volcano = case.foreign(VOLCANO_KEY, handler)
    if volcano is not None:
        if volcano in _LEVELS:
            return _LEVELS[volcano], f"annotation {VOLCANO_KEY}"
        case.refuse(handler, f"{VOLCANO_KEY}: {volcano!r:.60}, expected {_EXPECTED}")
    if configured is not None:
        return configured, case.settings.origin(f"{handler}.level")
    return None
