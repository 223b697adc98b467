"""Values that nriplugin once set and that no handler asks for now, ended at an update.

A handler may be off since then (by a reload, a rule or an annotation), or may have
nothing to say about the new numbers. The container still has the old value, and the
runtime writes again at every update what it was once sent. So an update that touches
such a file sends the value that the file would have without nriplugin. Files that the
update does not touch keep what they have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert import convert
from nriplugin.convert.result import Rule
from nriplugin.engine.decision import RESOURCES, UPDATES, HandlerFailed, Why
from nriplugin.engine.explicit import UNSET
from nriplugin.engine.handlers import table
from nriplugin.engine.handlers.resources import lasting_quota
from nriplugin.engine.idle import end_idle
from nriplugin.engine.model import CORE_FILES
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext

_SOURCE = "an earlier decision of nriplugin"
RETRACTED = Why(
    UPDATES,
    Rule((), "as if it had never been set: no handler asks for it now"),
    _SOURCE,
)
FOLLOWS = Why(
    UPDATES,
    Rule((), "the conversion, although it is off: an earlier value would come back"),
    _SOURCE,
)


def retract_old_values(context: HandlerContext) -> None:
    """End the old values of files that the update touches.

    It is called when all handlers have decided, so that their files are known, and
    before the conversion, which gives no weight to a container that stays idle.

    Raises:
        HandlerFailed: see `fail_lost_update`.
    """
    ours = context.container.ours
    if not ours:
        return
    end_idle(context, RETRACTED)
    for handler in table.HANDLERS:
        if handler.retract is not None:
            handler.retract(context, RETRACTED)
    if context.memory_requested:
        for file, default in UNSET.items():
            if context.holds_old_value(file, default):
                context.send(file, default, RETRACTED)
    if not context.settings.resources.enabled and not CORE_FILES.isdisjoint(ours):
        _follow_request(context)


def _follow_request(context: HandlerContext) -> None:
    """Send the converted request, although the conversion is off.

    The runtime makes the same values of the request by itself, but then writes the old
    ones over them that nriplugin sent while the conversion was on.
    """
    given = context.requested
    if context.decision.idle:
        given = given._replace(shares=None)
    try:
        derived = convert(given, context.curve).derived
    except ConversionError as exc:
        fail_lost_update(context, exc)
        return
    for file, value, _ in derived:
        if file == "cpu.max" and context.facts.driver == SYSTEMD:
            value = lasting_quota(value)
        if file in CORE_FILES and context.holds_old_value(file, value):
            context.send(file, value, FOLLOWS)


def fail_lost_update(context: HandlerContext, failure: Exception) -> None:
    """Fail an update whose numbers the runtime would replace by values of nriplugin.

    The runtime writes the values that it once got from nriplugin after the numbers of
    kubelet's request. Without a new value to send, kubelet would be told of a resize
    that never happened; if it is told of a failure, it tries again. At a creation there
    is no old value, and nothing happens here.

    Raises:
        HandlerFailed: unless the configuration wants such an update to go on.
    """
    if not context.updating or not context.settings.resources.fail_lost_update:
        return
    requested = context.requested
    touched = {
        "cpu.weight": requested.shares,
        "cpu.max": requested.quota_us,
        "memory.max": requested.memory_limit_bytes,
    }
    ours = context.container.ours or {}
    lost = [file for file, number in touched.items() if number and file in ours]
    if lost:
        files = " and ".join(lost)
        raise HandlerFailed(
            RESOURCES, f"{failure}; the runtime would keep the old {files}"
        ) from failure
