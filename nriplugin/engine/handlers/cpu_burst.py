"""The handler `cpuBurst`: unused quota is saved, to be spent above the quota later.

The kernel takes no burst above the quota, and checks that at every write of either
file. runc writes `unified` in random order, so the two never go together unless both
orders are valid.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.result import Rule
from nriplugin.convert.validate import MAX_QUOTA_US
from nriplugin.engine.context import quota_of
from nriplugin.engine.decision import Level, When, Why

if TYPE_CHECKING:
    from nriplugin.convert import Resources
    from nriplugin.engine.context import Case

HANDLER = "cpuBurst"
FILE = "cpu.max.burst"
KEY = "cpu-burst"
VOLCANO_SWITCH = "volcano.sh/enable-quota-burst"
VOLCANO_TIME = "volcano.sh/quota-burst-time"

PERCENT_RULE = Rule(("cpu.quota",), "a percentage of the quota")
ABSOLUTE_RULE = Rule(("cpu.quota",), "microseconds, at most the quota")
POD_RULE = Rule(("cpu.quota",), "the sum over the pod's containers, at most its quota")
KEEP_RULE = Rule(("cpu.quota",), "the old burst until the new quota holds")

_WISH = re.compile(r"([0-9]{1,15})(%?)")
_MICROSECONDS = re.compile(r"[0-9]{1,15}")


class Wish(NamedTuple):
    """A burst that somebody wants: of the quota, or in microseconds."""

    percent: int | None
    microseconds: int | None
    source: str

    def of(self, quota_us: int) -> int:
        """Return the burst for a quota, which the kernel will take."""
        if self.percent is not None:
            burst = quota_us * self.percent // 100
        else:
            burst = self.microseconds or 0
        return min(burst, quota_us, MAX_QUOTA_US - quota_us)


def decide_cpu_burst(case: Case) -> None:
    """Send cpu.max.burst, and have the pod's written before."""
    wish = _wish(case)
    if wish is None:
        return
    quota = _quota(case)
    if quota is None:
        case.out.leave(FILE, f"{HANDLER}: no quota to burst above")
        return
    burst = wish.of(quota)
    rule = ABSOLUTE_RULE if wish.percent is None else PERCENT_RULE
    why = Why(HANDLER, rule, wish.source)
    taken = FILE in case.explicit or FILE in case.out.files
    if taken or FILE not in case.facts.files:
        case.send(FILE, str(burst), why)  # which says why not
        return
    if not _quota_comes(case):
        # Runtimes keep what they were sent, and write it again at every update: it may
        # be a burst that was only for a while (see KEEP_RULE).
        if case.container.resources.unified.get(FILE) != str(burst):
            case.send(FILE, str(burst), why)
        return
    _write_pod(case, burst, why)
    if case.asked is None:
        case.send(FILE, str(burst), why)
    else:
        _update(case, wish, quota, burst, why)


def _update(case: Case, wish: Wish, quota: int, burst: int, why: Why) -> None:
    """Raise the quota before the burst, lower the burst before the quota."""
    old_quota = _old_quota(case.container.resources)
    old_burst = _old_burst(case)
    if old_burst is None:
        # Not every runtime shows `unified`; then it is what we would have sent.
        old_burst = 0 if old_quota is None else wish.of(old_quota)
    if old_burst > quota:
        _lower_first(case, burst, why, (old_burst, quota))
    elif old_quota is not None and burst > old_quota and case.facts.writable:
        case.write(FILE, str(burst), why)
        case.send(FILE, str(old_burst), why._replace(rule=KEEP_RULE))
        return
    # The runtime writes the quota of kubelet's request before anything in `unified`.
    case.send(FILE, str(burst), why)


def end_burst(case: Case, why: Why) -> None:
    """Take back a burst that nobody wants any more, before it is in a quota's way."""
    if not _quota_comes(case) or not case.left_over(FILE, "0"):
        return
    _write_pod(case, 0, why)
    quota, old_burst = _quota(case), _old_burst(case) or 0
    if quota is not None and old_burst > quota:
        _lower_first(case, 0, why, (old_burst, quota))
    case.send(FILE, "0", why)


def _write_pod(case: Case, burst: int, why: Why) -> None:
    if case.facts.writable:
        why = why._replace(rule=POD_RULE)
        pod, before = Level.POD, When.BEFORE
        case.write(FILE, str(burst), why, level=pod, when=before, part=True)


def _lower_first(case: Case, burst: int, why: Why, danger: tuple[int, int]) -> None:
    """Have a burst lowered that is in the way of the new quota."""
    if not case.write(FILE, str(burst), why, when=When.BEFORE):
        old_burst, quota = danger
        case.out.warnings.append(
            f"cpu.max: the kernel refuses the quota {quota} while {FILE} is "
            f"{old_burst}, and only the executor can lower it first"
        )


def _quota_comes(case: Case) -> bool:
    """Whether a quota is going to be written, which is when the kernel compares."""
    asked = case.asked
    return asked is None or asked.quota_us is not None or "cpu.max" in asked.unified


def _old_burst(case: Case) -> int | None:
    """Return the most that the container may have: what the runtime sends, or we wrote.

    The two differ where we raised it after the runtime was done.
    """
    container = case.container
    stored = container.resources.unified.get(FILE, "")
    mine = (container.ours or {}).get(FILE, "")
    numbers = [text.strip() for text in (stored, mine)]
    return max((int(n) for n in numbers if _MICROSECONDS.fullmatch(n)), default=None)


def _quota(case: Case) -> int | None:
    """Return the quota that will hold, or the one before it if that is less.

    The runtime writes the quota in numbers first, and then a cpu.max and the burst in
    an order that nobody knows. None also where another's cpu.max is there that the
    runtime does not show.
    """
    number = case.given.quota_us
    if "cpu.max" in case.explicit:
        sent: str | None = case.explicit["cpu.max"]
        if not sent:
            return None
    else:
        sent = case.out.files.get("cpu.max") or _kept(case)
    if not sent:
        return number if isinstance(number, int) else None
    quota = quota_of(sent)
    if quota is None or not isinstance(number, int):
        return quota
    return min(quota, number)


def _kept(case: Case) -> str | None:
    """Return the cpu.max of ours that the runtime writes again beside this update."""
    if case.asked is None or case.asked.quota_us is not None:
        return None
    container = case.container
    return (container.ours or {}).get("cpu.max") or container.resources.unified.get(
        "cpu.max"
    )


def _old_quota(given: Resources) -> int | None:
    explicit = given.unified.get("cpu.max")
    if explicit:
        return quota_of(explicit)
    return given.quota_us if isinstance(given.quota_us, int) else None


def _wish(case: Case) -> Wish | None:
    """Return who wants what: our annotation, Volcano's, a rule or the file."""
    ours = case.annotation(KEY)
    if ours is not None:
        if ours.value == "off":
            case.out.leave(FILE, f"{HANDLER}: switched off by annotation {ours.key}")
            return None
        found = _WISH.fullmatch(ours.value)
        source = f"annotation {ours.key}"
        if found and found[2] and 1 <= int(found[1]) <= 100:
            return Wish(int(found[1]), None, source)
        if found and not found[2] and int(found[1]) > 0:
            return Wish(None, int(found[1]), source)
        case.refuse(
            HANDLER,
            f"{ours.key}: {ours.value!r:.60}, expected 1% to 100%, microseconds or off",
        )
    switch = case.foreign(VOLCANO_SWITCH, HANDLER)
    if switch == "false":
        case.out.leave(FILE, f"{HANDLER}: switched off by annotation {VOLCANO_SWITCH}")
        return None
    if switch == "true":
        return _volcano(case)
    if switch is not None:
        case.refuse(
            HANDLER, f"{VOLCANO_SWITCH}: {switch!r:.60}, expected true or false"
        )
    settings = case.settings.cpu_burst
    if settings.microseconds is not None:
        origin = case.settings.origin("cpuBurst.microseconds")
        return Wish(None, settings.microseconds, origin)
    if settings.percent is not None:
        return Wish(settings.percent, None, case.settings.origin("cpuBurst.percent"))
    return None


def _volcano(case: Case) -> Wish:
    """Return Volcano's: a time, or without one that makes sense, the whole quota."""
    time = case.foreign(VOLCANO_TIME, HANDLER)
    if time is not None:
        if _MICROSECONDS.fullmatch(time) and int(time) > 0:
            return Wish(None, int(time), f"annotation {VOLCANO_TIME}")
        case.refuse(HANDLER, f"{VOLCANO_TIME}: {time!r:.60}, expected microseconds")
    return Wish(100, None, f"annotation {VOLCANO_SWITCH}")
