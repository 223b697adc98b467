"""The kubelet's oom_score_adj, and what it gives away about a memory request.

NRI carries no requests. For a Burstable pod's container the kubelet sets
1000 - 1000 * request / capacity, rounded, within 3 to 999 (pkg/kubelet/qos/policy.go).
"""

from __future__ import annotations

from nriplugin.kube.qos import QOSClass

GUARANTEED, BEST_EFFORT = -997, 1000
MIN_BURSTABLE, MAX_BURSTABLE = 3, 999
STEPS = 1000


def oom_score_adj(qos: QOSClass, request_bytes: int, capacity_bytes: int) -> int:
    """Return what the kubelet sets for a container of a pod that is not critical."""
    if qos is QOSClass.GUARANTEED:
        return GUARANTEED
    if qos is QOSClass.BEST_EFFORT:
        return BEST_EFFORT
    score = STEPS - STEPS * request_bytes // capacity_bytes
    return min(max(score, MIN_BURSTABLE), MAX_BURSTABLE)


def request_of(score: int, capacity_bytes: int) -> int | None:
    """Return the least request behind a Burstable score; None for any other.

    The true one is at most a thousandth of the capacity more (at 999, two thousandths,
    because no request at all has that score too, so it counts as none).
    """
    if not MIN_BURSTABLE <= score <= MAX_BURSTABLE:
        return None
    if score == MAX_BURSTABLE:
        return 0
    # The least request whose steps, rounded down, are this many.
    return -(-(STEPS - score) * capacity_bytes // STEPS)
