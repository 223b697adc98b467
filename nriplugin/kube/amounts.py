"""The `resources` of a container or a pod: requests and limits, checked.

Amounts are kept as the manifest spells them; `quantity` turns them into numbers. A pod
that the API server would refuse is refused here, so that `explain` never shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from nriplugin.errors import ConfigError
from nriplugin.kube.quantity import MAX_INT64, Quantity, parse

Amounts: TypeAlias = Mapping[str, Quantity]


class Requirements(NamedTuple):
    """Requests and limits; every amount is a valid quantity."""

    requests: Amounts
    limits: Amounts


def read_requirements(resources: object, where: str) -> Requirements:
    """Read a `resources` mapping; null or absent is an empty one.

    Raises:
        ConfigError: an amount is not a quantity or too large, or a request is above its
            limit.
    """
    if resources is None:
        resources = {}
    if not isinstance(resources, Mapping):
        raise ConfigError(f"{where}: {resources!r:.60}, expected requests and limits")
    requests = read_amounts(resources.get("requests"), f"{where}.requests")
    limits = read_amounts(resources.get("limits"), f"{where}.limits")
    for name, limit in limits.items():
        request = requests.get(name)
        # The API server refuses such a pod.
        if request is not None and parse(request) > parse(limit):
            raise ConfigError(
                f"{where}.requests.{name}: {request!r}, "
                f"expected at most the limit, {limit!r}"
            )
    return Requirements(requests, limits)


def default_requests(requests: Amounts, limits: Amounts) -> dict[str, Quantity]:
    """Return requests; a request that is absent is taken from its limit.

    The API server does this when a pod is created, but not in the template of a
    workload.
    """
    absent = {name: limits[name] for name in limits if name not in requests}
    return {**requests, **absent}


def read_amounts(given: object, where: str) -> dict[str, Quantity]:
    """Read names and quantities; null or absent is no amount.

    Raises:
        ConfigError: an amount is not a quantity or too large.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {given!r:.60}, expected names and quantities")
    for name, amount in given.items():
        # Kubernetes keeps CPU in thousandths and all amounts in 64 bits.
        unit = 1000 if name == "cpu" else 1
        if parse(amount, f"{where}.{name}") * unit > MAX_INT64:
            raise ConfigError(
                f"{where}.{name}: {amount!r}, expected at most {MAX_INT64 // unit}"
            )
    return {str(name): amount for name, amount in given.items()}
