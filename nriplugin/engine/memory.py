"""What the handlers of memory share: request, limit, and rules about memory.high.

The memory request is not part of an NRI message, so it is found from other sources, and
each result says how certain it is. A handler that protects memory must not protect more
than was requested, and a handler that throttles must not throttle below it: an estimate
is a range, and each takes the end that is safe for it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.model import UNLIMITED
from nriplugin.engine.decision import ESTIMATE, EXACT, STATED
from nriplugin.errors import ConfigError
from nriplugin.kube.oomscore import request_range
from nriplugin.kube.qos import QOSClass
from nriplugin.kube.quantity import MAX_INT64, byte_count

if TYPE_CHECKING:
    from nriplugin.convert.model import Amount
    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.decision import Why

MILLION = 1_000_000

REQUEST_KEY = "memory-request"
CHECKPOINT = "kubelet's checkpoint"

# Before this kernel, a container at its memory.high could be throttled for ever.
SAFE_HIGH = (5, 9)


class Request(NamedTuple):
    """How much memory was requested, the source of the number, and its certainty."""

    amount: int  # the least that an estimate allows
    source: str
    confidence: str
    most: int  # the most that an estimate allows, else the amount


def memory_request(context: HandlerContext, handler: str) -> Request | None:
    """Return the request: an annotation's, the door's, kubelet's, or an estimate.

    It is looked for once per decision, so that a bad annotation is refused once.
    """
    if context.memory_request is None:
        context.memory_request = (_find_request(context, handler),)
    return context.memory_request[0]


def in_millionths(value: float | None, where: str) -> int | None:
    """Return a factor of the configuration file as an integer; None stays None."""
    return None if value is None else round(value * MILLION)


def _find_request(context: HandlerContext, handler: str) -> Request | None:
    stated = context.annotation(REQUEST_KEY)
    if stated is not None:
        most = limit_or_allocatable(context)
        amount = _amount(stated.value)
        if amount is not None and amount <= (MAX_INT64 if most is None else most):
            return Request(amount, f"annotation {stated.key}", STATED, amount)
        at_most = "" if most is None else f", at most {most}"
        context.refuse(
            handler,
            f"{stated.key}: {stated.value!r:.60}, expected bytes or 512Mi{at_most}",
        )
    container = context.container
    amount = container.memory_request_bytes
    if amount is not None:
        return Request(amount, "the pod's resources", EXACT, amount)
    limit = context.given.memory_limit_bytes
    amount = container.allocated_request_bytes
    if amount is not None:
        # kubelet stores both numbers of a resize first, and sends the limit later.
        amount = min(amount, limit) if isinstance(limit, int) else amount
        return Request(amount, CHECKPOINT, EXACT, amount)
    if context.qos_class == QOSClass.GUARANTEED:
        if isinstance(limit, int):
            return Request(limit, "the limit, as the pod is Guaranteed", EXACT, limit)
        return None
    if context.qos_class == QOSClass.BEST_EFFORT:
        return Request(0, "none, as the pod is BestEffort", EXACT, 0)
    return _estimate(context, limit)


def _estimate(context: HandlerContext, limit: Amount | None) -> Request | None:
    capacity, score = (
        context.facts.memory_capacity_bytes,
        context.container.oom_score_adj,
    )
    found = request_range(score, capacity) if score is not None and capacity else None
    if found is None:
        return None
    least, most = found
    if isinstance(limit, int):
        least = min(least, limit)
    return Request(least, f"oom_score_adj {score}", ESTIMATE, most)


def request_to_protect(
    context: HandlerContext, handler: str, file: str
) -> Request | None:
    """Return the request if it may be protected; else note why not and return None.

    An estimate counts only for a container with a memory limit, which is then the most
    that is protected: a sidecar's OOM score may be that of another container in its
    pod, and NRI does not tell a sidecar from other containers.
    """
    request = memory_request(context, handler)
    limited = isinstance(context.given.memory_limit_bytes, int)
    if request is None:
        reason = "the memory request is not known"
    elif request.amount == 0:
        reason = "no memory request to protect"
    elif request.confidence != ESTIMATE or limited:
        return request
    else:
        reason = (
            f"{request.source} of a container without a memory limit may be that of "
            f"another one in its pod, expected annotation {REQUEST_KEY}"
        )
    context.decision.leave(file, f"{handler}: {reason}")
    return None


def limit_or_allocatable(context: HandlerContext) -> int | None:
    """Return the memory limit; without one, the node's allocatable memory."""
    limit = context.given.memory_limit_bytes
    if limit is None or limit is UNLIMITED:
        return context.facts.memory_allocatable_bytes
    return limit


def throttle_at(request: int, limit: int, factor_ppm: int, page_bytes: int) -> int:
    """Return memory.high: between request and limit, in whole pages."""
    high = (request * MILLION + factor_ppm * (limit - request)) // MILLION
    return high // page_bytes * page_bytes


def send_high(context: HandlerContext, value: str | int, why: Why) -> None:
    """Send memory.high; warn if the container uses more than that."""
    if context.send("memory.high", value, why):
        used = context.use.memory_bytes if context.use else None
        if used is not None and value != "max" and used > int(value):
            context.decision.warnings.append(
                f"memory.high {value}: {used} bytes are in use, which will be reclaimed"
            )


def why_no_high(context: HandlerContext) -> str:
    """Return why memory.high must not be set on this node; empty if it may be."""
    kernel = context.facts.kernel
    if kernel is None:
        return "the kernel's release is not known, expected at least 5.9"
    if kernel < SAFE_HIGH:
        return f"kernel {kernel[0]}.{kernel[1]} can hang at it, expected at least 5.9"
    return ""


@lru_cache(maxsize=256)  # a node's pods share a few annotations, each of 256 characters
def _amount(text: str) -> int | None:
    try:
        return byte_count(text)
    except ConfigError:
        return None
