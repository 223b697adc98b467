"""How a container becomes idle, stays idle at an update, and stops being idle.

The kernel takes no weight beside cpu.idle = 1, and a runtime makes a weight of shares.
So the way of cpu.idle depends on the runtime: through the door with shares cleared, or
written by nriplugin after the runtime has written its weight. Two handlers make
containers idle, so the rule is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import When
from nriplugin.engine.runtimes import takes_idle

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.decision import Why

FILE = "cpu.idle"

NOT_IDLE_RULE = Rule(
    ("cpu.shares",), "for as long as the runtime writes the weight of an update"
)


def make_idle(context: HandlerContext, why: Why, written: Rule) -> bool:
    """Make a container idle, unless a value that wins is against it.

    `why` is for the file that leaves through the door, `written` its rule where
    nriplugin has to write the file itself. Returns False only if nriplugin would have
    to write and may not: then the container is not idle, and nothing is settled.
    """
    decision = context.decision
    if decision.idle or FILE in context.explicit or FILE in decision.files:
        decision.leave(FILE, f"{why.handler}: set already, which wins")
        return True
    if "cpu.weight" in context.explicit or "cpu.weight" in decision.files:
        decision.leave(FILE, f"{why.handler}: a cpu.weight is set, which wins")
        return True
    # A runtime keeps old numbers and writes them again at each update: shares that were
    # not cleared when the container was made are written now, and idle beside them
    # would fail.
    cleared = not context.updating or not context.container.resources.shares
    if takes_idle(context.facts, context.pod) and cleared:
        if not context.shares_requested:
            decision.idle = True  # it is idle, and nothing in this update ends that
            return True
        decision.idle = context.send(FILE, "1", why)
        if decision.idle and context.given.shares is not None:
            decision.cleared = ("cpu.shares",)
        return True
    why = why._replace(rule=written)
    if context.updating:
        # Not idle while the runtime writes the weight, which the kernel would refuse.
        context.write(FILE, "0", why._replace(rule=NOT_IDLE_RULE), when=When.BEFORE)
    decision.idle = context.write(FILE, "1", why)
    return decision.idle


def end_idle(context: HandlerContext, why: Why) -> None:
    """End idle that nriplugin set and no handler asks for now, before a weight comes.

    Without a weight in this update or in what the runtime keeps, idle stays.
    """
    decision, old = context.decision, context.container.resources
    weighed = "cpu.weight" in context.explicit or "cpu.weight" in decision.files
    shares = old.shares or context.requested.shares
    if decision.idle or not (weighed or shares):
        return
    if not context.holds_old_value(FILE, "0"):
        return
    ended = context.write(FILE, "0", why, when=When.BEFORE)
    if FILE in old.unified or takes_idle(context.facts, context.pod):
        # The runtime keeps cpu.idle = 1 and would make the container idle again.
        context.send(FILE, "0", why)
    if ended:
        return
    # The runtime writes the weight of shares first, and the kernel refuses it while the
    # container is idle: this update gives it no weight.
    decision.idle = True
    decision.cleared = ("cpu.shares",)
    if "cpu.weight" in decision.files:
        decision.unset("cpu.weight")
    decision.warnings.append(
        "cpu.weight: the container is idle, and only the executor can end that before "
        "the weight comes: another update is needed"
    )
