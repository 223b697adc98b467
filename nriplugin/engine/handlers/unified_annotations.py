"""The handler `unifiedAnnotations`: raw cgroup v2 files that a pod may set by itself.

`memory.high.cgroup2.nri.io/container.app: "536870912"`. Only files that the
configuration allows, and only values that the kernel and every runtime take: one that
they do not fails the container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.engine.allowed_files import check_raw
from nriplugin.engine.ceilings import PROTECTION
from nriplugin.engine.decision import Reason, Why
from nriplugin.engine.idle import FILE as IDLE
from nriplugin.engine.idle import make_idle
from nriplugin.engine.memory import send_high, why_no_high
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.engine.context import Case
    from nriplugin.kube.annotations import Annotation

HANDLER = "unifiedAnnotations"

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


def decide_unified_annotations(case: Case) -> None:
    """Send every allowed file that has an annotation."""
    allowed = case.settings.unified_annotations.allowed
    out = case.out
    # Idle before a weight: the two do not go together, and it is the stronger wish.
    for file, (value, key) in sorted(case.annotations.found.items(), key=_idle_first):
        if "." not in file:
            continue  # a setting of another handler's
        if file not in allowed:
            out.refuse(HANDLER, Reason.NOT_ALLOWED, f"{key:.120}: not an allowed file")
            continue
        try:
            check_raw(file, value)
        except ConversionError as exc:
            out.refuse(HANDLER, Reason.ANNOTATION, f"{key}: {exc}")
            continue
        why = Why(HANDLER, RULE, f"annotation {key}")
        if file == IDLE and value == "1" and file in case.facts.files:
            make_idle(case, why._replace(rule=IDLE_RULE), IDLE_AFTER_RULE)
        elif case.asked is None:
            _send(case, file, value, why)
        elif _was_set(case, file, value):
            if _is_kept(case, file, value):
                # Not to be set by another handler now.
                case.explicit = {**case.explicit, file: value}
            else:
                _send(case, file, value, why)


def _was_set(case: Case, file: str, value: str) -> bool:
    """Whether a file has the annotation's value from us, as far as that is known.

    Else the handler was off when the container was made, and the file may be another
    handler's. Protection may have been lowered since, to what the container may use.
    """
    ours = case.container.ours
    if file not in case.facts.files:
        return False
    if ours is None:
        return True
    has = ours.get(file)
    return has == value or (has is not None and file in PROTECTION)


def _is_kept(case: Case, file: str, value: str) -> bool:
    """Whether the runtime writes the value again by itself, as far as that is known.

    It keeps another one if the annotation's value was written directly.
    """
    container = case.container
    if container.decided.get(file) != value:
        return True
    return container.resources.unified.get(file) == value


def _idle_first(found: tuple[str, Annotation]) -> bool:
    return found[0] != IDLE


def _send(case: Case, file: str, value: str, why: Why) -> None:
    if file != "memory.high":
        case.send(file, value, why)
    elif value != "max" and why_no_high(case):
        case.out.leave(file, f"{HANDLER}: {why_no_high(case)}")
    else:
        send_high(case, value, why)
