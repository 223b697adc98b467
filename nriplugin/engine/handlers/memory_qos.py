"""The handler `memoryQoS`: throttle before the limit, protect what was requested.

The kubelet's own arithmetic (KEP-2570), per container, where the kubelet's is off.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import ESTIMATE, Level, When, Why
from nriplugin.engine.handler import Handler, Option
from nriplugin.engine.memory import (
    MILLION,
    REQUEST_KEY,
    in_millionths,
    limit_or_allocatable,
    memory_request,
    request_to_protect,
    send_high,
    throttle_at,
    why_no_high,
)
from nriplugin.kube.qos import QOSClass

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.memory import Request

NAME = "memoryQoS"
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


class MemoryQoSSettings(NamedTuple):
    """Throttling before the memory limit, protection of the request."""

    enabled: bool = False
    fail: bool = False
    factor_ppm: int | None = 900_000  # None: no memory.high
    protection: bool = True
    guaranteed_ppm: int = 900_000  # memory.min is at most this part of the limit
    raise_ancestors: bool = False
    swap: str | None = None  # the content of memory.swap.max; None: not set
    oom_group: bool | None = None


def _swap_content(value: int | str | None, where: str) -> str | None:
    return None if value is None else str(value)


def decide_memory_qos(context: HandlerContext, settings: MemoryQoSSettings) -> None:
    """Send memory.high, memory.min or memory.low, memory.swap.max, memory.oom.group."""
    switch = context.annotation(SWITCH_KEY)
    if switch is not None:
        if switch.value == "off":
            context.decision.leave(NAME, f"switched off by annotation {switch.key}")
            return
        if switch.value != "on":
            context.refuse(
                NAME, f"{switch.key}: {switch.value!r:.60}, expected off or on"
            )
    if not context.updating:
        _decide_once(context, settings)
    if context.memory_requested:
        request = memory_request(context, NAME)
        factor, origin = _factor(context, settings)
        if factor is not None:
            _throttle(context, request, factor, origin)
        if settings.protection:
            _protect(context, settings)


def _decide_once(context: HandlerContext, settings: MemoryQoSSettings) -> None:
    """Send the files that depend on no number, so that no update changes them."""
    if settings.swap is not None:
        origin = context.settings.origin("memoryQoS.swap")
        context.send("memory.swap.max", settings.swap, Why(NAME, SWAP_RULE, origin))
    if settings.oom_group is not None:
        origin = context.settings.origin("memoryQoS.oomGroup")
        value = "1" if settings.oom_group else "0"
        context.send("memory.oom.group", value, Why(NAME, OOM_GROUP_RULE, origin))


def _factor(
    context: HandlerContext, settings: MemoryQoSSettings
) -> tuple[int | None, str]:
    """Return the factor in millionths, and its source."""
    given = context.annotation(FACTOR_KEY)
    if given is not None:
        if _FACTOR.fullmatch(given.value) and float(given.value) > 0:
            return round(float(given.value) * MILLION), f"annotation {given.key}"
        context.refuse(NAME, f"{given.key}: {given.value!r:.60}, expected 0.01 to 1")
    origin = context.settings.origin("memoryQoS.throttlingFactor")
    return settings.factor_ppm, origin


def _throttle(
    context: HandlerContext, request: Request | None, factor: int, origin: str
) -> None:
    reason = why_no_high(context)
    limit = limit_or_allocatable(context)
    if not reason and request is None:
        reason = "the memory request is not known"
    if not reason and limit is None:
        reason = "no limit, and what the node can give away is not known"
    if reason:
        context.decision.leave("memory.high", f"{NAME}: {reason}")
        return
    assert request is not None
    assert limit is not None
    # The upper end of an estimate: a container must not be throttled at or below its
    # request.
    most = request.most
    high = throttle_at(most, limit, factor, context.facts.page_bytes)
    if most >= limit or high <= most:
        reason = "no room between request and limit"
        if request.confidence == ESTIMATE:
            reason = f"by {request.source} it may have requested {most} of {limit}"
        context.decision.leave("memory.high", f"{NAME}: {reason}")
        return
    limited = isinstance(context.given.memory_limit_bytes, int)
    why = Why(
        NAME,
        HIGH_RULE if limited else HIGH_NODE_RULE,
        f"request {most} from {request.source}; "
        f"factor {factor / MILLION:g} from {origin}",
        request.confidence,
    )
    send_high(context, high, why)


def _protect(context: HandlerContext, settings: MemoryQoSSettings) -> None:
    file, rule = "memory.low", LOW_RULE
    if context.qos_class == QOSClass.GUARANTEED:
        file, rule = "memory.min", MIN_RULE
    elif context.qos_class == QOSClass.BEST_EFFORT:
        # An annotation may claim a request, but kubelet has reserved no memory for it.
        context.decision.leave(file, f"{NAME}: a BestEffort pod is not protected")
        return
    request = request_to_protect(context, NAME, file)
    if request is None:
        return
    amount, source = request.amount, f"request from {request.source}"
    if file == "memory.min":
        amount = _leaving_room(context, amount, settings.guaranteed_ppm)
        origin = context.settings.origin("memoryQoS.guaranteedProtection")
        share = settings.guaranteed_ppm / MILLION
        source = f"{source}; share {share:g} from {origin}"
        if amount <= 0:
            context.decision.leave(file, f"{NAME}: no room for it below the limit")
            return
    why = Why(NAME, rule, source, request.confidence)
    sent = context.send(file, amount, why)
    if sent and settings.raise_ancestors:
        context.write(
            file,
            amount,
            why._replace(rule=ANCESTORS_RULE),
            level=Level.ANCESTORS,
            when=When.BEFORE,
            part=True,
        )


def _leaving_room(context: HandlerContext, request: int, share_ppm: int) -> int:
    """Return how much of a request is protected, so that its pod can be reclaimed."""
    limit = context.given.memory_limit_bytes
    whole = limit if isinstance(limit, int) else request
    if share_ppm == MILLION:
        return request
    most = min(whole * share_ppm // MILLION, whole - MIN_ROOM_BYTES)
    return min(request, most // context.facts.page_bytes * context.facts.page_bytes)


MEMORY_QOS = Handler(
    NAME,
    MemoryQoSSettings,
    decide_memory_qos,
    options=(
        Option(
            "throttlingFactor",
            float,
            "factor_ppm",
            above=0,
            most=1,
            nullable=True,
            convert=in_millionths,
        ),
        Option("protection", bool),
        Option(
            "guaranteedProtection",
            float,
            "guaranteed_ppm",
            above=0,
            most=1,
            convert=in_millionths,
        ),
        Option("raiseAncestors", bool, "raise_ancestors"),
        Option(
            "swap",
            int,
            least=0,
            most=(1 << 63) - 1,
            words=("max",),
            unit="bytes",
            nullable=True,
            convert=_swap_content,
        ),
        Option("oomGroup", bool, "oom_group", nullable=True),
    ),
    annotations=(SWITCH_KEY, FACTOR_KEY, REQUEST_KEY),
)
