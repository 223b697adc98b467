"""The handler `cpuQoS`: a level for the CPU, by the kernel's file or what is nearest.

openEuler's kernels have cpu.qos_level. An upstream kernel has cpu.idle, which is what
BE means; for the other levels, the weight that follows from the request has to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Level, When, Why
from nriplugin.engine.idle import FILE as IDLE
from nriplugin.engine.idle import make_idle
from nriplugin.engine.qos_level import qos_level
from nriplugin.engine.settings import Equivalent, QoSLevel

if TYPE_CHECKING:
    from nriplugin.engine.context import Case

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
    else:
        settled = settings.equivalent is Equivalent.IDLE and _make_idle(case, source)
        if not settled and (case.asked is None or case.asked.shares is not None):
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


def _make_idle(case: Case, source: str) -> bool:
    if IDLE not in case.facts.files:
        return False
    return make_idle(case, Why(HANDLER, IDLE_RULE, source), IDLE_AFTER_RULE)
