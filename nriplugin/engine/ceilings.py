"""No more protected memory than a container may use, whichever handlers set the files.

memory.low and memory.min say how much is not reclaimed; memory.high and memory.max say
how much the container may use. Protection above these promises memory that the
container cannot have, and takes it out of its neighbours' share of the protection that
their parent has.

A handler looks at its own files only, so this runs after all of them. An explicit value
is never changed: if it conflicts with a value of nriplugin, the latter gives way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.model import UNLIMITED
from nriplugin.convert.result import Rule
from nriplugin.convert.validate import bytes_in
from nriplugin.engine.decision import UPDATES, Level, Why
from nriplugin.engine.explicit import UNSET, explicit_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert.model import Amount
    from nriplugin.engine.context import HandlerContext

HIGH, MAX = "memory.high", "memory.max"
PROTECTION = ("memory.low", "memory.min")
_FILES = frozenset({HIGH, MAX, *PROTECTION})

LOWERED_RULE = Rule(("memory.high", "memory.limit"), "at most what it may use")
NO_HIGH = Why(
    UPDATES,
    Rule(("memory.low", "memory.min"), "none, as more than that is protected"),
    "the container's resources",
)


class _Ceiling(NamedTuple):
    file: str
    amount: int


def limit_protection(context: HandlerContext) -> None:
    """Lower the protection that nriplugin sets to what the container may use.

    An update that does not mention memory changes nothing here.
    """
    foreign = explicit_values(context.given.unified)
    if not context.memory_requested and _FILES.isdisjoint(foreign):
        return
    for file in PROTECTION:
        if file in foreign and file not in context.decision.files:
            _give_way(context, foreign, file)
    ceiling = None
    for file in (HIGH, MAX):
        amount = _amount(_held(context, foreign, file))
        if isinstance(amount, int) and (ceiling is None or amount < ceiling.amount):
            ceiling = _Ceiling(file, amount)
    for file in PROTECTION:
        if file in context.decision.files or file not in foreign:
            _lower(context, file, ceiling)


def _held(context: HandlerContext, foreign: Mapping[str, str], file: str) -> str | None:
    """Return what a file of the container will hold; None if it is never written."""
    if file in context.decision.files:
        return context.decision.files[file]
    if file in foreign:
        return foreign[file]
    limit = context.given.memory_limit_bytes
    # A memory.max from an annotation is explicit at an update: the runtime keeps it and
    # writes it after kubelet's limit.
    if file == MAX and limit is not None and file not in context.explicit:
        return "max" if limit is UNLIMITED else str(limit)
    old = context.container.resources.unified
    for values in (context.container.ours or {}, context.given.unified, old):
        if file in values:
            return values[file]
    return None


def _give_way(context: HandlerContext, foreign: Mapping[str, str], file: str) -> None:
    """Withdraw a memory.high of nriplugin that is below an explicit protection."""
    protected, high = _amount(foreign[file]), _amount(_held(context, foreign, HIGH))
    if not isinstance(high, int) or (
        HIGH in foreign and HIGH not in context.decision.files
    ):
        return
    if protected is UNLIMITED or (isinstance(protected, int) and protected > high):
        decision = context.decision
        decision.leave(HIGH, f"{high} is below {file} {foreign[file]}, set explicitly")
        if HIGH in decision.files:
            decision.unset(HIGH)
        if HIGH in (context.container.ours or {}):
            decision.set(HIGH, UNSET[HIGH], NO_HIGH)


def _lower(context: HandlerContext, file: str, ceiling: _Ceiling | None) -> None:
    """Lower one file to the ceiling, or raise it if an earlier ceiling is gone."""
    decision, has = context.decision, (context.container.ours or {}).get(file)
    wanted = decision.files.get(file)
    if wanted is None and has is not None:
        # At an update, an annotation's value that the container has already is explicit
        # and not a file of this decision.
        wanted = context.explicit.get(file, has)
    amount = _amount(wanted)
    if wanted is None or amount is None or file not in context.facts.files:
        return
    if ceiling is None or (isinstance(amount, int) and amount <= ceiling.amount):
        if file not in decision.files and wanted != has:  # an earlier ceiling is gone
            decision.set(file, wanted, Why(UPDATES, LOWERED_RULE, "an annotation"))
        return
    lowered, source = str(ceiling.amount), f"lowered from {wanted} to {ceiling.file}"
    if file not in decision.files:
        if has != lowered:
            decision.set(file, lowered, Why(UPDATES, LOWERED_RULE, source))
        return
    why = decision.why(file)
    decision.leave(f"{file} {wanted}", f"{why.handler}: {source}")
    decision.set(file, lowered, why._replace(source=f"{why.source}; {source}"))
    decision.writes = [
        write._replace(value=lowered)
        if write.file == file and write.level is Level.ANCESTORS
        else write
        for write in decision.writes
    ]


def _amount(text: str | None) -> Amount | None:
    if text is None:
        return None
    # Most values are nriplugin's own, and these need no parser.
    return int(text) if text.isascii() and text.isdigit() else bytes_in(text)
