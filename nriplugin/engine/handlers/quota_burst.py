"""The handler `quotaBurst`: a throttled container gets more CPU quota for a while.

It acts while the container runs, and has no value for a decision. Every few seconds
the policy looks whether the quota cut periods short. If so, the quota grows by a step,
up to `percent` of the container's own. It shrinks again once the container would fit
into less.

How long a container may use more than its own quota is limited by a token bucket, in
seconds at full burst: `periodSeconds` is its size. Use above the container's own quota
empties it, use below fills it. So over a long time a container gets no more CPU time
than its own quota allows, and one bucket more. When the bucket is empty, the quota goes
back, and a new burst begins when the bucket is half full.

The kernel refuses a quota below the cgroup's burst. This policy never goes below the
container's own quota, and a burst is never above that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.validate import MAX_QUOTA_US
from nriplugin.engine.decision import Level
from nriplugin.engine.explicit import quota_and_period
from nriplugin.engine.handler import Handler, Option
from nriplugin.engine.policies import (
    Measure,
    PolicyAction,
    PolicyAnswer,
    RunTimePolicy,
)
from nriplugin.engine.policy_annotation import (
    changed_by_annotation,
    report_annotation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.policies import ContainerSample, NodeSample
    from nriplugin.kube.annotations import Annotations

NAME = "quotaBurst"
FILE = "cpu.max"
KEY = "quota-burst"

MOST_PERCENT = 1000
# The steps by which a quota grows and shrinks, in percent of what it is.
GROW_PERCENT = 120
SHRINK_PERCENT = 80
# A quota shrinks only if the container's use leaves so much room below the lower one:
# else it would be throttled again at once.
ROOM_PERCENT = 90
# From this part of `nodeCpuPercent` on, no quota grows any more.
CAREFUL_PERCENT = 90


class QuotaBurstSettings(NamedTuple):
    """More CPU quota for a while, for containers that are throttled."""

    enabled: bool = False
    fail: bool = False
    percent: int = 200  # of the container's own quota, at most
    # How long a container may use all of that, if it has saved for it; None: for ever.
    period_seconds: int | None = 300
    # At this use of the node's CPUs every quota goes back; None: at none.
    node_cpu_percent: int | None = 80


class QuotaBurstState(NamedTuple):
    """What the policy remembers about a container."""

    own: str  # the cpu.max that it has without the policy
    quota_us: int
    tokens_s: float  # seconds at full burst that are left; may be slightly below 0
    resting: bool = False  # the bucket has been empty, and is not half full yet
    reason: str = ""  # of the last change


def decide_quota_burst(context: HandlerContext, settings: QuotaBurstSettings) -> None:
    """Report a mistake in the annotation; no value is set before the container runs."""
    what = f"{FILE} at run time"
    report_annotation(context, settings, settings_of, NAME, KEY, what)


def settings_of(
    settings: QuotaBurstSettings,
    annotations: Annotations,
    refuse: Callable[[str], None],
) -> QuotaBurstSettings | None:
    """Return a container's settings: the annotation replaces `percent`, or is `off`."""
    expected = f"101% to {MOST_PERCENT}% or off"
    return changed_by_annotation(settings, annotations, KEY, _read, expected, refuse)


def _read(settings: QuotaBurstSettings, value: str) -> QuotaBurstSettings | None:
    number = value.removesuffix("%")
    if value == number or not number.isdecimal() or len(number) > 4:
        return None
    percent = int(number)
    return settings._replace(percent=percent) if 100 < percent <= MOST_PERCENT else None


def quota_to_hold(
    settings: QuotaBurstSettings,
    state: QuotaBurstState | None,
    previous: ContainerSample | None,
    sample: ContainerSample,
    node: NodeSample,
) -> PolicyAnswer:
    """Return the quota that a container and its pod are to have now."""
    own = _own_quota(sample.original)
    if own is None:
        return PolicyAnswer(None)
    text, own_us, period_us = own
    most_us = min(own_us * settings.percent // 100, MAX_QUOTA_US)
    size_s = settings.period_seconds
    if state is None or state.own != text:
        state = QuotaBurstState(text, own_us, float(size_s or 0))
    # The settings may have changed since.
    state = state._replace(quota_us=min(state.quota_us, most_us))
    measured = _measured(previous, sample, period_us)
    if measured is not None and most_us > own_us:
        state = _saved(state, settings, measured, (own_us, most_us))
        state = _next(state, settings, measured, node, (own_us, most_us))
    growth_us = state.quota_us - own_us
    actions: tuple[PolicyAction, ...] = ()
    if growth_us > 0:
        actions = (
            PolicyAction(FILE, f"{growth_us} {period_us}", Level.POD),
            PolicyAction(FILE, f"{state.quota_us} {period_us}", Level.CONTAINER),
        )
    return PolicyAnswer(state, actions, state.reason)


class _Measured(NamedTuple):
    """What happened between two samples."""

    seconds: float
    used_us: float  # CPU time per period
    periods: int
    throttled: int  # periods that were cut short


def _measured(
    previous: ContainerSample | None, sample: ContainerSample, period_us: int
) -> _Measured | None:
    """Return what happened since the previous sample; None if that is not known."""
    if previous is None:
        return None
    seconds = sample.at_s - previous.at_s
    now = (sample.cpu_usage_ns, sample.periods, sample.throttled)
    before = (previous.cpu_usage_ns, previous.periods, previous.throttled)
    grown = [
        one - other
        for one, other in zip(now, before, strict=True)
        if one is not None and other is not None
    ]
    # A counter that went back is another cgroup's.
    if seconds <= 0 or len(grown) < len(now) or min(grown) < 0:
        return None
    used_ns, periods, throttled = grown
    return _Measured(seconds, used_ns / 1e9 / seconds * period_us, periods, throttled)


def _saved(
    state: QuotaBurstState,
    settings: QuotaBurstSettings,
    measured: _Measured,
    bounds: tuple[int, int],
) -> QuotaBurstState:
    """Return the state with the bucket filled or emptied by the container's use."""
    size_s = settings.period_seconds
    if size_s is None:
        return state._replace(resting=False)
    own_us, most_us = bounds
    # No quota of this policy allows more, whatever was counted meanwhile.
    used_us = min(measured.used_us, most_us)
    share = (own_us - used_us) / (most_us - own_us)
    tokens_s = min(state.tokens_s + share * measured.seconds, float(size_s))
    resting = tokens_s <= 0 or (state.resting and tokens_s < size_s / 2)
    return state._replace(tokens_s=tokens_s, resting=resting)


def _next(
    state: QuotaBurstState,
    settings: QuotaBurstSettings,
    measured: _Measured,
    node: NodeSample,
    bounds: tuple[int, int],
) -> QuotaBurstState:
    """Return the state with the next quota, and why it changed."""
    own_us, most_us = bounds
    busy, brake = (node.cpu_share or 0.0) * 100, settings.node_cpu_percent
    quota_us, reason = state.quota_us, state.reason
    if state.resting:
        quota_us, reason = own_us, "it has used up its burst"
    elif brake is not None and busy >= brake:
        quota_us, reason = own_us, f"{busy:.0f} % of the node's CPUs are in use"
    elif measured.throttled:
        if brake is None or busy < brake * CAREFUL_PERCENT / 100:
            grown = max(quota_us + 1, quota_us * GROW_PERCENT // 100)
            quota_us = min(grown, most_us)
            reason = f"throttled in {measured.throttled} of {measured.periods} periods"
    else:
        lower = max(own_us, quota_us * SHRINK_PERCENT // 100)
        if measured.used_us <= lower * ROOM_PERCENT / 100:
            quota_us, reason = lower, "not throttled any more"
    if quota_us == state.quota_us:
        return state
    return state._replace(quota_us=quota_us, reason=reason)


def _own_quota(original: Mapping[str, str]) -> tuple[str, int, int] | None:
    """Return a container's own cpu.max, its quota and its period; None without one."""
    text = original.get(FILE, "")
    found = quota_and_period(text)
    return None if found is None else (text, *found)


QUOTA_BURST = Handler(
    NAME,
    QuotaBurstSettings,
    decide_quota_burst,
    options=(
        Option("percent", int, least=101, most=MOST_PERCENT),
        Option("periodSeconds", int, "period_seconds", least=1, nullable=True),
        Option(
            *("nodeCpuPercent", int, "node_cpu_percent"),
            least=1,
            most=100,
            nullable=True,
        ),
    ),
    annotations=(KEY,),
    at_run_time=RunTimePolicy(
        needs=frozenset({Measure.CPU, Measure.QUOTA, Measure.NODE_CPU}),
        settings_of=settings_of,
        decide=quota_to_hold,
    ),
)
