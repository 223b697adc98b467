"""The handler `resources`: the conversion of the numbers that kubelet sends.

With no other handler on, the values are those that the node's runtime would write by
itself. So with `send: different` a file is sent only where that is not so: where a
chosen curve is not the runtime's, where systemd needs a rounded quota, and where the
runtime keeps an earlier value of nriplugin that it would write again. A runtime that
drops files from updates gets none where nriplugin may not write them itself: no update
could change what was sent once, and every resize would be lost.

systemd keeps a quota in steps of 1 % of a CPU. runc from 1.3.2 on rounds the quota that
it makes of the numbers, but not a cpu.max in `unified`, which a `daemon-reload` would
then change. So with the systemd driver the quota is rounded here.
"""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert import convert
from nriplugin.convert.conversion import EXPLICIT_RULE
from nriplugin.convert.result import Rule
from nriplugin.convert.validate import MAX_QUOTA_US, quota_in
from nriplugin.engine.decision import RESOURCES
from nriplugin.engine.handler import Handler, Option
from nriplugin.engine.model import CORE_FILES
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.systemd_quota import rounded_cpu_max

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve, Resources
    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import NodeFacts


ROUNDED_RULE = Rule(
    ("cpu.quota", "cpu.period"),
    "quota and period in one line; the quota rounded up to 1 % of a CPU, as by systemd",
)


class Send(StrEnum):
    """Which converted files go out with an answer."""

    ALWAYS = "always"
    DIFFERENT = "different"  # those that the runtime would write otherwise by itself


class ResourcesSettings(NamedTuple):
    """The conversion of shares, quota, period and memory limit."""

    enabled: bool = True
    fail: bool = False
    # Whether an update fails that cannot be converted, if the runtime would then write
    # earlier values of nriplugin over kubelet's new numbers.
    fail_lost_update: bool = True
    send: Send = Send.ALWAYS


def decide_resources(context: HandlerContext, settings: ResourcesSettings) -> None:
    """Convert the requested numbers beside the files that other handlers have set.

    Raises:
        ConversionError: see `convert_resources`.
    """
    given, decision = context.requested, context.decision
    if decision.idle and given.shares is not None:
        given = given._replace(shares=None)
        decision.leave("cpu.weight", f"{RESOURCES}: the container is idle")
    if context.explicit is not given.unified:
        known = {file: value for file, value in context.explicit.items() if value}
        given = given._replace(unified=known)
    ours = context.container.ours
    convert_resources(given, context.facts, decision, context.chosen_curve, ours)


def convert_resources(
    given: Resources,
    facts: NodeFacts,
    decision: Decision,
    chosen: Curve | None,
    ours: Mapping[str, str] | None,
) -> None:
    """Send cpu.weight, cpu.max and memory.max.

    Args:
        given: the container's numbers.
        facts: about the node.
        decision: takes the files.
        chosen: the curve from shares to weight; None for the runtime's own.
        ours: values of nriplugin that the runtime keeps, and would write again.

    Raises:
        ConversionError: a number has no valid counterpart; then no file is sent.
    """
    decision.conversion = conversion = convert(given, chosen or facts.curve)
    files, taken, systemd = facts.files, decision.files, facts.driver == SYSTEMD
    native: Mapping[str, str] | None = None
    fixed = not facts.writable and facts.drops_unified
    if decision.settings.resources.send is Send.DIFFERENT:
        native = _native(given, chosen, facts, ours or {})
    for file, value, rule in conversion.derived:
        if rule is EXPLICIT_RULE:
            decision.leave(file, "resources: set explicitly, which wins")
        elif file in taken:
            decision.leave(file, f"resources: set by {decision.why(file).handler}")
        elif file not in CORE_FILES:
            pass  # the runtime derives it from the same numbers
        elif file not in files:
            decision.leave(file, "resources: this node has no such file")
        else:
            if systemd and file == "cpu.max":
                lasting = lasting_quota(value)
                value, rule = lasting, rule if lasting == value else ROUNDED_RULE
            if fixed and file not in (ours or ()):
                decision.leave(
                    file, "resources: no update could change it on this runtime"
                )
            elif native and native.get(file) == value:
                decision.leave(
                    file, "resources: the runtime writes this value by itself"
                )
            else:
                decision.set(file, value, rule)


def _native(
    given: Resources, chosen: Curve | None, facts: NodeFacts, ours: Mapping[str, str]
) -> dict[str, str]:
    """Return the files that the runtime makes of a container's numbers by itself.

    A weight is not among them if a curve was chosen and the runtime's is not certain.
    """
    files = {file: value for file, value, _ in convert(given, facts.curve).derived}
    if chosen is not None and not facts.curve_native:
        files.pop("cpu.weight", None)
    return {file: value for file, value in files.items() if file not in ours}


@lru_cache(maxsize=1024)  # a node's containers share a few quotas
def lasting_quota(cpu_max: str) -> str:
    """Return a cpu.max that systemd keeps as it is.

    A quota so high that the kernel would refuse the rounded one is not rounded.
    """
    rounded = rounded_cpu_max(cpu_max)
    quota = quota_in(rounded)
    too_much = isinstance(quota, int) and quota > MAX_QUOTA_US
    return cpu_max if too_much else rounded


CONVERSION = Handler(
    RESOURCES,
    ResourcesSettings,
    decide_resources,
    options=(Option("send", Send),),
    policy=("fail", "fail_lost_update"),
)
