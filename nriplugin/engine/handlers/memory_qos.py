"""The handler `memoryQoS`: throttle before the limit, protect what was requested.

The kubelet's own arithmetic (KEP-2570), per container, where the kubelet's is off.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import ESTIMATE, Level, When, Why
from nriplugin.engine.memory import (
    limit_or_allocatable,
    memory_request,
    request_to_protect,
    send_high,
    throttle_at,
    why_no_high,
)
from nriplugin.engine.settings import MILLION
from nriplugin.kube.qos import QOSClass

if TYPE_CHECKING:
    from nriplugin.engine.context import Case
    from nriplugin.engine.memory import Request

HANDLER = "memoryQoS"
SWITCH_KEY = "memory-qos"
FACTOR_KEY = "memory-throttling-factor"

HIGH_RULE = Rule(
    ("memory request", "memory.limit"),
    "request + factor * (limit - request), down to whole pages",
)
HIGH_NODE_RULE = Rule(
    ("memory request",),
    "request + factor * (the node's allocatable - request), down to whole pages",
)
MIN_RULE = Rule(
    ("memory request", "memory.limit"),
    "the request of a Guaranteed pod is never reclaimed, up to a share of the limit",
)
LOW_RULE = Rule(("memory request",), "the request of a Burstable pod is reclaimed last")
SWAP_RULE = Rule((), "as configured")
OOM_GROUP_RULE = Rule((), "as configured: all processes of the container die as one")
ANCESTORS_RULE = Rule(
    ("memory request",), "protection counts only as far as every cgroup above has it"
)

# The limit of a Guaranteed pod is that of its containers together, and what else is in
# the pod's cgroup counts against it: the pause process (0.5 MiB), CRI-O's monitor of
# each container (2 MiB). When the pod is at its limit, only memory that is unprotected
# can be reclaimed, page cache included; with less of it than that, the kernel kills.
MIN_ROOM_BYTES = 4 << 20

_FACTOR = re.compile(r"0?\.[0-9]{1,6}|[01](\.0{1,6})?")


def decide_memory_qos(case: Case) -> None:
    """Send memory.high, memory.min or memory.low, memory.swap.max, memory.oom.group."""
    settings = case.settings.memory_qos
    switch = case.annotation(SWITCH_KEY)
    if switch is not None:
        if switch.value == "off":
            case.out.leave(HANDLER, f"switched off by annotation {switch.key}")
            return
        if switch.value != "on":
            case.refuse(
                HANDLER, f"{switch.key}: {switch.value!r:.60}, expected off or on"
            )
    if case.asked is None:
        _decide_once(case)
    if case.memory_comes:
        request = memory_request(case, HANDLER)
        factor, origin = _factor(case)
        if factor is not None:
            _throttle(case, request, factor, origin)
        if settings.protection:
            _protect(case)


def _decide_once(case: Case) -> None:
    """Send what no update changes."""
    settings = case.settings.memory_qos
    if settings.swap is not None:
        origin = case.settings.origin("memoryQoS.swap")
        case.send("memory.swap.max", settings.swap, Why(HANDLER, SWAP_RULE, origin))
    if settings.oom_group is not None:
        origin = case.settings.origin("memoryQoS.oomGroup")
        value = "1" if settings.oom_group else "0"
        case.send("memory.oom.group", value, Why(HANDLER, OOM_GROUP_RULE, origin))


def _factor(case: Case) -> tuple[int | None, str]:
    """Return the factor in millionths, and who says so."""
    given = case.annotation(FACTOR_KEY)
    if given is not None:
        if _FACTOR.fullmatch(given.value) and float(given.value) > 0:
            return round(float(given.value) * MILLION), f"annotation {given.key}"
        case.refuse(HANDLER, f"{given.key}: {given.value!r:.60}, expected 0.01 to 1")
    origin = case.settings.origin("memoryQoS.throttlingFactor")
    return case.settings.memory_qos.factor_ppm, origin


def _throttle(case: Case, request: Request | None, factor: int, origin: str) -> None:
    reason = why_no_high(case)
    limit = limit_or_allocatable(case)
    if not reason and request is None:
        reason = "the memory request is not known"
    if not reason and limit is None:
        reason = "no limit, and what the node can give away is not known"
    if reason:
        case.out.leave("memory.high", f"{HANDLER}: {reason}")
        return
    assert request is not None
    assert limit is not None
    # The most that it may be: kubelet does not throttle at or below the request.
    most = request.most
    high = throttle_at(most, limit, factor, case.facts.page_bytes)
    if most >= limit or high <= most:
        reason = "no room between request and limit"
        if request.confidence == ESTIMATE:
            reason = f"by {request.source} it may have requested {most} of {limit}"
        case.out.leave("memory.high", f"{HANDLER}: {reason}")
        return
    limited = isinstance(case.given.memory_limit_bytes, int)
    why = Why(
        HANDLER,
        HIGH_RULE if limited else HIGH_NODE_RULE,
        f"request {most} from {request.source}; "
        f"factor {factor / MILLION:g} from {origin}",
        request.confidence,
    )
    send_high(case, str(high), why)


def _protect(case: Case) -> None:
    file, rule = "memory.low", LOW_RULE
    if case.qos_class == QOSClass.GUARANTEED:
        file, rule = "memory.min", MIN_RULE
    elif case.qos_class == QOSClass.BEST_EFFORT:
        # Whatever an annotation says: what it requests, kubelet has not reserved.
        case.out.leave(file, f"{HANDLER}: a BestEffort pod is not protected")
        return
    request = request_to_protect(case, HANDLER, file)
    if request is None:
        return
    amount, source = request.amount, f"request from {request.source}"
    if file == "memory.min":
        amount = _leaving_room(case, amount)
        origin = case.settings.origin("memoryQoS.guaranteedProtection")
        share = case.settings.memory_qos.guaranteed_ppm / MILLION
        source = f"{source}; share {share:g} from {origin}"
        if amount <= 0:
            case.out.leave(file, f"{HANDLER}: no room for it below the limit")
            return
    why = Why(HANDLER, rule, source, request.confidence)
    sent = case.send(file, str(amount), why)
    if sent and case.settings.memory_qos.raise_ancestors:
        case.write(
            file,
            str(amount),
            why._replace(rule=ANCESTORS_RULE),
            level=Level.ANCESTORS,
            when=When.BEFORE,
            part=True,
        )


def _leaving_room(case: Case, request: int) -> int:
    """Return how much of a request is protected, so that its pod can be reclaimed."""
    share = case.settings.memory_qos.guaranteed_ppm
    limit = case.given.memory_limit_bytes
    whole = limit if isinstance(limit, int) else request
    if share == MILLION:
        return request
    most = min(whole * share // MILLION, whole - MIN_ROOM_BYTES)
    return min(request, most // case.facts.page_bytes * case.facts.page_bytes)
