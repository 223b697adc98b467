"""The handler `resources`: the conversion of what kubelet sends.

With nothing else on, a node behaves as without us, up to the curve.

systemd keeps a quota in steps of 1 % of a CPU. runc from 1.3.2 on rounds what it makes
of the numbers, but not a cpu.max in `unified`, which a `daemon-reload` would then
change. So where systemd is the driver, it is rounded here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from nriplugin.cgroup.systemd_properties import settled
from nriplugin.convert import convert
from nriplugin.convert.conversion import EXPLICIT_RULE
from nriplugin.convert.kernel import MAX_QUOTA_US, quota_in
from nriplugin.convert.result import Rule
from nriplugin.engine.model import CORE_FILES
from nriplugin.engine.runtimes import SYSTEMD

if TYPE_CHECKING:
    from nriplugin.convert import Curve, Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import NodeFacts


ROUNDED_RULE = Rule(
    ("cpu.quota", "cpu.period"),
    "quota and period in one line; the quota rounded up to 1 % of a CPU, as by systemd",
)


def decide_resources(
    given: Resources, curve: Curve, facts: NodeFacts, out: Decision
) -> None:
    """Send cpu.weight, cpu.max and memory.max.

    Raises:
        ConversionError: a value has no valid counterpart; then none is sent.
    """
    out.conversion = conversion = convert(given, curve)
    core, taken, systemd = facts.core, out.files, facts.driver == SYSTEMD
    for file, value, rule in conversion.derived:
        if rule is EXPLICIT_RULE:
            out.leave(file, "resources: set explicitly, which wins")
        elif file in taken:
            out.leave(file, f"resources: set by {out.why(file).handler}")
        elif file in core:
            if systemd and file == "cpu.max":
                lasting = lasting_quota(value)
                value, rule = lasting, rule if lasting == value else ROUNDED_RULE
            out.set(file, value, rule)
        elif file in CORE_FILES:
            out.leave(file, "resources: this node has no such file")


@lru_cache(maxsize=1024)  # a node's containers share a few quotas
def lasting_quota(cpu_max: str) -> str:
    """Return a cpu.max that systemd leaves as it is."""
    rounded = settled("cpu.max", cpu_max)
    quota = quota_in(rounded)
    too_much = isinstance(quota, int) and quota > MAX_QUOTA_US
    return cpu_max if too_much else rounded
