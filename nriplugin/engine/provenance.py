"""Which of a container's cgroup v2 values nriplugin set.

A runtime shows a value, but not where it came from. `owned_by_record` knows it from the
record (an annotation) that nriplugin adds when it makes a container. `conclude_ours` is
for containers without a record, which were made while nriplugin was not running and got
their values by a later update: it compares the values with those that the engine would
set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.model import UNLIMITED
from nriplugin.engine.allowed_files import OWNABLE
from nriplugin.engine.decide import decide
from nriplugin.engine.decision import HandlerFailed
from nriplugin.engine.explicit import explicit_values
from nriplugin.engine.idle import FILE as IDLE
from nriplugin.engine.model import CORE_FILES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nriplugin.convert.model import Amount
    from nriplugin.engine.model import Container, NodeFacts, Pod
    from nriplugin.engine.settings import EngineConfig
    from nriplugin.kube.managed import Managed

# Files that kubelet sets as well, so that only an equal value counts as nriplugin's. Of
# any other file that a handler would set, every value counts, also one that the handler
# would not choose now.
_SET_BY_KUBELET = frozenset(
    {"memory.min", "memory.low", "memory.high", "memory.swap.max", "memory.oom.group"}
)
# Stands for a value that nriplugin set and that is not known: it equals no real value.
UNKNOWN = ""


def owned_by_record(
    managed: Managed, unified: Mapping[str, str], *, shown: bool
) -> dict[str, str]:
    """Return the files that nriplugin set, with their values, by a container's record.

    A file of the conversion that the record does not have came with an update, and is
    taken for nriplugin's. If it was left alone although nriplugin had set it, it would
    undo every resize from now on.

    Args:
        managed: the record.
        unified: what the runtime keeps for the container.
        shown: whether the runtime shows plugins what it keeps.
    """
    owned = dict(managed.files)
    for file in CORE_FILES - managed.others.keys():
        if not shown:
            owned.setdefault(file, UNKNOWN)
        elif file in unified:
            owned[file] = unified[file]
    if shown:
        # Of cpu.idle the record counts: a runtime may keep 0 for an idle container,
        # which nriplugin makes idle again after each update (see idle.py).
        later = (managed.files.keys() & unified.keys()) - {IDLE}
        owned.update((file, unified[file]) for file in later)
    return owned


def others_files(unified: Mapping[str, str], sent: Collection[str]) -> dict[str, str]:
    """Return the files that others set, with their values, for a new record.

    `unified` is what a container comes with, `sent` the files that nriplugin sets.
    """
    if not unified:
        return {}
    explicit = explicit_values(unified).items()
    return {f: v for f, v in explicit if f in OWNABLE and f not in sent}


def conclude_ours(
    pod: Pod, container: Container, facts: NodeFacts, config: EngineConfig
) -> dict[str, str]:
    """Return the values of a container that nriplugin must have set, without a record.

    These are the values that it would set today, or would have set for the memory limit
    in its own memory.max: kubelet may have changed the limit while nriplugin was not
    running. Of files that kubelet does not set, any value counts. cpu.weight, cpu.max
    and memory.max count only together, because the conversion never sets one of them
    without the others, and another plugin may.
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
    config: EngineConfig,
) -> dict[str, str]:
    """Return the values that equal what the engine would set beside a memory limit."""
    given = container.resources
    bare = given._replace(unified={}, memory_limit_bytes=limit)
    try:
        container = container._replace(resources=bare)
        files = decide(pod, container, facts, config).files
    except HandlerFailed:
        return {}
    converted = CORE_FILES & files.keys()
    together = len(converted) > 1 and converted <= given.unified.keys()
    by_value = _SET_BY_KUBELET if together else _SET_BY_KUBELET | CORE_FILES
    return {
        file: given.unified[file]
        for file, value in files.items()
        if file in given.unified
        and (given.unified[file] == value or file not in by_value)
    }


def _amount(text: str) -> Amount | None:
    if text == "max":
        return UNLIMITED
    return int(text) if text.isdecimal() else None
