"""The handler `unifiedAnnotations`: cgroup v2 files that a pod sets by annotation.

An example is `memory.high.cgroup2.nri.io/container.app: "536870912"`. Only files that
the configuration allows are set, and only to values that the kernel and every runtime
accept, because any other value would fail the container.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.result import Rule
from nriplugin.engine.allowed_files import ALLOWABLE, check_raw
from nriplugin.engine.ceilings import PROTECTION
from nriplugin.engine.decision import Reason, Why
from nriplugin.engine.handler import Handler, Option
from nriplugin.engine.idle import FILE as IDLE
from nriplugin.engine.idle import make_idle
from nriplugin.engine.memory import send_high, why_no_high
from nriplugin.errors import ConfigError, ConversionError

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext
    from nriplugin.kube.annotations import Annotation

NAME = "unifiedAnnotations"

RULE = Rule(("annotation",), "as given")
IDLE_RULE = Rule(
    ("annotation",),
    "as given; sent with cpu.shares cleared, as the kernel takes no weight beside it",
)
IDLE_AFTER_RULE = Rule(
    ("annotation",),
    "as given; written when the container is there, as its runtime fails on it beside "
    "cpu.shares",
)


# A node's pods share a few values. A value that is refused is not remembered.
_check = lru_cache(maxsize=256)(check_raw)


class UnifiedAnnotationsSettings(NamedTuple):
    """cgroup v2 files that pods may set by annotation."""

    enabled: bool = False
    fail: bool = False
    allowed: frozenset[str] = frozenset()


def _allowed_files(given: list[str], where: str) -> frozenset[str]:
    for index, file in enumerate(given):
        if file not in ALLOWABLE:
            raise ConfigError(
                f"{where}[{index}]: {file!r}, expected one of "
                f"{', '.join(sorted(ALLOWABLE))}"
            )
    return frozenset(given)


def decide_unified_annotations(
    context: HandlerContext, settings: UnifiedAnnotationsSettings
) -> None:
    """Send every allowed file that has an annotation."""
    allowed, decision = settings.allowed, context.decision
    # Idle before a weight: the kernel takes only one of the two, and idle is the more
    # specific request.
    for file, (value, key) in sorted(
        context.annotations.found.items(), key=_idle_first
    ):
        if "." not in file:
            continue  # not the name of a file: another handler's annotation
        if file not in allowed:
            text = f"{key:.120}: not an allowed file"
            decision.refuse(NAME, Reason.NOT_ALLOWED, text)
            continue
        try:
            _check(file, value)
        except ConversionError as exc:
            decision.refuse(NAME, Reason.ANNOTATION, f"{key}: {exc}")
            continue
        why = Why(NAME, RULE, f"annotation {key}")
        if file == IDLE and value == "1" and file in context.facts.files:
            make_idle(context, why._replace(rule=IDLE_RULE), IDLE_AFTER_RULE)
        elif not context.updating:
            _send(context, file, value, why)
        elif _was_set(context, file, value):
            if _is_kept(context, file, value):
                # No other handler may set the file in this update.
                context.keep_explicit(file, value)
            else:
                _send(context, file, value, why)


def _was_set(context: HandlerContext, file: str, value: str) -> bool:
    """Return whether nriplugin has set a file to the annotation's value before.

    If not, this handler was off when the container was made, and the file may be
    another handler's. Where it is not known which files nriplugin set, the answer is
    yes. A protection counts with any value: it may have been lowered since, to what the
    container may use.
    """
    ours = context.container.ours
    if file not in context.facts.files:
        return False
    if ours is None:
        return True
    has = ours.get(file)
    return has == value or (has is not None and file in PROTECTION)


def _is_kept(context: HandlerContext, file: str, value: str) -> bool:
    """Return whether the runtime keeps the value, and so writes it again by itself.

    It keeps another value if nriplugin wrote the annotation's directly.
    """
    container = context.container
    if container.decided.get(file) != value:
        return True
    return container.resources.unified.get(file) == value


def _idle_first(found: tuple[str, Annotation]) -> bool:
    return found[0] != IDLE


def _send(context: HandlerContext, file: str, value: str, why: Why) -> None:
    if file != "memory.high":
        context.send(file, value, why)
    elif value != "max" and why_no_high(context):
        context.decision.leave(file, f"{NAME}: {why_no_high(context)}")
    else:
        send_high(context, value, why)


UNIFIED_ANNOTATIONS = Handler(
    NAME,
    UnifiedAnnotationsSettings,
    decide_unified_annotations,
    options=(Option("allowed", list[str], convert=_allowed_files),),
    reads_files=True,
)
