"""The handler `cpuBurst`: unused quota is saved, to be spent above the quota later.

The kernel refuses a burst above the quota, and checks that at every write of either
file. runc writes `unified` in random order, so a burst and a quota leave together only
if the kernel accepts them in both orders. At an update the old values count as well: a
higher quota is written before a higher burst, and a lower burst before a lower quota.

On a node with cgroup v1 the file is cpu.cfs_burst_us, with the same number and the same
rule. nriplugin writes it itself, after the runtime's quota or before a lower one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.result import Rule
from nriplugin.convert.validate import MAX_QUOTA_US
from nriplugin.engine.decision import Level, When, Why
from nriplugin.engine.explicit import quota_of
from nriplugin.engine.handler import Handler, Option

if TYPE_CHECKING:
    from nriplugin.convert import Resources
    from nriplugin.engine.context import HandlerContext

NAME = "cpuBurst"
FILE = "cpu.max.burst"
V1_FILE = "cpu.cfs_burst_us"
KEY = "cpu-burst"
VOLCANO_SWITCH = "volcano.sh/enable-quota-burst"
VOLCANO_TIME = "volcano.sh/quota-burst-time"

PERCENT_RULE = Rule(("cpu.quota",), "a percentage of the quota")
ABSOLUTE_RULE = Rule(("cpu.quota",), "microseconds, at most the quota")
POD_RULE = Rule(("cpu.quota",), "the sum over the pod's containers, at most its quota")
KEEP_RULE = Rule(("cpu.quota",), "the old burst until the new quota holds")

_ANNOTATION = re.compile(r"([0-9]{1,15})(%?)")
_MICROSECONDS = re.compile(r"[0-9]{1,15}")


class CPUBurstSettings(NamedTuple):
    """Unused CPU quota, to be spent above the quota later."""

    enabled: bool = False
    fail: bool = False
    percent: int | None = None  # of the quota
    microseconds: int | None = None


class WantedBurst(NamedTuple):
    """The burst that an annotation or a setting asks for, in one of two units."""

    percent: int | None
    microseconds: int | None
    source: str

    def of(self, quota_us: int) -> int:
        """Return the burst beside a quota, limited to what the kernel accepts."""
        if self.percent is not None:
            burst = quota_us * self.percent // 100
        else:
            burst = self.microseconds or 0
        return min(burst, quota_us, MAX_QUOTA_US - quota_us)


def decide_cpu_burst(context: HandlerContext, settings: CPUBurstSettings) -> None:
    """Send cpu.max.burst, and have the pod's written before."""
    file = _file(context)
    wanted = _wanted(context, settings)
    if wanted is None:
        return
    quota = _quota(context)
    if quota is None:
        context.decision.leave(file, f"{NAME}: no quota to burst above")
        return
    burst = wanted.of(quota)
    rule = ABSOLUTE_RULE if wanted.percent is None else PERCENT_RULE
    why = Why(NAME, rule, wanted.source)
    taken = file in context.explicit or file in context.decision.files
    if taken or file not in context.facts.files:
        context.send(file, burst, why)  # notes why it is not sent
        return
    if not context.quota_requested:
        # The runtime keeps the burst that it was sent last and writes it again at every
        # update. That may be one that was only to last for one update: see KEEP_RULE.
        if context.container.resources.unified.get(file) != str(burst):
            context.send(file, burst, why)
        return
    _write_pod(context, burst, why)
    if not context.updating:
        context.send(file, burst, why)
    else:
        _update(context, wanted, quota, burst, why)


def _file(context: HandlerContext) -> str:
    return V1_FILE if context.facts.direct_only else FILE


def _update(
    context: HandlerContext, wanted: WantedBurst, quota: int, burst: int, why: Why
) -> None:
    """Raise the quota before the burst, lower the burst before the quota."""
    file, facts = _file(context), context.facts
    old_quota = _old_quota(context.container.resources)
    old_burst = _old_burst(context)
    if old_burst is None:
        # Not every runtime shows `unified`. Then the old burst is taken to be the one
        # that this handler makes of the old quota.
        old_burst = 0 if old_quota is None else wanted.of(old_quota)
    if old_burst > quota:
        _lower_first(context, burst, why, (old_burst, quota))
    elif facts.direct_only:
        pass  # the only write comes after the runtime's quota
    elif old_quota is not None and burst > old_quota and facts.writable:
        context.write(file, burst, why)
        context.send(file, old_burst, why._replace(rule=KEEP_RULE))
        return
    # The runtime writes the quota of kubelet's request before anything in `unified`.
    context.send(file, burst, why)


def end_burst(context: HandlerContext, why: Why) -> None:
    """End a burst that no handler asks for now, before the kernel compares it.

    The kernel refuses a new quota that is below the old burst.
    """
    file = _file(context)
    if not context.quota_requested or not context.holds_old_value(file, "0"):
        return
    _write_pod(context, 0, why)
    quota, old_burst = _quota(context), _old_burst(context) or 0
    if quota is not None and old_burst > quota:
        _lower_first(context, 0, why, (old_burst, quota))
    context.send(file, "0", why)


def _write_pod(context: HandlerContext, burst: int, why: Why) -> None:
    if context.facts.writable:
        why = why._replace(rule=POD_RULE)
        pod, before = Level.POD, When.BEFORE
        file = _file(context)
        context.write(file, burst, why, level=pod, when=before, part=True)


def _lower_first(
    context: HandlerContext, burst: int, why: Why, danger: tuple[int, int]
) -> None:
    """Have a burst lowered before the runtime writes a quota that is below it."""
    file = _file(context)
    if not context.write(file, burst, why, when=When.BEFORE):
        old_burst, quota = danger
        quota_file = "cpu.cfs_quota_us" if file == V1_FILE else "cpu.max"
        context.decision.warnings.append(
            f"{quota_file}: the kernel refuses the quota {quota} while {file} is "
            f"{old_burst}, and only the executor can lower it first"
        )


def _old_burst(context: HandlerContext) -> int | None:
    """Return the highest burst that the container may have now.

    It is the one that the runtime keeps or the one that nriplugin wrote: they differ
    where nriplugin raised the burst after the runtime had written its own.
    """
    container, file = context.container, _file(context)
    stored = container.resources.unified.get(file, "")
    mine = (container.ours or {}).get(file, "")
    numbers = [text.strip() for text in (stored, mine)]
    return max((int(n) for n in numbers if _MICROSECONDS.fullmatch(n)), default=None)


def _quota(context: HandlerContext) -> int | None:
    """Return the lowest quota that is in force while the runtime writes a burst.

    The runtime writes the quota of the request first, and then the cpu.max and the
    burst of `unified` in an order that is not defined. None if there is no quota, or if
    another plugin's cpu.max is in force and the runtime does not show it.
    """
    number = context.given.quota_us
    if "cpu.max" in context.explicit:
        sent: str | None = context.explicit["cpu.max"]
        if not sent:
            return None
    else:
        sent = context.decision.files.get("cpu.max") or _kept(context)
    if not sent:
        return number if isinstance(number, int) else None
    quota = quota_of(sent)
    if quota is None or not isinstance(number, int):
        return quota
    return min(quota, number)


def _kept(context: HandlerContext) -> str | None:
    """Return the cpu.max of nriplugin that the runtime writes again in this update."""
    if not context.updating or context.requested.quota_us is not None:
        return None
    container = context.container
    return (container.ours or {}).get("cpu.max") or container.resources.unified.get(
        "cpu.max"
    )


def _old_quota(given: Resources) -> int | None:
    explicit = given.unified.get("cpu.max")
    if explicit:
        return quota_of(explicit)
    return given.quota_us if isinstance(given.quota_us, int) else None


def _wanted(context: HandlerContext, settings: CPUBurstSettings) -> WantedBurst | None:
    """Return what nriplugin's annotation, else Volcano's, else a setting asks for."""
    stated = context.annotation(KEY)
    if stated is not None:
        if stated.value == "off":
            context.decision.leave(
                _file(context), f"{NAME}: switched off by annotation {stated.key}"
            )
            return None
        found = _ANNOTATION.fullmatch(stated.value)
        source = f"annotation {stated.key}"
        if found and found[2] and 1 <= int(found[1]) <= 100:
            return WantedBurst(int(found[1]), None, source)
        if found and not found[2] and int(found[1]) > 0:
            return WantedBurst(None, int(found[1]), source)
        context.refuse(
            NAME,
            f"{stated.key}: {stated.value!r:.60}, "
            "expected 1% to 100%, microseconds or off",
        )
    switch = context.foreign_annotation(VOLCANO_SWITCH, NAME)
    if switch == "false":
        context.decision.leave(
            _file(context), f"{NAME}: switched off by annotation {VOLCANO_SWITCH}"
        )
        return None
    if switch == "true":
        return _volcano(context)
    if switch is not None:
        context.refuse(
            NAME, f"{VOLCANO_SWITCH}: {switch!r:.60}, expected true or false"
        )
    if settings.microseconds is not None:
        origin = context.settings.origin("cpuBurst.microseconds")
        return WantedBurst(None, settings.microseconds, origin)
    if settings.percent is not None:
        return WantedBurst(
            settings.percent, None, context.settings.origin("cpuBurst.percent")
        )
    return None


def _volcano(context: HandlerContext) -> WantedBurst:
    """Return Volcano's burst: a time, or the whole quota if it gives no valid time."""
    time = context.foreign_annotation(VOLCANO_TIME, NAME)
    if time is not None:
        if _MICROSECONDS.fullmatch(time) and int(time) > 0:
            return WantedBurst(None, int(time), f"annotation {VOLCANO_TIME}")
        context.refuse(NAME, f"{VOLCANO_TIME}: {time!r:.60}, expected microseconds")
    return WantedBurst(100, None, f"annotation {VOLCANO_SWITCH}")


CPU_BURST = Handler(
    NAME,
    CPUBurstSettings,
    decide_cpu_burst,
    options=(
        Option("percent", int, least=1, most=100, nullable=True),
        Option("microseconds", int, least=1, most=MAX_QUOTA_US, nullable=True),
    ),
    exclusive=("percent", "microseconds"),
    annotations=(KEY,),
    foreign_annotations=(VOLCANO_SWITCH, VOLCANO_TIME),
    retract=end_burst,
)
