"""The handler `proactiveReclaim`: take page cache from containers that do not need it.

It acts while the container runs, and has no value for a decision. While no task of the
container waits for memory, the policy asks the kernel, by a write to memory.reclaim,
for a small part of the container's memory at a time. Memory that is needed again comes
back as pressure and as refaults: pages that are read again soon after they were taken.
When one of the two exceeds its budget, or the kernel finds nothing more to take, the
container is left alone for `restSeconds`.

The kernel does not honour the container's own memory.min and memory.low in such a
write, only those of cgroups below, so the policy stays above them itself. It takes no
memory that would have to be swapped, unless `swap` allows it.

The write has its effect once: it changes no setting, and there is nothing to put back.
"""

from __future__ import annotations

from errno import EAGAIN, EINTR, EINVAL, ENOENT, EOPNOTSUPP, errorcode
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.handler import Handler, Option
from nriplugin.engine.memory import MILLION, in_millionths
from nriplugin.engine.policies import Measure, PolicyAnswer, RunTimePolicy, Trigger
from nriplugin.engine.policy_annotation import (
    changed_by_annotation,
    report_annotation,
)
from nriplugin.errors import ConfigError
from nriplugin.kube.quantity import byte_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.policies import ContainerSample, NodeSample, Triggered
    from nriplugin.kube.annotations import Annotations

NAME = "proactiveReclaim"
FILE = "memory.reclaim"
KEY = "proactive-reclaim"

# The kernel takes whole pages; none is larger than this.
PAGE_BYTES = 64 << 10
MOST_STEP_BYTES = 1 << 30
MOST_BYTES = (1 << 63) - 1
_MIB = 1 << 20

NO_SWAP = " swappiness=0"


class ProactiveReclaimSettings(NamedTuple):
    """Page cache is taken from containers that do not need it."""

    enabled: bool = False
    fail: bool = False
    percent: int = 1  # of what the container uses, per step
    step_bytes: int = 16 * _MIB  # per step, at most
    keep_bytes: int = 64 * _MIB  # a container with less is left alone
    pressure_ppm: int | None = 10_000  # of the time in which a task waited for memory
    refaults_per_second: int = 100  # in pages
    cpu_percent: int = 1  # of one CPU, spent in the kernel on one container
    rest_seconds: int = 60
    swap: bool = False


class ReclaimState(NamedTuple):
    """What the policy remembers about a container."""

    rest_until_s: float = 0.0
    reason: str = ""  # of the rest
    unable: str = ""


def decide_proactive_reclaim(
    context: HandlerContext, settings: ProactiveReclaimSettings
) -> None:
    """Report a mistake in the annotation; no value is set before the container runs."""
    report_annotation(context, settings, settings_of, NAME, KEY, FILE)


def settings_of(
    settings: ProactiveReclaimSettings,
    annotations: Annotations,
    refuse: Callable[[str], None],
) -> ProactiveReclaimSettings | None:
    """Return a container's settings: the annotation is what it keeps, or `off`."""
    expected = "bytes, as 512Mi, or off"
    return changed_by_annotation(settings, annotations, KEY, _read, expected, refuse)


def _read(
    settings: ProactiveReclaimSettings, value: str
) -> ProactiveReclaimSettings | None:
    try:
        keep_bytes = byte_count(value)
    except ConfigError:
        return None
    kept = 0 <= keep_bytes <= MOST_BYTES
    return settings._replace(keep_bytes=keep_bytes) if kept else None


def memory_to_reclaim(
    settings: ProactiveReclaimSettings,
    state: ReclaimState | None,
    previous: ContainerSample | None,
    sample: ContainerSample,
    node: NodeSample,
) -> PolicyAnswer:
    """Return what is to be taken from a container now, if anything."""
    state = state or ReclaimState()
    if sample.memory_bytes is None:
        return PolicyAnswer(state)
    done = sample.triggered.get(FILE)
    if done is not None:
        state = _concluded(state, settings, done, previous or sample, sample.at_s)
    unable = state.unable or _missing(sample)
    if unable:
        return PolicyAnswer(state, unable=unable)
    calm = _calm(settings, previous, sample)
    if calm is None:
        return PolicyAnswer(state, reason=state.reason)
    if calm:
        rest_until_s = sample.at_s + settings.rest_seconds
        state = state._replace(rest_until_s=rest_until_s, reason=calm)
    if calm or sample.at_s < state.rest_until_s:
        return PolicyAnswer(state, reason=state.reason)
    without_swap = not settings.swap and _can_swap(sample, node)
    amount = _amount(settings, sample, cache_only=not settings.swap)
    if amount <= 0:
        return PolicyAnswer(state, reason="it uses no more than it keeps")
    value = f"{amount}{NO_SWAP if without_swap else ''}"
    reason = f"{amount} bytes are taken, while nothing waits for memory"
    return PolicyAnswer(state, reason=reason, triggers=(Trigger(FILE, value),))


def _concluded(
    state: ReclaimState,
    settings: ProactiveReclaimSettings,
    done: Triggered,
    asked: ContainerSample,
    now_s: float,
) -> ReclaimState:
    """Return the state after a write: whether to rest, and whether to go on at all.

    `asked` is the sample after which the write was done.
    """
    until_s = asked.at_s + done.cpu_s * 100 / settings.cpu_percent
    reason = f"the last step has cost {done.cpu_s:.3f} s of CPU time"
    if done.errno in (ENOENT, EOPNOTSUPP):
        text = f"the kernel has no {FILE}, expected at least 5.19"
        return state._replace(unable=text)
    if done.errno == EINVAL and done.value.endswith(NO_SWAP):
        text = f"the kernel's {FILE} cannot leave swap alone; set {NAME}.swap"
        return state._replace(unable=text)
    if done.errno in (EAGAIN, EINTR):
        reason = "the kernel found less to take than it was asked for"
    elif done.errno:
        reason = f"{FILE}: {errorcode.get(done.errno, done.errno)}"
    if done.errno:
        until_s = max(until_s, now_s + settings.rest_seconds)
    if until_s <= max(now_s, state.rest_until_s):
        return state
    return state._replace(rest_until_s=until_s, reason=reason)


def _missing(sample: ContainerSample) -> str:
    """Return what the node does not measure; empty if it measures all."""
    if sample.memory_stall is None:
        return "the kernel does not measure the pressure on memory"
    if sample.refaults is None:
        return "the kernel does not count refaults"
    if sample.protected_bytes is None:
        return "memory.min and memory.low cannot be read"
    return ""


def _calm(
    settings: ProactiveReclaimSettings,
    previous: ContainerSample | None,
    sample: ContainerSample,
) -> str | None:
    """Return why the container is to be left alone; empty if it is calm.

    None means that nobody knows: there is nothing to compare with, or a counter went
    back and is another cgroup's.
    """
    if previous is None:
        return None
    seconds = sample.at_s - previous.at_s
    before, now = previous.memory_stall, sample.memory_stall
    if before is None or now is None or seconds <= 0:
        return None
    if previous.refaults is None or sample.refaults is None:
        return None
    waited_us = now.some_us - before.some_us
    refaults = sample.refaults - previous.refaults
    held = _times_held(sample) - _times_held(previous)
    if min(waited_us, refaults, held) < 0:
        return None
    if held:
        return "it was held back at memory.high"
    if waited_us * MILLION >= (settings.pressure_ppm or 0) * seconds * 1_000_000:
        return f"it waited for memory {waited_us / 1e4 / seconds:.1f} % of the time"
    if refaults > settings.refaults_per_second * seconds:
        return f"{refaults / seconds:.0f} pages per second were read again"
    return ""


def _times_held(sample: ContainerSample) -> int:
    return 0 if sample.memory_counts is None else sample.memory_counts.high or 0


def _can_swap(sample: ContainerSample, node: NodeSample) -> bool:
    return node.swap_bytes != 0 and sample.swap_max_bytes != 0


def _amount(
    settings: ProactiveReclaimSettings, sample: ContainerSample, *, cache_only: bool
) -> int:
    """Return how much of a container's memory one step takes; 0 or less is nothing."""
    use = sample.memory_bytes or 0
    protected = sample.protected_bytes
    if protected is None or protected < 0:  # memory.min or memory.low is max
        return 0
    amount = min(
        use * settings.percent // 100,
        settings.step_bytes,
        use - max(settings.keep_bytes, protected),
    )
    if cache_only:
        amount = min(amount, sample.cache_bytes or 0)
    return amount // PAGE_BYTES * PAGE_BYTES


PROACTIVE_RECLAIM = Handler(
    NAME,
    ProactiveReclaimSettings,
    decide_proactive_reclaim,
    options=(
        Option("percent", int, least=1, most=100),
        Option("stepBytes", int, "step_bytes", least=PAGE_BYTES, most=MOST_STEP_BYTES),
        Option("keepBytes", int, "keep_bytes", least=0, most=MOST_BYTES),
        Option(
            "pressure", float, "pressure_ppm", above=0, most=1, convert=in_millionths
        ),
        Option(
            "refaultsPerSecond", int, "refaults_per_second", least=0, most=1_000_000
        ),
        Option("cpuPercent", int, "cpu_percent", least=1, most=100),
        Option("restSeconds", int, "rest_seconds", least=1, most=86_400),
        Option("swap", bool),
    ),
    annotations=(KEY,),
    at_run_time=RunTimePolicy(
        needs=frozenset(
            {
                Measure.MEMORY,
                Measure.PROTECTION,
                Measure.SWAP,
                Measure.PRESSURE,
                Measure.REFAULTS,
                Measure.CACHE,
            }
        ),
        settings_of=settings_of,
        decide=memory_to_reclaim,
    ),
)
