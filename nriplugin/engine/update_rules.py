"""What the decision about an update needs beyond that about a new container.

At an update the runtime lays the files of our answer over kubelet's request. Then it
writes the numbers of the request, and over them every `unified` value that it keeps for
the container, those that nriplugin sent earlier included. This module keeps the rules
that follow: values that nriplugin wrote behind the runtime's back are sent again, swap
that the runtime would take away is kept, and files that the runtime drops from an
answer are written by nriplugin itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from nriplugin.convert.model import UNLIMITED
from nriplugin.convert.result import Rule
from nriplugin.engine.allowed_files import check_raw
from nriplugin.engine.decision import UPDATES, Level, When, Why, Write
from nriplugin.engine.model import CORE_FILES
from nriplugin.engine.retract import fail_lost_update
from nriplugin.errors import ConversionError, NRIPluginError

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext

SWAP_RULE = Rule(
    ("memory.swap", "memory.limit"),
    "as before: runtimes answer a new memory limit with no swap",
)
AGAIN = Why(
    UPDATES,
    Rule((), "as decided before: the runtime keeps an older value, and writes it now"),
    "an earlier decision of nriplugin",
)
# The kernel accepts these only in a certain order with other files, which the handlers
# that set them know.
_ORDERED = frozenset({"cpu.max.burst", "cpu.idle"})


def send_again(context: HandlerContext) -> None:
    """Send values that a direct write changed, and of which the runtime keeps older.

    A runtime that shows nothing of what it keeps gets all of them.
    """
    container, decision = context.container, context.decision
    stored = container.resources.unified
    for file, value in container.decided.items():
        kept = stored.get(file, value if stored else None)
        if file in _ORDERED or file in decision.files or kept == value:
            continue
        if file in context.facts.files and file not in context.explicit:
            # The value comes from a record that a user may have edited.
            with suppress(ConversionError):
                check_raw(file, value)
                context.send(file, value, AGAIN)


def complete_update(context: HandlerContext, *, unasked: bool) -> None:
    """Add what depends on all files of the decision; to be called last.

    Raises:
        HandlerFailed: nriplugin may not write, and the update would be lost.
    """
    decision = context.decision
    if decision.files or decision.cleared:
        _keep_swap(context)
    _warn_of_reclaim(context)
    if decision.files and context.facts.drops_unified and not unasked:
        _write_instead(context)


def _keep_swap(context: HandlerContext) -> None:
    """Send the swap that a new memory limit would take away.

    A runtime that gets any answer to an update sets memory plus swap to the limit.
    """
    old = context.container.resources
    limit, swap = old.memory_limit_bytes, old.memory_swap_bytes
    if context.requested.memory_limit_bytes is None or swap is None:
        return
    if "memory.swap.max" in old.unified or "memory.swap.max" in context.explicit:
        return  # the runtime writes this one again, after its own
    if swap is UNLIMITED:
        value = "max"
    elif isinstance(limit, int) and swap > limit:
        value = str(swap - limit)
    else:
        return
    why = Why(UPDATES, SWAP_RULE, "the container's resources")
    with suppress(ConversionError):  # more bytes than the kernel can count
        check_raw("memory.swap.max", value)
        context.send("memory.swap.max", value, why)


def _warn_of_reclaim(context: HandlerContext) -> None:
    """Warn of a new memory limit that is below what the container uses."""
    limit = context.requested.memory_limit_bytes
    used = context.use.memory_bytes if context.use else None
    if isinstance(limit, int) and used is not None and used > limit:
        context.decision.warnings.append(
            f"memory.max {limit}: {used} bytes are in use, which the kernel reclaims, "
            "and kills for what it cannot"
        )


def _write_instead(context: HandlerContext) -> None:
    """Turn all files into direct writes, for a runtime that drops them from answers."""
    decision, facts = context.decision, context.facts
    runtime = f"{facts.runtime} {facts.runtime_version}"
    if not facts.writable and _changes_core_file(context):
        fail_lost_update(context, NRIPluginError(f"{runtime} drops unified at updates"))
    written = {w.file for w in decision.writes if w.level is Level.CONTAINER}
    for file, value in list(decision.files.items()):
        why = decision.why(file)
        decision.unset(file)
        if file in written:
            continue  # a handler has planned the write already, at the right time
        if facts.writable:
            decision.writes.append(
                Write(file, value, Level.CONTAINER, When.AFTER, False, why)
            )
        else:
            decision.leave(
                file,
                f"{why.handler}: {runtime} drops unified at updates, and the executor "
                "is off",
            )


def _changes_core_file(context: HandlerContext) -> bool:
    """Return whether a file of the conversion is to hold another value than before."""
    container = context.container
    kept = {**(container.ours or {}), **container.resources.unified}
    files = context.decision.files
    return any(files[f] != kept.get(f) for f in CORE_FILES & files.keys())
