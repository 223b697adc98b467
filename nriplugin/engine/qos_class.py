"""The QoS class of a container's pod, from whatever a door knows about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.kube.oomscore import BEST_EFFORT, MAX_BURSTABLE, MIN_BURSTABLE
from nriplugin.kube.qos import QOSClass, qos_of_cgroup

if TYPE_CHECKING:
    from nriplugin.engine.model import Container, Pod


def qos_class_of(pod: Pod, container: Container) -> str | None:
    """Return the class that the door knows, else the cgroup's, else the OOM score's."""
    if pod.qos_class:
        return pod.qos_class
    by_cgroup = qos_of_cgroup(pod.cgroup_parent) if pod.cgroup_parent else None
    if by_cgroup is not None:
        return by_cgroup
    score = container.oom_score_adj
    if score is None:
        return None
    if score == BEST_EFFORT:
        return QOSClass.BEST_EFFORT
    # -997 proves nothing: critical pods of every class have it, and not only the
    # Guaranteed ones.
    return QOSClass.BURSTABLE if MIN_BURSTABLE <= score <= MAX_BURSTABLE else None
