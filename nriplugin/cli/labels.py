"""How a cgroup is called in a table: `pod UID`, `container ID`, or its own name.

Also the line about tasks that no table can show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.cgroup.locate.identify import identify

if TYPE_CHECKING:
    from nriplugin.cli.container_names import CgroupNames

# How much of a container's ID is shown; crictl shows as much.
SHORT_ID = 13


def cgroup_label(cgroup: str, names: CgroupNames | None = None) -> str:
    """Return what people call a cgroup; its path if it is neither pod nor container.

    Pods and containers whose names are known are called by these. A cgroup that a
    container made inside of its own is called by its last name.
    """
    identity = identify(cgroup)
    if identity is None or identity.inner:
        return cgroup.rpartition("/")[2] or "/"
    if identity.container_id is not None:
        role = "conmon of" if identity.conmon else "container"
        known = names.container(identity.container_id) if names else None
        return f"{role} {known or identity.container_id[:SHORT_ID]}"
    if identity.pod_uid is not None:
        pod = names.pod(identity.pod_uid) if names else None
        return f"pod {'/'.join(pod) if pod else identity.pod_uid}"
    return identity.qos_class or cgroup


def unseen_tasks(count: int) -> str:
    """Return the line about tasks whose states cannot be read."""
    return (
        f"{count} tasks are not visible from this PID namespace and "
        "not in the table: run in the node's own (hostPID: true)"
    )
