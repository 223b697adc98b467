"""What holds a container back: its own limit, its neighbours, memory.high, or nothing.

The verdicts follow from two moments at which a container was measured. A verdict whose
fields were not measured is never given; `Judgement.untold` names it instead. Several
verdicts may hold at once, except that an idle container is held back by nothing.

The kernel's pressure on cpu also counts tasks that wait because a quota ran out. So
only what is left of it without throttling is contention, and only as far as others have
used CPUs meanwhile: a container may also contend with its own tasks. The time of
throttling is summed over CPUs and pressure is at most the time that passed, so
contention beside heavy throttling of several tasks may be missed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from nriplugin.engine.policies import ContainerSample

# A period of ten: the least that a second shows of periods of 100 ms. A task that needs
# several periods for a request then waits in most of them.
THROTTLED_SHARE = 0.1
# A tenth of the time is what a container also loses by a neighbour that wakes up often;
# from there on, requests take visibly longer. The same for memory.
CONTENDED_SHARE = 0.1
HELD_SHARE = 0.1
# The kernel reclaims down to memory.high again and again, so use is a little below it
# at most moments. It charges in batches of up to 64 pages on each CPU.
NEAR_HIGH = 0.95
# Less than a hundredth of one CPU, and of the time for waiting: health checks, timers.
IDLE_SHARE = 0.01

_MIB = 1 << 20

_Number = TypeVar("_Number", int, float)


class Verdict(StrEnum):
    """What is said about a container; also the value of a label of metrics."""

    THROTTLED = "throttled"  # by its own quota, or by that of its pod
    CONTENDED = "contended"  # by neighbours that use the CPUs
    MEMORY_HIGH = "memory.high"  # its tasks wait while the kernel reclaims
    IDLE = "idle"


class Moment(NamedTuple):
    """What was measured at one moment; None for what was not."""

    container: ContainerSample
    pod: ContainerSample | None = None  # the pod's own cgroup; its throttling counts
    # How long the CPUs of the node were busy since the boot, summed over all of them.
    node_busy_s: float | None = None


class FoundVerdict(NamedTuple):
    """A verdict that holds, the numbers it follows from, and what it costs."""

    verdict: Verdict
    because: str
    share: float = 0.0  # of the time, as far as tasks waited for this reason


class Judgement(NamedTuple):
    """The verdicts that hold, the one that costs most first, and those not told."""

    findings: tuple[FoundVerdict, ...] = ()
    untold: tuple[Verdict, ...] = tuple(Verdict)


class _Throttling(NamedTuple):
    """How a quota held a cgroup back."""

    periods: int
    throttled: int
    seconds: float  # summed over CPUs


def judge(previous: Moment | None, now: Moment) -> Judgement:
    """Return the verdicts about a container for the time between two moments."""
    if previous is None:
        return Judgement()
    seconds = now.container.at_s - previous.container.at_s
    if seconds <= 0:
        return Judgement()
    told = {
        Verdict.THROTTLED: _throttled(previous, now, seconds),
        Verdict.CONTENDED: _contended(previous, now, seconds),
        Verdict.MEMORY_HIGH: _held_at_high(previous, now, seconds),
        Verdict.IDLE: _idle(previous, now, seconds),
    }
    held = [one for one in told.values() if isinstance(one, FoundVerdict)]
    if any(one.verdict is not Verdict.IDLE for one in held):
        held = [one for one in held if one.verdict is not Verdict.IDLE]
    held.sort(key=lambda one: -one.share)
    untold = tuple(verdict for verdict, found in told.items() if found is None)
    return Judgement(tuple(held), untold)


def of_pod(containers: tuple[Judgement, ...]) -> Judgement:
    """Return the verdicts about a pod: those that hold for any of its containers.

    A pod is idle if every container is.
    """
    worst: dict[Verdict, FoundVerdict] = {}
    for judgement in containers:
        for one in judgement.findings:
            known = worst.get(one.verdict)
            if known is None or one.share > known.share:
                worst[one.verdict] = one
    idle = bool(containers) and all(
        [one.verdict for one in judgement.findings] == [Verdict.IDLE]
        for judgement in containers
    )
    if not idle:
        worst.pop(Verdict.IDLE, None)
    untold = [
        verdict
        for verdict in Verdict
        if verdict not in worst
        and (not containers or any(verdict in one.untold for one in containers))
    ]
    findings = sorted(worst.values(), key=lambda one: -one.share)
    return Judgement(tuple(findings), tuple(untold))


# Each of these returns a finding, False if the verdict does not hold, and None if that
# was not measured.


def _throttled(
    previous: Moment, now: Moment, seconds: float
) -> FoundVerdict | bool | None:
    own = _throttling(previous.container, now.container)
    pods = _throttling(previous.pod, now.pod)
    found = _throttled_by(own, "", seconds) or _throttled_by(pods, "its pod: ", seconds)
    if found is not None:
        return found
    return None if own is None or pods is None else False


def _throttled_by(
    one: _Throttling | None, whose: str, seconds: float
) -> FoundVerdict | None:
    if one is None or one.throttled < max(1, one.periods * THROTTLED_SHARE):
        return None
    periods = max(one.periods, one.throttled)
    share = min(one.seconds / seconds, 1.0)
    text = f"{whose}throttled in {one.throttled} of {periods} periods"
    if one.seconds:
        text += f", for {one.seconds:.2f} s summed over CPUs within {seconds:.2f} s"
    return FoundVerdict(Verdict.THROTTLED, text, share)


def _contended(
    previous: Moment, now: Moment, seconds: float
) -> FoundVerdict | bool | None:
    before, after = previous.container, now.container
    stall_us = _grown(
        None if before.cpu_stall is None else before.cpu_stall.some_us,
        None if after.cpu_stall is None else after.cpu_stall.some_us,
    )
    if stall_us is None:
        return None
    stalled_s = min(stall_us / 1e6, seconds)
    if stalled_s < CONTENDED_SHARE * seconds:
        return False  # whatever else was measured
    own, pods = _throttling(before, after), _throttling(previous.pod, now.pod)
    used_ns = _grown(before.cpu_usage_ns, after.cpu_usage_ns)
    busy_s = _grown(previous.node_busy_s, now.node_busy_s)
    if own is None or pods is None or used_ns is None or busy_s is None:
        return None
    # A container and its pod may be throttled one after the other. Where throttling is
    # longer than the time that passed, nothing is left.
    waited_s = stalled_s - own.seconds - pods.seconds
    others = max(busy_s - used_ns / 1e9, 0.0) / seconds  # CPUs
    if waited_s < CONTENDED_SHARE * seconds or others < CONTENDED_SHARE:
        return False
    text = (
        f"waited for a CPU in {waited_s:.2f} of {seconds:.2f} s, throttling left out, "
        f"while it used {used_ns / 1e9 / seconds:.2f} CPUs and others {others:.2f}"
    )
    return FoundVerdict(Verdict.CONTENDED, text, waited_s / seconds)


def _held_at_high(
    previous: Moment, now: Moment, seconds: float
) -> FoundVerdict | bool | None:
    before, after = previous.container, now.container
    high, used = after.memory_high_bytes, after.memory_bytes
    if high is not None and high < 0:
        return False  # no limit
    stall_us = _grown(
        None if before.memory_stall is None else before.memory_stall.some_us,
        None if after.memory_stall is None else after.memory_stall.some_us,
    )
    counts = after.memory_counts
    reached = None if counts is None else counts.high
    # A task over memory.high sleeps for up to 2 s, and reaches it again only then: so
    # that it was reached ever is asked for here, not that it was since `previous`.
    if high is None or used is None or stall_us is None or reached is None:
        return None
    stalled_s = min(stall_us / 1e6, seconds)
    if reached <= 0 or used < NEAR_HIGH * high or stalled_s < HELD_SHARE * seconds:
        return False
    text = (
        f"waited for memory in {stalled_s:.2f} of {seconds:.2f} s, with "
        f"{used / _MIB:.1f}Mi used of memory.high {high / _MIB:.1f}Mi"
    )
    return FoundVerdict(Verdict.MEMORY_HIGH, text, stalled_s / seconds)


def _idle(previous: Moment, now: Moment, seconds: float) -> FoundVerdict | bool | None:
    before, after = previous.container, now.container
    used_ns = _grown(before.cpu_usage_ns, after.cpu_usage_ns)
    if used_ns is None:
        return None
    cpus = used_ns / 1e9 / seconds
    if cpus >= IDLE_SHARE:
        return False
    waits = _waits_us(before, after)
    if waits is not None:
        if max(waits) / 1e6 >= IDLE_SHARE * seconds:
            return False
    elif after.running_tasks is None:
        return None  # it may want a CPU and not get one
    elif after.running_tasks > 0:
        return False
    return FoundVerdict(Verdict.IDLE, f"used {cpus:.3f} CPUs and waited for nothing")


def _waits_us(
    before: ContainerSample, after: ContainerSample
) -> tuple[int, int, int] | None:
    """Return for how long tasks waited for cpu, memory and io; None if not measured."""
    stalls = (
        (before.cpu_stall, after.cpu_stall),
        (before.memory_stall, after.memory_stall),
        (before.io_stall, after.io_stall),
    )
    grown = [
        None if one is None or two is None else _grown(one.some_us, two.some_us)
        for one, two in stalls
    ]
    cpu, memory, io = grown
    if cpu is None or memory is None or io is None:
        return None
    return cpu, memory, io


def _throttling(
    before: ContainerSample | None, after: ContainerSample | None
) -> _Throttling | None:
    if before is None or after is None:
        return None
    periods = _grown(before.periods, after.periods)
    throttled = _grown(before.throttled, after.throttled)
    time_ns = _grown(before.throttled_ns, after.throttled_ns)
    if periods is None or throttled is None or time_ns is None:
        return None
    return _Throttling(periods, throttled, time_ns / 1e9)


def _grown(before: _Number | None, after: _Number | None) -> _Number | None:
    """Return by how much a counter grew; None if it went back, as another cgroup's."""
    if before is None or after is None or after < before:
        return None
    return after - before
