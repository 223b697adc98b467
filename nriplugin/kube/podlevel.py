"""Pod-level resources (KEP-2837): requests that the API server fills in. Pure.

They are in the pod's own `spec.resources`, beside those of its containers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.kube.amounts import default_requests
from nriplugin.kube.podspec import Role
from nriplugin.kube.quantity import milli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nriplugin.kube.amounts import Amounts, Requirements
    from nriplugin.kube.podspec import ContainerSpec


def default_pod_requests(
    given: Requirements, containers: Sequence[ContainerSpec]
) -> Amounts:
    """Return the pod's requests; if the pod has limits, absent requests are filled in.

    An absent request is what the containers request together, or the pod's limit if no
    container requests any.
    """
    if not given.limits:
        return given.requests
    together = {
        name: f"{total}m"
        for name in ("cpu", "memory")
        if (total := _requested_together(name, containers)) is not None
    }
    return {**given.limits, **together, **given.requests}


def _requested_together(name: str, containers: Sequence[ContainerSpec]) -> int | None:
    """Return the most that is requested at one time, in thousandths; None if nothing.

    Init containers run one at a time, each beside the sidecars before it; then the
    others run, beside all sidecars.
    """
    sidecars = apps = peak = 0
    found = False
    for container in containers:
        requests = default_requests(container.requests, container.limits)
        if name not in requests:
            continue
        found = True
        amount = milli(requests[name])
        if container.role is Role.INIT:
            peak = max(peak, sidecars + amount)
        elif container.role is Role.SIDECAR:
            sidecars += amount
        else:
            apps += amount
    return max(peak, sidecars + apps) if found else None
