"""The handler `resources`: the conversion of what kubelet sends.

With nothing else on, the values are those that the node's runtime would write by
itself. So with `send: different` a file is sent only where that is not so: where a
chosen curve is not the runtime's, where systemd needs a quota rounded, and where the
runtime keeps an earlier value of ours that it would write again. A runtime that drops
files from updates gets none where we may not write by ourselves: what we sent once
could never be changed again, and every resize would be lost.

systemd keeps a quota in steps of 1 % of a CPU. runc from 1.3.2 on rounds what it makes
of the numbers, but not a cpu.max in `unified`, which a `daemon-reload` would then
change. So where systemd is the driver, it is rounded here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from nriplugin.cgroup.systemd.properties import settled
from nriplugin.convert import convert
from nriplugin.convert.conversion import EXPLICIT_RULE
from nriplugin.convert.result import Rule
from nriplugin.convert.validate import MAX_QUOTA_US, quota_in
from nriplugin.engine.model import CORE_FILES
from nriplugin.engine.runtimes import SYSTEMD
from nriplugin.engine.settings import Send

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve, Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import NodeFacts


ROUNDED_RULE = Rule(
    ("cpu.quota", "cpu.period"),
    "quota and period in one line; the quota rounded up to 1 % of a CPU, as by systemd",
)


def decide_resources(
    given: Resources,
    curve: Curve,
    facts: NodeFacts,
    out: Decision,
    *,
    chosen: Curve | None = None,
    ours: Mapping[str, str] | None = None,
) -> None:
    """Send cpu.weight, cpu.max and memory.max.

    Args:
        given: the container's numbers.
        curve: from shares to weight.
        facts: about the node.
        out: takes the files.
        chosen: the curve, where it is not simply what the runtime does by itself.
        ours: what the runtime has of us already, and would write again.

    Raises:
        ConversionError: a value has no valid counterpart; then none is sent.
    """
    out.conversion = conversion = convert(given, curve)
    core, taken, systemd = facts.core, out.files, facts.driver == SYSTEMD
    native: Mapping[str, str] = {}
    fixed = facts.drops_unified and not facts.writable
    if out.settings.resources.send is Send.DIFFERENT:
        native = _native(given, chosen, facts, ours or {})
    for file, value, rule in conversion.derived:
        if rule is EXPLICIT_RULE:
            out.leave(file, "resources: set explicitly, which wins")
        elif file in taken:
            out.leave(file, f"resources: set by {out.why(file).handler}")
        elif file in core:
            if systemd and file == "cpu.max":
                lasting = lasting_quota(value)
                value, rule = lasting, rule if lasting == value else ROUNDED_RULE
            if fixed and file not in (ours or ()):
                out.leave(file, "resources: no update could change it on this runtime")
            elif native and native.get(file) == value:
                out.leave(file, "resources: the runtime writes this value by itself")
            else:
                out.set(file, value, rule)
        elif file in CORE_FILES:
            out.leave(file, "resources: this node has no such file")


def _native(
    given: Resources, chosen: Curve | None, facts: NodeFacts, ours: Mapping[str, str]
) -> dict[str, str]:
    """Return what the runtime makes of a container's numbers if we say nothing.

    A weight is not among it where we want a certain one and do not know what the
    runtime's would be.
    """
    files = {file: value for file, value, _ in convert(given, facts.curve).derived}
    if chosen is not None and not facts.curve_native:
        files.pop("cpu.weight", None)
    return {file: value for file, value in files.items() if file not in ours}


@lru_cache(maxsize=1024)  # a node's containers share a few quotas
def lasting_quota(cpu_max: str) -> str:
    """Return a cpu.max that systemd leaves as it is."""
    rounded = settled("cpu.max", cpu_max)
    quota = quota_in(rounded)
    too_much = isinstance(quota, int) and quota > MAX_QUOTA_US
    return cpu_max if too_much else rounded
