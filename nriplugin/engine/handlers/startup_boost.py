"""The handler `startupBoost`: more CPU quota from a container's start for a while.

It acts while the container runs, and has no value for a decision: the runtime, and so
kubelet, know only the container's own quota. Directly after the start the quotas of the
pod and of the container grow, and at the deadline they go back. A container without a
quota has all the CPU time it can get, and is left alone.

Only a start that this process has seen begins a boost, and a resize ends it: the user
has just said how much the container is to have.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.validate import MAX_QUOTA_US
from nriplugin.engine.decision import Level
from nriplugin.engine.explicit import quota_and_period
from nriplugin.engine.handler import Handler, Option
from nriplugin.engine.policies import Measure, PolicyAction, PolicyAnswer, RunTimePolicy
from nriplugin.engine.policy_annotation import (
    changed_by_annotation,
    report_annotation,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.policies import ContainerSample, NodeSample
    from nriplugin.kube.annotations import Annotations

NAME = "startupBoost"
FILE = "cpu.max"
KEY = "startup-boost"

ALL_CPUS = "max"
MOST_PERCENT = 10_000
MOST_SECONDS = 3600

# The words of the annotation, in any order and each at most once.
_PERCENT = re.compile(r"([0-9]{1,5})%")
_SECONDS = re.compile(r"([0-9]{1,4})s")


class StartupBoostSettings(NamedTuple):
    """More CPU quota from a container's start for a while."""

    enabled: bool = False
    fail: bool = False
    # Of the container's own quota; `max`: as much as all CPUs of the node give.
    percent: int | str = 300
    seconds: int = 60


def decide_startup_boost(
    context: HandlerContext, settings: StartupBoostSettings
) -> None:
    """Report a mistake in the annotation; no value is set before the container runs."""
    what = f"{FILE} at run time"
    report_annotation(context, settings, settings_of, NAME, KEY, what)


def settings_of(
    settings: StartupBoostSettings,
    annotations: Annotations,
    refuse: Callable[[str], None],
) -> StartupBoostSettings | None:
    """Return a container's settings: the annotation has a percentage, a time, or both.

    With `off` there is no boost.
    """
    expected = (
        f"101% to {MOST_PERCENT}% or {ALL_CPUS}, 1s to {MOST_SECONDS}s, both, or off"
    )
    return changed_by_annotation(settings, annotations, KEY, _read, expected, refuse)


def _read(settings: StartupBoostSettings, value: str) -> StartupBoostSettings | None:
    percents: list[int | str] = []
    times: list[int] = []
    words = value.split()
    for word in words:
        percent, seconds = _PERCENT.fullmatch(word), _SECONDS.fullmatch(word)
        if word == ALL_CPUS:
            percents.append(word)
        elif percent and 100 < int(percent[1]) <= MOST_PERCENT:
            percents.append(int(percent[1]))
        elif seconds and 0 < int(seconds[1]) <= MOST_SECONDS:
            times.append(int(seconds[1]))
    known = len(percents) + len(times) == len(words)
    if not words or not known or len(percents) > 1 or len(times) > 1:
        return None
    return settings._replace(
        percent=percents[0] if percents else settings.percent,
        seconds=times[0] if times else settings.seconds,
    )


def quota_to_hold(
    settings: StartupBoostSettings,
    state: None,
    previous: ContainerSample | None,
    sample: ContainerSample,
    node: NodeSample,
) -> PolicyAnswer:
    """Return the quota that a container and its pod are to have now."""
    own = quota_and_period(sample.original.get(FILE))
    if own is None or sample.age_s is None or sample.age_s >= settings.seconds:
        return PolicyAnswer(None)
    own_us, period_us = own
    if isinstance(settings.percent, int):
        boosted_us = own_us * settings.percent // 100
    else:
        boosted_us = (node.cpus or 0) * period_us
    growth_us = min(boosted_us, MAX_QUOTA_US) - own_us
    if growth_us <= 0:
        return PolicyAnswer(None)
    actions = (
        PolicyAction(FILE, f"{growth_us} {period_us}", Level.POD),
        PolicyAction(FILE, f"{own_us + growth_us} {period_us}", Level.CONTAINER),
    )
    return PolicyAnswer(None, actions, f"it has started within {settings.seconds} s")


STARTUP_BOOST = Handler(
    NAME,
    StartupBoostSettings,
    decide_startup_boost,
    options=(
        Option(
            "percent",
            int,
            least=101,
            most=MOST_PERCENT,
            words=(ALL_CPUS,),
            unit="a percentage",
        ),
        Option("seconds", int, least=1, most=MOST_SECONDS),
    ),
    annotations=(KEY,),
    at_run_time=RunTimePolicy(
        needs=frozenset({Measure.AGE, Measure.QUOTA}),
        settings_of=settings_of,
        decide=quota_to_hold,
    ),
)
