"""The handler `memoryQoSLevel`: a level for memory, by the kernel's file or the like.

openEuler's kernels have memory.qos_level, -1 for BE and 0 for all others. On an
upstream kernel BE is throttled early (memory.high), and LC and HLS keep their request
(memory.low).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Level, Why
from nriplugin.engine.memory import (
    limit_or_allocatable,
    request_to_protect,
    send_high,
    throttle_at,
    why_no_high,
)
from nriplugin.engine.qos_level import qos_level
from nriplugin.engine.settings import MILLION, QoSLevel

if TYPE_CHECKING:
    from nriplugin.engine.context import Case

HANDLER = "memoryQoSLevel"
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


def decide_memory_qos_level(case: Case) -> None:
    """Send memory.qos_level; else memory.high for BE, memory.low for LC and HLS."""
    settings = case.settings.memory_qos_level
    found = qos_level(case, HANDLER, settings.level)
    if found is None:
        return
    level, source = found
    if FILE in case.facts.files:
        if case.asked is None:
            value = "-1" if level is QoSLevel.BE else "0"
            why = Why(HANDLER, LEVEL_RULE, source)
            case.send(FILE, value, why)
            if case.facts.writable:
                case.write(FILE, value, why, level=Level.POD)
        return
    if not settings.equivalent:
        case.out.leave(f"QoS level {level}", f"{HANDLER}: this node has no {FILE}")
        return
    if not case.memory_comes:
        return
    if level is QoSLevel.BE:
        _throttle(case, source)
    elif level in (QoSLevel.LC, QoSLevel.HLS):
        _protect(case, source)
    else:
        case.out.leave(
            f"QoS level {level}",
            f"{HANDLER}: this node has no {FILE}, and nothing else that is like it",
        )


def _throttle(case: Case, source: str) -> None:
    reason = why_no_high(case)
    limit = limit_or_allocatable(case)
    if not reason and limit is None:
        reason = "no limit, and what the node can give away is not known"
    if reason:
        case.out.leave("memory.high", f"{HANDLER}: {reason}")
        return
    assert limit is not None
    factor = case.settings.memory_qos_level.factor_ppm
    high = throttle_at(0, limit, factor, case.facts.page_bytes)
    if high == 0:
        case.out.leave("memory.high", f"{HANDLER}: less than a page")
        return
    origin = case.settings.origin("memoryQoSLevel.throttlingFactor")
    text = f"{source}; factor {factor / MILLION:g} from {origin}"
    send_high(case, str(high), Why(HANDLER, HIGH_RULE, text))


def _protect(case: Case, source: str) -> None:
    request = request_to_protect(case, HANDLER, "memory.low")
    if request is None:
        return
    text = f"{source}; request from {request.source}"
    why = Why(HANDLER, LOW_RULE, text, request.confidence)
    case.send("memory.low", str(request.amount), why)
