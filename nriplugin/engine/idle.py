"""How a container becomes idle, stays so when it is updated, and ceases to be.

The kernel takes no weight beside cpu.idle = 1, and runtimes make one of shares. So how
idle gets there depends on the runtime: through the door with shares cleared, or by the
executor when the runtime has written its weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.result import Rule
from nriplugin.engine.decision import When
from nriplugin.engine.runtimes import takes_idle

if TYPE_CHECKING:
    from nriplugin.engine.context import Case
    from nriplugin.engine.decision import Why

FILE = "cpu.idle"

NOT_IDLE_RULE = Rule(
    ("cpu.shares",), "for as long as the runtime writes the weight of an update"
)


def make_idle(case: Case, why: Why, written: Rule) -> bool:
    """Have a container idle, unless somebody's wish is against it.

    `why` is for the door, `written` its rule where the executor has to do it. False
    only where it would have to, and cannot: then the container is not idle.
    """
    out, asked = case.out, case.asked
    if case.idle or FILE in case.explicit or FILE in out.files:
        out.leave(FILE, f"{why.handler}: set already, which wins")
        return True
    if "cpu.weight" in case.explicit or "cpu.weight" in out.files:
        out.leave(FILE, f"{why.handler}: a cpu.weight is set, which wins")
        return True
    # Runtimes keep old numbers and write them again at each update: if the shares were
    # not cleared when the container was made, they are written now.
    cleared = asked is None or not case.container.resources.shares
    if takes_idle(case.facts, case.pod) and cleared:
        if asked is not None and asked.shares is None:
            case.idle = True  # as it is, and nothing in this update changes that
            return True
        case.idle = case.send(FILE, "1", why)
        if case.idle and case.given.shares is not None:
            out.cleared = ("cpu.shares",)
        return True
    why = why._replace(rule=written)
    if asked is not None:
        case.write(FILE, "0", why._replace(rule=NOT_IDLE_RULE), when=When.BEFORE)
    case.idle = case.write(FILE, "1", why)
    return case.idle


def end_idle(case: Case, why: Why) -> None:
    """Wake a container that nobody wants idle any more, before it gets a weight."""
    out, old = case.out, case.container.resources
    weighed = "cpu.weight" in case.explicit or "cpu.weight" in out.files
    shares = old.shares or (case.asked is not None and case.asked.shares)
    if case.idle or not (weighed or shares) or not case.left_over(FILE, "0"):
        return
    awake = case.write(FILE, "0", why, when=When.BEFORE)
    if FILE in old.unified or takes_idle(case.facts, case.pod):
        case.send(FILE, "0", why)  # or the runtime makes it idle again
    if awake:
        return
    # Runtimes write the weight of shares first, and the kernel refuses it.
    case.idle = True
    out.cleared = ("cpu.shares",)
    if "cpu.weight" in out.files:
        out.unset("cpu.weight")
    out.warnings.append(
        "cpu.weight: the container is idle, and only the executor can end that before "
        "the weight comes: another update is needed"
    )
