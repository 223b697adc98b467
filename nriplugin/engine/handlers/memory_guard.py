"""The handler `memoryGuard`: a container that stalls at its memory.high gets more.

It acts while the container runs, and has no value for a decision. The kernel does not
kill at memory.high: it takes memory away, and delays every process that needs more. A
container whose memory cannot be taken away (no page cache to drop, no swap) then hardly
runs any more, and nothing ends that state. The policy sees it when the container uses
about its memory.high, was held back there since the last look, and no task of it could
run for `stallPercent` of the time. Then memory.high rises by a step, up to
`limitPercent` of memory.max, so that in the end the kernel decides as it does without
memory.high.

When the container was not held for `cooldownSeconds`, memory.high goes down a step, and
so on, but never below what the container uses: the kernel would have to reclaim memory
at once and throttle again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.decision import Level
from nriplugin.engine.handler import Handler, Option
from nriplugin.engine.memory import why_no_high
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

NAME = "memoryGuard"
FILE = "memory.high"
KEY = "memory-guard"

MOST_PERCENT = 1000
# The kernel keeps whole pages; none is larger than this.
PAGE_BYTES = 64 << 10
# A container is at its memory.high if it uses so much of it. It may use more than all.
NEAR_PERCENT = 95
# memory.high goes down only if the container uses at most so much of the lower one:
# else it would be held there again at once.
ROOM_PERCENT = 90
# Swap helps while its use grows, between two looks, by so much of memory.high.
SWAP_PERCENT = 1


class MemoryGuardSettings(NamedTuple):
    """A higher memory.high for a while, for containers that stall at it."""

    enabled: bool = False
    fail: bool = False
    step_percent: int = 10  # of the container's own memory.high
    limit_percent: int = 100  # of memory.max, at most
    # Of the container's own memory.high, at most, where it has no memory.max. None:
    # such a container is left alone.
    no_limit_percent: int | None = None
    stall_percent: int = 30  # of the time no task could run
    cooldown_seconds: int = 60


class MemoryGuardState(NamedTuple):
    """What the policy remembers about a container."""

    own: str  # the memory.high that it has without the policy
    high_bytes: int
    changed_s: float  # when it was held last, or memory.high went down last
    reason: str = ""


def decide_memory_guard(context: HandlerContext, settings: MemoryGuardSettings) -> None:
    """Report a mistake in the annotation; no value is set before the container runs."""
    what = f"{FILE} at run time"
    on = report_annotation(context, settings, settings_of, NAME, KEY, what)
    if on and (reason := why_no_high(context)):
        context.decision.leave(what, f"{NAME}: {reason}")


def settings_of(
    settings: MemoryGuardSettings,
    annotations: Annotations,
    refuse: Callable[[str], None],
) -> MemoryGuardSettings | None:
    """Return a container's settings: the annotation is a `limitPercent` or `off`."""
    expected = "1% to 100% or off"
    return changed_by_annotation(settings, annotations, KEY, _read, expected, refuse)


def _read(settings: MemoryGuardSettings, value: str) -> MemoryGuardSettings | None:
    number = value.removesuffix("%")
    if value == number or not number.isdecimal() or len(number) > 3:
        return None
    percent = int(number)
    return settings._replace(limit_percent=percent) if 1 <= percent <= 100 else None


def high_to_hold(
    settings: MemoryGuardSettings,
    state: MemoryGuardState | None,
    previous: ContainerSample | None,
    sample: ContainerSample,
    _: NodeSample,
) -> PolicyAnswer:
    """Return the memory.high that a container is to have now."""
    own = sample.original.get(FILE, "")
    if not own.isdecimal() or sample.memory_bytes is None:
        return PolicyAnswer(None)
    if sample.memory_stall is None:
        return PolicyAnswer(
            None, unable="the kernel does not measure the pressure on memory"
        )
    if sample.memory_counts is None or sample.memory_counts.high is None:
        return PolicyAnswer(
            None, unable="the kernel does not count events at memory.high"
        )
    own_bytes = int(own)
    most_bytes, why_not = _most(settings, own_bytes, sample.memory_max_bytes)
    if most_bytes <= own_bytes:
        return PolicyAnswer(None, reason=why_not)
    if state is None or state.own != own:
        state = MemoryGuardState(own, own_bytes, sample.at_s)
    # The settings and the limit may have changed since.
    state = state._replace(high_bytes=min(state.high_bytes, most_bytes))
    held = _held(settings, state, previous, sample)
    state = _next(state, settings, held, sample, most_bytes)
    actions: tuple[PolicyAction, ...] = ()
    if state.high_bytes > own_bytes:
        actions = (PolicyAction(FILE, str(state.high_bytes), Level.CONTAINER),)
    return PolicyAnswer(state, actions, state.reason)


def _most(
    settings: MemoryGuardSettings, own_bytes: int, max_bytes: int | None
) -> tuple[int, str]:
    """Return the highest memory.high of a container, and why it may have no other."""
    if max_bytes is not None and max_bytes >= 0:
        most = max_bytes * settings.limit_percent // 100
        return most, f"its {FILE} is {settings.limit_percent} % of its limit, or more"
    if max_bytes is None or settings.no_limit_percent is None:
        return 0, "it has no limit, and noLimitPercent is null"
    return own_bytes * settings.no_limit_percent // 100, ""


def _held(
    settings: MemoryGuardSettings,
    state: MemoryGuardState,
    previous: ContainerSample | None,
    sample: ContainerSample,
) -> str | None:
    """Return how the container stalled at its memory.high; "" if it did not.

    None means that nobody knows: there is nothing to compare with, or a counter went
    back and is another cgroup's.
    """
    if previous is None:
        return None
    before, now = previous.memory_stall, sample.memory_stall
    counted, counts = previous.memory_counts, sample.memory_counts
    seconds = sample.at_s - previous.at_s
    if before is None or now is None or counted is None or counts is None:
        return None
    stalled_us = now.full_us - before.full_us
    times = (counts.high or 0) - (counted.high or 0)
    if seconds <= 0 or stalled_us < 0 or times < 0:
        return None
    share = stalled_us / 1e4 / seconds
    if not times or share < settings.stall_percent:
        return ""
    if not (_near(previous) and _near(sample)):
        return ""
    swapped = (sample.swap_bytes or 0) - (previous.swap_bytes or 0)
    if swapped * 100 > state.high_bytes * SWAP_PERCENT:
        return ""
    return f"held back {times} times, and stalled {share:.0f} % of {seconds:.0f} s"


def _near(sample: ContainerSample) -> bool:
    """Whether a container uses about its memory.high, or more."""
    use, high = sample.memory_bytes, sample.memory_high_bytes
    if use is None or high is None or high < 0:
        return False
    return use * 100 >= high * NEAR_PERCENT


def _next(
    state: MemoryGuardState,
    settings: MemoryGuardSettings,
    held: str | None,
    sample: ContainerSample,
    most_bytes: int,
) -> MemoryGuardState:
    """Return the state with the next memory.high, and why it changed."""
    if held is None:
        return state
    own_bytes = int(state.own)
    step_bytes = max(own_bytes * settings.step_percent // 100, PAGE_BYTES)
    if held:
        high_bytes = state.high_bytes
        # A value of somebody else is in the file, or nothing is written at all.
        if _holds(sample.memory_high_bytes, high_bytes):
            high_bytes = (high_bytes + step_bytes) // PAGE_BYTES * PAGE_BYTES
            high_bytes = min(high_bytes, most_bytes)
        reason = state.reason if high_bytes == state.high_bytes else held
        return MemoryGuardState(state.own, high_bytes, sample.at_s, reason)
    if state.high_bytes == own_bytes:
        return state
    if sample.at_s - state.changed_s < settings.cooldown_seconds:
        return state
    lower = max(own_bytes, state.high_bytes - step_bytes)
    use = sample.memory_bytes or 0
    if use > lower * ROOM_PERCENT // 100:
        return state._replace(reason=f"it uses too much for a lower {FILE}")
    reason = f"not held back for {settings.cooldown_seconds} s"
    return MemoryGuardState(state.own, lower, sample.at_s, reason)


def _holds(file_bytes: int | None, high_bytes: int) -> bool:
    return file_bytes is not None and abs(file_bytes - high_bytes) < PAGE_BYTES


MEMORY_GUARD = Handler(
    NAME,
    MemoryGuardSettings,
    decide_memory_guard,
    options=(
        Option("stepPercent", int, "step_percent", least=1, most=100),
        Option("limitPercent", int, "limit_percent", least=1, most=100),
        Option(
            "noLimitPercent",
            int,
            "no_limit_percent",
            least=101,
            most=MOST_PERCENT,
            nullable=True,
        ),
        Option("stallPercent", int, "stall_percent", least=1, most=100),
        Option("cooldownSeconds", int, "cooldown_seconds", least=0, most=86_400),
    ),
    annotations=(KEY,),
    at_run_time=RunTimePolicy(
        needs=frozenset({Measure.MEMORY, Measure.SWAP, Measure.PRESSURE}),
        settings_of=settings_of,
        decide=high_to_hold,
    ),
)
