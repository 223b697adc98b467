"""QoS classes, and the class of a pod by the name of its cgroup. Pure."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache

from nriplugin.cgroup_names import parse_kubepods


class QOSClass(StrEnum):
    """A pod's class: it decides in which cgroup it is and how late it is evicted."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


_BY_NAME = {str(qos): qos for qos in QOSClass}


# Cached, because the containers of one pod come one after the other.
@lru_cache(maxsize=256)
def qos_of_cgroup(cgroup_parent: str) -> QOSClass | None:
    """Return the class of a pod by its cgroup, a path or the name of a slice.

    None if the cgroup is not that of a pod: one of a QoS class, or of a container.
    """
    parts = parse_kubepods(cgroup_parent)
    if parts is None or parts.pod_uid is None or parts.below:
        return None
    return None if parts.qos_class is None else _BY_NAME[parts.qos_class]
