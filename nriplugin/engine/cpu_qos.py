"""The handler `cpuQoS`: a level for the CPU, by the kernel's file or what is nearest.

openEuler's kernels have cpu.qos_level. An upstream kernel has cpu.idle, which is what
BE means; for the other levels, the weight that follows from the request has to do. The
kernel takes no weight beside idle, so how idle gets there depends on the runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Level, When, Why
from nriplugin.engine.levels import qos_level
from nriplugin.engine.runtimes import takes_idle
from nriplugin.engine.settings import Equivalent, QoSLevel

if TYPE_CHECKING:
    from nriplugin.engine.case import Case

HANDLER = "cpuQoS"
FILE = "cpu.qos_level"

LEVELS = {QoSLevel.LC: 2, QoSLevel.HLS: 2, QoSLevel.LS: 1, QoSLevel.BE: -1}

LEVEL_RULE = Rule(("QoS level",), "LC and HLS are 2, LS is 1, BE is -1")
IDLE_RULE = Rule(
    ("QoS level",),
    "nearest to BE without cpu.qos_level; sent with cpu.shares cleared, as the kernel "
    "takes no weight beside it",
)
IDLE_AFTER_RULE = Rule(
    ("QoS level",),
    "nearest to BE without cpu.qos_level; written when the container is there, as its "
    "runtime fails on it beside cpu.shares",
)
NOT_IDLE_RULE = Rule(
    ("QoS level",), "for as long as the runtime writes the weight of an update"
)
WEIGHT_RULE = Rule(
    ("QoS level",), "nearest to BE without cpu.qos_level: the least weight"
)


def decide_cpu_qos(case: Case) -> None:
    """Send or write cpu.qos_level; else cpu.idle or the least weight for BE."""
    settings = case.settings.cpu_qos
    found = qos_level(case, HANDLER, settings.level)
    if found is None:
        return
    level, source = found
    if FILE in case.facts.files:
        if case.asked is None:
            _set_level(case, level, source)
    elif level is not QoSLevel.BE or settings.equivalent is Equivalent.NONE:
        case.out.leave(
            f"QoS level {level}",
            f"{HANDLER}: this node has no {FILE}; the weight of the request stays",
        )
    elif settings.equivalent is Equivalent.IDLE and "cpu.idle" in case.facts.files:
        _make_idle(case, source)
    elif case.asked is None or case.asked.shares is not None:
        case.send("cpu.weight", "1", Why(HANDLER, WEIGHT_RULE, source))


def _set_level(case: Case, level: QoSLevel, source: str) -> None:
    why = Why(HANDLER, LEVEL_RULE, source)
    value = str(LEVELS[level])
    if level is QoSLevel.BE:
        case.send(FILE, value, why)
    else:
        # A kernel without multiple levels takes only 0 and -1, and which one this is
        # shows when it is written: after the container is there, nothing can fail.
        case.write(FILE, value, why)
    if case.facts.writable:
        case.write(FILE, value, why, level=Level.POD, when=When.AFTER)


def _make_idle(case: Case, source: str) -> None:
    if "cpu.weight" in case.explicit or "cpu.weight" in case.out.files:
        case.out.leave("cpu.idle", f"{HANDLER}: a cpu.weight is set, which wins")
        return
    if "cpu.idle" in case.explicit or "cpu.idle" in case.out.files:
        case.out.leave("cpu.idle", f"{HANDLER}: set explicitly, which wins")
        return
    updating = case.asked is not None
    # Runtimes keep old numbers and write them again at each update: if the shares were
    # not cleared when the container was made, they are written now.
    cleared = not updating or not case.container.resources.shares
    if takes_idle(case.facts, case.pod) and cleared:
        if case.asked is not None and case.asked.shares is None:
            case.idle = True  # as it is, and nothing in this update changes that
            return
        case.idle = case.send("cpu.idle", "1", Why(HANDLER, IDLE_RULE, source))
        if case.idle and case.given.shares is not None:
            case.out.cleared = ("cpu.shares",)
        return
    why = Why(HANDLER, IDLE_AFTER_RULE, source)
    if updating:
        case.write("cpu.idle", "0", why._replace(rule=NOT_IDLE_RULE), when=When.BEFORE)
    case.idle = case.write("cpu.idle", "1", why)
    if not case.idle and (case.asked is None or case.asked.shares is not None):
        case.send("cpu.weight", "1", Why(HANDLER, WEIGHT_RULE, source))
