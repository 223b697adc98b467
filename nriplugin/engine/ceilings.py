"""No protection above what a container may use, whoever asked for either.

memory.low and memory.min say what is not to be reclaimed, memory.high and memory.max
how much there may be. Protection above them promises what the container cannot have,
and takes it from its neighbours' share of the protection of their parent.

A handler looks at its own files only, so this comes after all of them. What the
container carries explicitly is never changed: then it is our own file that gives way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.model import UNLIMITED
from nriplugin.convert.result import Rule
from nriplugin.convert.validate import bytes_in
from nriplugin.engine.context import UNSET, wishes_in
from nriplugin.engine.decision import UPDATES, Level, Why

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert.model import Amount
    from nriplugin.engine.context import Case

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


def settle_protection(case: Case) -> None:
    """Lower protection of ours to what the container may use.

    An update that says nothing about memory leaves it alone.
    """
    foreign = wishes_in(case.given.unified)
    about_memory = case.asked is None or case.memory_comes
    if not about_memory and _FILES.isdisjoint(foreign):
        return
    for file in PROTECTION:
        if file in foreign and file not in case.out.files:
            _give_way(case, foreign, file)
    ceilings = [
        _Ceiling(file, amount)
        for file in (HIGH, MAX)
        if isinstance(amount := _amount(_held(case, foreign, file)), int)
    ]
    ceiling = min(ceilings, key=lambda one: one.amount, default=None)
    for file in PROTECTION:
        if file in case.out.files or file not in foreign:
            _lower(case, file, ceiling)


def _held(case: Case, foreign: Mapping[str, str], file: str) -> str | None:
    """Return what a file of the container will hold; None where nobody sets it."""
    if file in case.out.files:
        return case.out.files[file]
    if file in foreign:
        return foreign[file]
    limit = case.given.memory_limit_bytes
    # An annotation's limit, set at creation, is written again after kubelet's.
    if file == MAX and limit is not None and file not in case.explicit:
        return "max" if limit is UNLIMITED else str(limit)
    old = case.container.resources.unified
    for values in (case.container.ours or {}, case.given.unified, old):
        if file in values:
            return values[file]
    return None


def _give_way(case: Case, foreign: Mapping[str, str], file: str) -> None:
    """Take back a memory.high of ours that is below somebody else's protection."""
    protected, high = _amount(foreign[file]), _amount(_held(case, foreign, HIGH))
    if not isinstance(high, int) or (HIGH in foreign and HIGH not in case.out.files):
        return
    if protected is UNLIMITED or (isinstance(protected, int) and protected > high):
        out = case.out
        out.leave(HIGH, f"{high} is below {file} {foreign[file]}, set explicitly")
        if HIGH in out.files:
            out.unset(HIGH)
        if HIGH in (case.container.ours or {}):
            out.set(HIGH, UNSET[HIGH], NO_HIGH)


def _lower(case: Case, file: str, ceiling: _Ceiling | None) -> None:
    out, has = case.out, (case.container.ours or {}).get(file)
    wanted = out.files.get(file)
    if wanted is None and has is not None:
        # At an update, what an annotation asked for is no file of this decision.
        wanted = case.explicit.get(file, has)
    amount = _amount(wanted)
    if wanted is None or amount is None or file not in case.facts.files:
        return
    if ceiling is None or (isinstance(amount, int) and amount <= ceiling.amount):
        if file not in out.files and wanted != has:  # an earlier ceiling is gone
            out.set(file, wanted, Why(UPDATES, LOWERED_RULE, "an annotation"))
        return
    lowered, source = str(ceiling.amount), f"lowered from {wanted} to {ceiling.file}"
    if file not in out.files:
        if has != lowered:
            out.set(file, lowered, Why(UPDATES, LOWERED_RULE, source))
        return
    why = out.why(file)
    out.leave(f"{file} {wanted}", f"{why.handler}: {source}")
    out.set(file, lowered, why._replace(source=f"{why.source}; {source}"))
    out.writes = [
        write._replace(value=lowered)
        if write.file == file and write.level is Level.ANCESTORS
        else write
        for write in out.writes
    ]


def _amount(text: str | None) -> Amount | None:
    return None if text is None else bytes_in(text)
