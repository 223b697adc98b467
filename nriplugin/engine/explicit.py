"""Which cgroup v2 values of a container were set explicitly, and not by nriplugin.

An explicit value wins over every handler. It comes from a user (`unified` in the
container's specification) or from another plugin. Two things make it hard to see:
kubelet sends "not set" as a value where its own memory QoS is off, and runtimes before
NRI 0.10 do not show `unified` to plugins, so that a record made at creation has to say
what they hide.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from nriplugin.convert.validate import DEFAULT_PERIOD_US, check, quota_in
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Resources
    from nriplugin.convert.model import Amount
    from nriplugin.engine.model import Container


# What the kernel has in these files unless they are written. kubelet sends these values
# where its own memory QoS is off, so they do not count as explicit.
UNSET = {"memory.high": "max", "memory.low": "0", "memory.min": "0"}


def explicit_values(unified: Mapping[str, str]) -> Mapping[str, str]:
    """Return `unified` without the values that mean "not set".

    Without any of those it is the same object, which callers may compare by `is`.
    """
    if not unified or all(unified.get(file) != value for file, value in UNSET.items()):
        return unified
    return {file: v for file, v in unified.items() if UNSET.get(file) != v}


def recorded_values_of_others(container: Container) -> dict[str, str]:
    """Return the files that others set when the container was made, by the record.

    A value is empty where the record does not know it.
    """
    ours = container.ours or {}
    return {file: value for file, value in container.others.items() if file not in ours}


def without_own_values(given: Resources, container: Container) -> Resources:
    """Return resources whose `unified` lacks the files that nriplugin set."""
    ours = container.ours or ()
    unified = {k: v for k, v in given.unified.items() if k not in ours}
    return given._replace(unified=unified)


def quota_of(cpu_max: str | None) -> int | None:
    """Return the quota in a line of cpu.max that any author may have written.

    None if there is no line, if it is not valid, or if it has no limit.
    """
    if not cpu_max:
        return None
    try:
        quota = _checked_quota(cpu_max)
    except ConversionError:
        return None
    return quota if isinstance(quota, int) else None


def quota_and_period(cpu_max: str | None) -> tuple[int, int] | None:
    """Return the quota and the period in a line of cpu.max; None as for `quota_of`."""
    quota_us = quota_of(cpu_max)
    if cpu_max is None or quota_us is None:
        return None
    _, _, period = cpu_max.strip().partition(" ")
    return quota_us, int(period) if period.isdecimal() else DEFAULT_PERIOD_US


@lru_cache(
    maxsize=256
)  # an invalid line, which may be of any length, is not remembered
def _checked_quota(cpu_max: str) -> Amount | None:
    check("cpu.max", cpu_max)
    return quota_in(cpu_max)
