"""The handler `memoryQoSLevel`: a QoS level for memory.

openEuler's kernels have memory.qos_level: -1 for BE and 0 for all other levels. An
upstream kernel has nothing of that kind, so there the nearest files stand for it: BE is
throttled early (memory.high), and the request of LC and HLS is protected (memory.low).
cgroup v1 has neither of these two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Level, Why
from nriplugin.engine.handler import Handler, Option
from nriplugin.engine.memory import (
    MILLION,
    REQUEST_KEY,
    in_millionths,
    limit_or_allocatable,
    request_to_protect,
    send_high,
    throttle_at,
    why_no_high,
)
from nriplugin.engine.qos_level import KEY, VOLCANO_KEY, QoSLevel, qos_level

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext

NAME = "memoryQoSLevel"
FILE = "memory.qos_level"

LEVEL_RULE = Rule(("QoS level",), "BE is -1, all others are 0")
HIGH_RULE = Rule(
    ("QoS level", "memory.limit"),
    "nearest to BE without memory.qos_level: factor * limit (or the node's "
    "allocatable), down to whole pages",
)
LOW_RULE = Rule(
    ("QoS level", "memory request"),
    "nearest to LC and HLS without memory.qos_level: the request is reclaimed last",
)


class MemoryQoSLevelSettings(NamedTuple):
    """A QoS level for memory."""

    enabled: bool = False
    fail: bool = False
    level: QoSLevel | None = None
    equivalent: bool = True
    factor_ppm: int = 800_000  # of the limit is memory.high for BE


def decide_memory_qos_level(
    context: HandlerContext, settings: MemoryQoSLevelSettings
) -> None:
    """Send memory.qos_level; else memory.high for BE, memory.low for LC and HLS."""
    found = qos_level(context, NAME, settings.level)
    if found is None:
        return
    level, source = found
    if FILE in context.facts.files:
        if not context.updating:
            value = "-1" if level is QoSLevel.BE else "0"
            why = Why(NAME, LEVEL_RULE, source)
            context.send(FILE, value, why)
            if context.facts.writable:
                context.write(FILE, value, why, level=Level.POD)
        return
    if not settings.equivalent or context.facts.direct_only:
        context.decision.leave(f"QoS level {level}", f"{NAME}: this node has no {FILE}")
        return
    if not context.memory_requested:
        return
    if level is QoSLevel.BE:
        _throttle(context, source, settings.factor_ppm)
    elif level in (QoSLevel.LC, QoSLevel.HLS):
        _protect(context, source)
    else:
        context.decision.leave(
            f"QoS level {level}",
            f"{NAME}: this node has no {FILE}, and nothing else that is like it",
        )


def _throttle(context: HandlerContext, source: str, factor_ppm: int) -> None:
    reason = why_no_high(context)
    limit = limit_or_allocatable(context)
    if not reason and limit is None:
        reason = "no limit, and what the node can give away is not known"
    if reason:
        context.decision.leave("memory.high", f"{NAME}: {reason}")
        return
    assert limit is not None
    high = throttle_at(0, limit, factor_ppm, context.facts.page_bytes)
    if high == 0:
        context.decision.leave("memory.high", f"{NAME}: less than a page")
        return
    origin = context.settings.origin("memoryQoSLevel.throttlingFactor")
    text = f"{source}; factor {factor_ppm / MILLION:g} from {origin}"
    send_high(context, high, Why(NAME, HIGH_RULE, text))


def _protect(context: HandlerContext, source: str) -> None:
    request = request_to_protect(context, NAME, "memory.low")
    if request is None:
        return
    text = f"{source}; request from {request.source}"
    why = Why(NAME, LOW_RULE, text, request.confidence)
    context.send("memory.low", request.amount, why)


MEMORY_QOS_LEVEL = Handler(
    NAME,
    MemoryQoSLevelSettings,
    decide_memory_qos_level,
    options=(
        Option("level", QoSLevel, nullable=True),
        Option("equivalent", bool),
        Option(
            "throttlingFactor",
            float,
            "factor_ppm",
            above=0,
            most=1,
            convert=in_millionths,
        ),
    ),
    annotations=(KEY, REQUEST_KEY),
    foreign_annotations=(VOLCANO_KEY,),
)
