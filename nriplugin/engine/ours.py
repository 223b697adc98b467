"""Which of a container's cgroup v2 values came from us, where nobody remembers.

After a restart, a runtime shows what a container has, but not whose wish that was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.model import UNLIMITED
from nriplugin.engine.deciding import decide
from nriplugin.engine.decision import HandlerFailed

if TYPE_CHECKING:
    from nriplugin.convert.model import Amount
    from nriplugin.engine.model import Container, NodeFacts, Pod
    from nriplugin.engine.settings import Config

# Files that kubelet sets itself; other cgroup v2 values of a container that are like
# ours in name are ours, even if another configuration made them.
_KUBELETS = frozenset(
    {"memory.min", "memory.low", "memory.high", "memory.swap.max", "memory.oom.group"}
)


def conclude_ours(
    pod: Pod, container: Container, facts: NodeFacts, config: Config
) -> dict[str, str]:
    """Return which of a container's cgroup v2 values came from us, as far as it shows.

    Those that we would set today, or would have for the memory limit that we once set:
    kubelet may have changed it while we were away. And of files that kubelet has no use
    for, any value.
    """
    given = container.resources
    if not given.unified:
        return {}
    ours = _like_ours(pod, container, given.memory_limit_bytes, facts, config)
    limit = _amount(ours.get("memory.max", ""))
    if limit is not None and limit != given.memory_limit_bytes:
        ours |= _like_ours(pod, container, limit, facts, config)
    return ours


def _like_ours(
    pod: Pod,
    container: Container,
    limit: Amount | None,
    facts: NodeFacts,
    config: Config,
) -> dict[str, str]:
    """Return which values are what we would set beside a memory limit."""
    given = container.resources
    bare = given._replace(unified={}, memory_limit_bytes=limit)
    try:
        container = container._replace(resources=bare)
        files = decide(pod, container, facts, config).files
    except HandlerFailed:
        return {}
    return {
        file: given.unified[file]
        for file, value in files.items()
        if file in given.unified
        and (given.unified[file] == value or file not in _KUBELETS)
    }


def _amount(text: str) -> Amount | None:
    if text == "max":
        return UNLIMITED
    return int(text) if text.isdecimal() else None
