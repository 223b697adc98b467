"""crun with systemd has the process in a cgroup of its own, below the container's.

`unified` goes there. The container's own, a scope, competes with others; it gets
what systemd has a property for, and its weight from shares. What is left out has no
effect unless somebody writes it to the scope as well.
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


def reach_scope(pod: Pod, shares: int | None, facts: NodeFacts, out: Decision) -> None:
    """Have what is sent count for the scope, too."""
    if not has_inner_cgroup(facts, pod):
        return
    weight = out.files.get("cpu.weight")
    native = shares and str(weight_of(shares, pod.curve or facts.curve))
    if weight is not None and native and weight != native:
        _again("cpu.weight", WEIGHT_RULE, facts, out)
    if "cpu.max.burst" in out.files:
        _again("cpu.max.burst", BURST_RULE, facts, out)


def _again(file: str, rule: Rule, facts: NodeFacts, out: Decision) -> None:
    why = out.why(file)
    if not facts.writable:
        out.leave(
            f"{file} of the scope",
            f"{why.handler}: crun with systemd does not set it; the executor is off",
        )
        return
    written = {w.file for w in out.writes if w.when is When.AFTER}
    if file not in written:
        why, value = why._replace(rule=rule), out.files[file]
        write = Write(file, value, Level.CONTAINER, When.AFTER, False, why)
        out.writes.append(write)
