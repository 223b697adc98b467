"""What we once set and nobody wants any more must not be in an update's way.

A handler may be off since then, by a reload, a rule or an annotation, or have nothing
to say about the new numbers. But the container still has its value, and runtimes write
what they were once sent again at every update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert import convert
from nriplugin.convert.result import Rule
from nriplugin.engine.context import UNSET
from nriplugin.engine.decision import RESOURCES, UPDATES, HandlerFailed, Why
from nriplugin.engine.handlers.cpu_burst import end_burst
from nriplugin.engine.handlers.resources import lasting_quota
from nriplugin.engine.idle import end_idle
from nriplugin.engine.model import CORE_FILES
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.convert import Curve, Resources
    from nriplugin.engine.context import Case

_SOURCE = "an earlier decision of ours"
GONE = Why(
    UPDATES, Rule((), "as if it had never been set: nobody wants it now"), _SOURCE
)
FOLLOWS = Why(
    UPDATES,
    Rule((), "the conversion, although it is off: an earlier value would come back"),
    _SOURCE,
)


def clear_leftovers(case: Case, given: Resources, curve: Curve) -> None:
    """Take back what no handler has asked for, as far as this update touches it.

    `given` is what the conversion would convert. To be called when all handlers are
    done, and before it.
    """
    ours = case.container.ours
    if not ours:
        return
    end_idle(case, GONE)
    end_burst(case, GONE)
    if case.memory_comes:
        for file, without in UNSET.items():
            if case.left_over(file, without):
                case.send(file, without, GONE)
    if not case.settings.resources.enabled and not CORE_FILES.isdisjoint(ours):
        _follow(case, given, curve)


def _follow(case: Case, given: Resources, curve: Curve) -> None:
    """Send what the runtime makes of the request by itself, and we would undo."""
    if case.idle:
        given = given._replace(shares=None)
    try:
        derived = convert(given, curve).derived
    except ConversionError as exc:
        not_lost(case, exc)
        return
    for file, value, _ in derived:
        if file == "cpu.max" and case.facts.driver == SYSTEMD:
            value = lasting_quota(value)
        if file in CORE_FILES and case.left_over(file, value):
            case.send(file, value, FOLLOWS)


def not_lost(case: Case, failure: Exception) -> None:
    """Fail an update that the runtime would undo with an earlier value of ours.

    The runtime writes the values that it once got from us again after kubelet's
    numbers. If we have no new value to send, kubelet would be told of a resize that
    never happened; told of a failure, it tries again.

    Raises:
        HandlerFailed: unless the configuration wants such an update to go on.
    """
    asked = case.asked
    if asked is None or not case.settings.resources.fail_lost_update:
        return
    touched = {
        "cpu.weight": asked.shares,
        "cpu.max": asked.quota_us,
        "memory.max": asked.memory_limit_bytes,
    }
    ours = case.container.ours or {}
    undone = [file for file, number in touched.items() if number and file in ours]
    if undone:
        files = " and ".join(undone)
        raise HandlerFailed(
            RESOURCES, f"{failure}; the runtime would keep the old {files}"
        ) from failure
