"""What the containers of a pod ask for together. Pure.

Init containers run one at a time, each beside the sidecars before it; then the others
run, beside all sidecars. The sum is the most that is asked for at one time
(AggregateContainerRequests in k8s.io/component-helpers/resource). Sums are in
thousandths, to which the API server rounds each amount up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.kube.podspec import Role
from nriplugin.kube.quantity import milli

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nriplugin.kube.amounts import Amounts
    from nriplugin.kube.podspec import ContainerSpec


def sum_containers(
    containers: Sequence[ContainerSpec], amounts_of: Callable[[ContainerSpec], Amounts]
) -> dict[str, int]:
    """Return the sum of each resource that any container has an amount of."""
    sidecars: dict[str, int] = {}
    apps: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in containers:
        for name, given in amounts_of(container).items():
            amount = milli(given)
            if container.role is Role.SIDECAR:
                sidecars[name] = sidecars.get(name, 0) + amount
            elif container.role is Role.APP:
                apps[name] = apps.get(name, 0) + amount
            else:
                amount += sidecars.get(name, 0)
                peak[name] = max(peak.get(name, amount), amount)
    return {
        name: max(sidecars.get(name, 0) + apps.get(name, 0), peak.get(name, 0))
        for name in {**sidecars, **apps, **peak}
    }
