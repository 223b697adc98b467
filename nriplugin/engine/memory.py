"""What memory handlers share: the request, from whoever knows it, and the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.model import UNLIMITED
from nriplugin.engine.decision import ESTIMATE, EXACT, STATED
from nriplugin.engine.settings import MILLION
from nriplugin.errors import ConfigError
from nriplugin.kube.oomscore import request_range
from nriplugin.kube.qos import QOSClass
from nriplugin.kube.quantity import MAX_INT64, value

if TYPE_CHECKING:
    from nriplugin.convert.model import Amount
    from nriplugin.engine.context import Case
    from nriplugin.engine.decision import Why

REQUEST_KEY = "memory-request"

# Before it, a container at its memory.high could be throttled for ever.
SAFE_HIGH = (5, 9)


class Request(NamedTuple):
    """How much memory was requested, who says so, and how sure that is."""

    amount: int  # of an estimate, the least
    source: str
    confidence: str
    most: int  # the same as the amount, unless that is an estimate


def memory_request(case: Case, handler: str) -> Request | None:
    """Return the request: an annotation's, the door's, the class's, or an estimate."""
    if not case.request_sought:
        case.request_sought = True
        case.request = _find_request(case, handler)
    return case.request


def _find_request(case: Case, handler: str) -> Request | None:
    stated = case.annotation(REQUEST_KEY)
    if stated is not None:
        most = limit_or_allocatable(case)
        amount = _amount(stated.value)
        if amount is not None and amount <= (MAX_INT64 if most is None else most):
            return Request(amount, f"annotation {stated.key}", STATED, amount)
        at_most = "" if most is None else f", at most {most}"
        case.refuse(
            handler,
            f"{stated.key}: {stated.value!r:.60}, expected bytes or 512Mi{at_most}",
        )
    container = case.container
    amount = container.memory_request_bytes
    if amount is not None:
        return Request(amount, "the pod's resources", EXACT, amount)
    limit = case.given.memory_limit_bytes
    if case.qos_class == QOSClass.GUARANTEED:
        if isinstance(limit, int):
            return Request(limit, "the limit, as the pod is Guaranteed", EXACT, limit)
        return None
    if case.qos_class == QOSClass.BEST_EFFORT:
        return Request(0, "none, as the pod is BestEffort", EXACT, 0)
    return _estimate(case, limit)


def _estimate(case: Case, limit: Amount | None) -> Request | None:
    capacity, score = case.facts.memory_capacity_bytes, case.container.oom_score_adj
    found = request_range(score, capacity) if score is not None and capacity else None
    if found is None:
        return None
    least, most = found
    if isinstance(limit, int):
        least = min(least, limit)
    return Request(least, f"oom_score_adj {score}", ESTIMATE, most)


def request_to_protect(case: Case, handler: str, file: str) -> Request | None:
    """Return the request; where it must not be protected, say why and return None.

    Nothing tells a sidecar from other containers, and its score may be a sibling's: so
    an estimate counts only for a container with a limit, which is then the most.
    """
    request = memory_request(case, handler)
    limited = isinstance(case.given.memory_limit_bytes, int)
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
    case.out.leave(file, f"{handler}: {reason}")
    return None


def limit_or_allocatable(case: Case) -> int | None:
    """Return the memory limit; without one, what pods may use of the node."""
    limit = case.given.memory_limit_bytes
    if limit is None or limit is UNLIMITED:
        return case.facts.memory_allocatable_bytes
    return limit


def throttle_at(request: int, limit: int, factor_ppm: int, page_bytes: int) -> int:
    """Return memory.high: between request and limit, in whole pages."""
    high = (request * MILLION + factor_ppm * (limit - request)) // MILLION
    return high // page_bytes * page_bytes


def send_high(case: Case, value: str, why: Why) -> None:
    """Send memory.high; say so if more than that is in use."""
    if case.send("memory.high", value, why):
        used = case.use.memory_bytes if case.use else None
        if used is not None and value != "max" and used > int(value):
            case.out.warnings.append(
                f"memory.high {value}: {used} bytes are in use, which will be reclaimed"
            )


def why_no_high(case: Case) -> str:
    """Return why memory.high must not be set on this node; nothing if it may."""
    kernel = case.facts.kernel
    if kernel is None:
        return "the kernel's release is not known, expected at least 5.9"
    if kernel < SAFE_HIGH:
        return f"kernel {kernel[0]}.{kernel[1]} can hang at it, expected at least 5.9"
    return ""


def _amount(text: str) -> int | None:
    try:
        return value(text)
    except ConfigError:
        return None
