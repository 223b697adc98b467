"""How a container becomes idle, stays idle at an update, and stops being idle.

The kernel takes no weight beside cpu.idle = 1, and a runtime makes a weight of shares.
So the way of cpu.idle depends on the runtime: through the door with shares cleared, or
written by nriplugin after the runtime has written its weight. At an update the second
way is taken wherever nriplugin may write, because kubelet reports the shares that the
runtime keeps as the container's CPU request. Two handlers make containers idle, so the
rule is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import When
from nriplugin.engine.runtimes import SYSTEMD, takes_idle

if TYPE_CHECKING:
    from collections.abc import Collection

    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.decision import Decision, Why
    from nriplugin.engine.model import Container

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
    if _goes_through_door(context):
        if not context.shares_requested:
            decision.idle = True  # it is idle, and nothing in this update ends that
            return True
        decision.idle = context.send(FILE, "1", why)
        if decision.idle and context.given.shares is not None:
            decision.cleared = ("cpu.shares",)
        return True
    why = why._replace(rule=written)
    if context.updating:
        _end_for_update(context, why._replace(rule=NOT_IDLE_RULE))
    decision.idle = context.write(FILE, "1", why)
    return decision.idle


def _goes_through_door(context: HandlerContext) -> bool:
    """Return whether the runtime is sent cpu.idle = 1, with shares cleared."""
    if not takes_idle(context.facts, context.pod):
        return False
    if not context.updating:
        return True
    if context.container.resources.shares:
        # The runtime keeps shares and writes their weight at each update, whether or
        # not this one has shares: idle beside them would fail.
        return False
    # kubelet reports the shares that the runtime keeps as the CPU request, and the
    # scheduler counts with that. So the shares of an update are cleared only if
    # nriplugin cannot end idle for as long as the runtime writes their weight.
    return not (context.shares_requested and context.facts.writable)


def _end_for_update(context: HandlerContext, why: Why) -> None:
    """End idle before the runtime writes a weight, which the kernel would refuse.

    A runtime that keeps cpu.idle = 1 writes it again after the weight. Only under
    systemd it makes the unit idle first. So there it is sent 0, which it keeps.
    """
    ended = context.write(FILE, "0", why, when=When.BEFORE)
    if not ended or context.facts.driver != SYSTEMD:
        return
    unified = context.container.resources.unified
    if unified:
        keeps_idle = unified.get(FILE) == "1"
    else:  # not every runtime shows what it keeps
        keeps_idle = takes_idle(context.facts, context.pod)
    if keeps_idle:
        context.send(FILE, "0", why)


def needs_cleared_shares(
    decision: Decision, container: Container, unwritten: Collection[str]
) -> bool:
    """Return whether an update has to be decided once more, without direct writes.

    `unwritten` are the files that nriplugin could not write before the update. With
    cpu.idle among them the runtime would fail on the weight of the shares that pass to
    it, so they have to be cleared. Shares that it keeps already cannot be cleared.
    """
    keeps_shares = bool(container.resources.shares)
    return decision.idle and FILE in unwritten and not keeps_shares


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
