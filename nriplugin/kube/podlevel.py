"""Pod-level resources (KEP-2837): requests that the API server fills in. Pure.

They are in the pod's own `spec.resources`, beside those of its containers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.kube.amounts import default_requests
from nriplugin.kube.container_sums import sum_containers

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
    together = sum_containers(
        containers, lambda one: default_requests(one.requests, one.limits)
    )
    filled: Amounts = {
        name: f"{together[name]}m" for name in ("cpu", "memory") if name in together
    }
    return {**given.limits, **filled, **given.requests}
