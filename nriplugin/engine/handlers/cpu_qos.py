"""The handler `cpuQoS`: a QoS level for the CPU.

openEuler's kernels have cpu.qos_level. An upstream kernel has cpu.idle, which means the
same as the level BE; containers of the other levels keep the weight that follows from
their CPU request.

On a node with cgroup v1, Anolis' cpu.bvt_warp_ns takes the same numbers as
cpu.qos_level. cpu.idle is not used there: runc writes cpu.shares at every update, which
the kernel refuses for an idle container, and so the update would fail.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Level, When, Why
from nriplugin.engine.handler import Handler, Option
from nriplugin.engine.idle import FILE as IDLE
from nriplugin.engine.idle import make_idle
from nriplugin.engine.qos_level import KEY, VOLCANO_KEY, QoSLevel, qos_level
from nriplugin.kube.podgroup import PREEMPTABLE_KEY

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext

NAME = "cpuQoS"
FILE = "cpu.qos_level"
BVT = "cpu.bvt_warp_ns"

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


class Equivalent(StrEnum):
    """What stands for a BE level on a kernel without cpu.qos_level."""

    IDLE = "idle"
    WEIGHT = "weight"
    NONE = "none"


class CPUQoSSettings(NamedTuple):
    """A QoS level for the CPU."""

    enabled: bool = False
    fail: bool = False
    level: QoSLevel | None = None
    preemptable: QoSLevel | None = None  # the level of a pod that Volcano may preempt
    equivalent: Equivalent = Equivalent.IDLE


def decide_cpu_qos(context: HandlerContext, settings: CPUQoSSettings) -> None:
    """Send or write cpu.qos_level; else cpu.idle or the least weight for BE."""
    found = qos_level(context, NAME, settings.level, settings.preemptable)
    if found is None:
        return
    level, source = found
    file = _level_file(context)
    if file is not None:
        if not context.updating:
            _set_level(context, file, level, source)
    elif context.facts.direct_only:
        context.decision.leave(
            f"QoS level {level}",
            f"{NAME}: this node has neither {FILE} nor {BVT}; the shares stay",
        )
    elif level is not QoSLevel.BE or settings.equivalent is Equivalent.NONE:
        context.decision.leave(
            f"QoS level {level}",
            f"{NAME}: this node has no {FILE}; the weight of the request stays",
        )
    else:
        settled = settings.equivalent is Equivalent.IDLE and _make_idle(context, source)
        if not settled and context.shares_requested:
            context.send("cpu.weight", "1", Why(NAME, WEIGHT_RULE, source))


def _level_file(context: HandlerContext) -> str | None:
    """Return the file that takes a level on this node, if there is one."""
    files = context.facts.files
    if FILE in files:
        return FILE
    return BVT if context.facts.direct_only and BVT in files else None


def _set_level(
    context: HandlerContext, file: str, level: QoSLevel, source: str
) -> None:
    why = Why(NAME, LEVEL_RULE, source)
    value = str(LEVELS[level])
    if level is QoSLevel.BE:
        context.send(file, value, why)
    else:
        # Some kernels take only 0 and -1, and only the write shows which kernel this
        # is. A direct write after the start cannot fail the container.
        context.write(file, value, why)
    if context.facts.writable:
        context.write(file, value, why, level=Level.POD, when=When.AFTER)


def _make_idle(context: HandlerContext, source: str) -> bool:
    if IDLE not in context.facts.files:
        return False
    return make_idle(context, Why(NAME, IDLE_RULE, source), IDLE_AFTER_RULE)


CPU_QOS = Handler(
    NAME,
    CPUQoSSettings,
    decide_cpu_qos,
    options=(
        Option("level", QoSLevel, nullable=True),
        Option("preemptable", QoSLevel, nullable=True),
        Option("equivalent", Equivalent),
    ),
    annotations=(KEY,),
    foreign_annotations=(VOLCANO_KEY, PREEMPTABLE_KEY),
    foreign_labels=(PREEMPTABLE_KEY,),
)
