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


def request_range(score: int, capacity_bytes: int) -> tuple[int, int] | None:
    """Return the least and the most memory that a Burstable score stands for.

    None for the score of another class. A sidecar's tells only the most: kubelet gives
    it the score of the pod's smallest container, if that is lower than its own. So does
    one of a kubelet that breaks ties between small requests.
    """
    if not MIN_BURSTABLE <= score <= MAX_BURSTABLE:
        return None
    steps = STEPS - score
    # No request at all has the highest score, too.
    least = 0 if score == MAX_BURSTABLE else -(-steps * capacity_bytes // STEPS)
    most = -(-(steps + 1) * capacity_bytes // STEPS) - 1
    return least, capacity_bytes if score == MIN_BURSTABLE else most
