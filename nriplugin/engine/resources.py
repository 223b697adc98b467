"""The handler `resources`: the conversion of what kubelet sends.

With nothing else on, a node behaves as without us, up to the curve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert import convert
from nriplugin.convert.conversion import EXPLICIT_RULE
from nriplugin.engine.model import CORE_FILES

if TYPE_CHECKING:
    from nriplugin.convert import Curve, Resources
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import NodeFacts


def decide_resources(
    given: Resources, curve: Curve, facts: NodeFacts, out: Decision
) -> None:
    """Send cpu.weight, cpu.max and memory.max.

    Raises:
        ConversionError: a value has no valid counterpart; then none is sent.
    """
    out.conversion = conversion = convert(given, curve)
    core, taken = facts.core, out.files
    for file, value, rule in conversion.derived:
        if rule is EXPLICIT_RULE:
            out.leave(file, "resources: set explicitly, which wins")
        elif file in taken:
            out.leave(file, f"resources: set by {out.why(file).handler}")
        elif file in core:
            out.set(file, value, rule)
        elif file in CORE_FILES:
            out.leave(file, "resources: this node has no such file")
