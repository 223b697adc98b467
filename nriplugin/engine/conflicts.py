"""Values that are valid alone but not together, resolved after all handlers.

Runtimes write `unified` in an order of their own (runc: at random), so two files that
the kernel accepts in one order only must not leave together. The value that gives way
is withdrawn and noted as a refusal of the handler that set it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.validate import quota_in
from nriplugin.engine.ceilings import limit_protection
from nriplugin.engine.decision import Reason
from nriplugin.engine.explicit import quota_of

if TYPE_CHECKING:
    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.decision import Decision


def resolve_conflicts(context: HandlerContext) -> None:
    """Resolve weight and idle, protection and limit, burst and quota."""
    decision = context.decision
    files = decision.files
    if decision.idle and "cpu.weight" in files:
        _withdraw(decision, "cpu.weight", "cpu.idle is 1: the kernel takes no weight")
    limit_protection(context)
    burst = files.get("cpu.max.burst")
    if burst is None or burst == "0":
        return
    explicit = context.explicit.get("cpu.max")
    if explicit == "":
        _withdraw(decision, "cpu.max.burst", "another plugin's cpu.max is not shown")
        return
    quota = quota_of(explicit) if explicit else quota_in(files.get("cpu.max", ""))
    quotas = [quota, context.given.quota_us]
    limits = [quota for quota in quotas if isinstance(quota, int)]
    if not limits:
        _withdraw(decision, "cpu.max.burst", "no quota to burst above")
    elif int(burst) > min(limits):
        _withdraw(
            decision, "cpu.max.burst", f"expected at most the quota, {min(limits)}"
        )


def _withdraw(decision: Decision, file: str, reason: str) -> None:
    text = f"{file} {decision.files[file]}: {reason}"
    decision.refuse(decision.why(file).handler, Reason.CONFLICT, text)
    decision.unset(file)
