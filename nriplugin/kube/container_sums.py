"""What the containers of a pod ask for together. Pure.

Init containers run one at a time, each beside the sidecars before it; then the others
run, beside all sidecars. The sum is the most that is asked for at one time
(AggregateContainerRequests in k8s.io/component-helpers/resource). Sums are exact:
Kubernetes rounds the sum and not its parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.kube.podspec import Role
from nriplugin.kube.quantity import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from nriplugin.kube.amounts import Amounts
    from nriplugin.kube.podspec import ContainerSpec


def sum_containers(
    containers: Sequence[ContainerSpec], amounts_of: Callable[[ContainerSpec], Amounts]
) -> dict[str, Fraction]:
    """Return the sum of each resource that any container has an amount of."""
    sidecars: dict[str, Fraction] = {}
    apps: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in containers:
        for name, given in amounts_of(container).items():
            amount = parse(given)
            if container.role is Role.SIDECAR:
                sidecars[name] = sidecars.get(name, 0) + amount
            elif container.role is Role.APP:
                apps[name] = apps.get(name, 0) + amount
            else:
                amount += sidecars.get(name, 0)
                peak[name] = max(peak.get(name, amount), amount)
    zero = parse(0)
    return {
        name: max(sidecars.get(name, zero) + apps.get(name, zero), peak.get(name, zero))
        for name in {**sidecars, **apps, **peak}
    }
