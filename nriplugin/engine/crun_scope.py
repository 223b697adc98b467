"""Direct writes to a container's scope, where crun puts `unified` elsewhere.

With the systemd driver crun puts the process into a cgroup of its own, below the
container's scope, and `unified` goes there. The scope is what competes with other
containers. It gets only the files that systemd has a property for, and its weight from
shares. So a weight that shares would not make, and a burst, are written to the scope as
well; without that they would have no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.curves import weight_of
from nriplugin.convert.result import Rule
from nriplugin.engine.decision import Level, When, Write
from nriplugin.engine.runtimes import has_inner_cgroup

if TYPE_CHECKING:
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import NodeFacts, Pod

WEIGHT_RULE = Rule(
    ("cpu.shares",),
    "again for the scope: crun with systemd gives it the weight that shares make",
)
BURST_RULE = Rule(
    ("cpu.quota",),
    "again for the scope: crun with systemd gives it the quota, and no burst",
)


def reach_scope(
    pod: Pod, shares: int | None, facts: NodeFacts, decision: Decision
) -> None:
    """Have a weight and a burst that are sent written to the scope as well."""
    if not has_inner_cgroup(facts, pod):
        return
    weight = decision.files.get("cpu.weight")
    native = shares and str(weight_of(shares, pod.curve or facts.curve))
    if weight is not None and native and weight != native:
        _write_to_scope("cpu.weight", WEIGHT_RULE, facts, decision)
    if "cpu.max.burst" in decision.files:
        _write_to_scope("cpu.max.burst", BURST_RULE, facts, decision)


def _write_to_scope(
    file: str, rule: Rule, facts: NodeFacts, decision: Decision
) -> None:
    why = decision.why(file)
    if not facts.writable:
        decision.leave(
            f"{file} of the scope",
            f"{why.handler}: crun with systemd does not set it; the executor is off",
        )
        return
    written = {w.file for w in decision.writes if w.when is When.AFTER}
    if file not in written:
        why, value = why._replace(rule=rule), decision.files[file]
        decision.writes.append(
            Write(file, value, Level.CONTAINER, When.AFTER, False, why)
        )
