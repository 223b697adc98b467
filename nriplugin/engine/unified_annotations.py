"""The handler `unifiedAnnotations`: raw cgroup v2 files that a pod may set by itself.

`memory.high.cgroup2.nri.io/container.app: "536870912"`. Only files that the
configuration allows, and only values that the kernel and every runtime take: one that
they do not fails the container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Reason, Why
from nriplugin.engine.memory import why_no_high
from nriplugin.engine.rawfiles import check_raw
from nriplugin.engine.runtimes import takes_idle
from nriplugin.errors import ConversionError

if TYPE_CHECKING:
    from nriplugin.engine.case import Case

HANDLER = "unifiedAnnotations"

RULE = Rule(("annotation",), "as given")


def decide_unified_annotations(case: Case) -> None:
    """Send every allowed file that has an annotation."""
    allowed = case.settings.unified_annotations.allowed
    out = case.out
    for file, (value, key) in case.annotations.found.items():
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
        if case.asked is None:
            _send(case, file, value, Why(HANDLER, RULE, f"annotation {key}"))
        else:
            # Set when the container was made, and not to be set by anybody else now.
            case.explicit = {**case.explicit, file: value}


def _send(case: Case, file: str, value: str, why: Why) -> None:
    if file == "memory.high" and value != "max" and why_no_high(case):
        case.out.leave(file, f"{HANDLER}: {why_no_high(case)}")
    elif file == "cpu.idle" and value == "1" and case.given.shares is not None:
        if not takes_idle(case.facts, case.pod):
            case.out.leave(file, f"{HANDLER}: the runtime fails on it beside shares")
        elif "cpu.weight" in case.explicit:
            case.out.leave(file, f"{HANDLER}: a cpu.weight is set, which wins")
        elif case.send(file, value, why):
            case.idle = True
            case.out.cleared = ("cpu.shares",)
    elif file == "cpu.idle" and value == "1":
        case.idle = case.send(file, value, why)
    else:
        case.send(file, value, why)
