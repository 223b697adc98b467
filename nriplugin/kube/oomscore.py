"""The kubelet's oom_score_adj, and which memory request it stands for. Pure.

NRI messages have no requests. But for a container of a Burstable pod the kubelet sets
the score to 1000 - 1000 * request / capacity, rounded, within 3 to 999
(pkg/kubelet/qos/policy.go), so the score tells the request up to 1/1000 of the node's
memory.
"""

from __future__ import annotations

from nriplugin.kube.qos import QOSClass

GUARANTEED, BEST_EFFORT = -997, 1000
MIN_BURSTABLE, MAX_BURSTABLE = 3, 999
STEPS = 1000


def oom_score_adj(qos: QOSClass, request_bytes: int, capacity_bytes: int) -> int:
    """Return the kubelet's score for a container of a pod that is not critical."""
    if qos is QOSClass.GUARANTEED:
        return GUARANTEED
    if qos is QOSClass.BEST_EFFORT:
        return BEST_EFFORT
    score = STEPS - STEPS * request_bytes // capacity_bytes
    return min(max(score, MIN_BURSTABLE), MAX_BURSTABLE)


def request_range(score: int, capacity_bytes: int) -> tuple[int, int] | None:
    """Return the least and the most memory that a Burstable score stands for.

    None for the score of another class. The score of a sidecar tells only the most:
    the kubelet gives it the score of the pod's smallest container if that is lower than
    its own. The same holds for kubelets that break ties between small requests.
    """
    if not MIN_BURSTABLE <= score <= MAX_BURSTABLE:
        return None
    steps = STEPS - score
    # A container without a request has the highest score as well.
    least = 0 if score == MAX_BURSTABLE else -(-steps * capacity_bytes // STEPS)
    most = -(-(steps + 1) * capacity_bytes // STEPS) - 1
    return least, capacity_bytes if score == MIN_BURSTABLE else most
