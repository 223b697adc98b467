"""Which of a container's cgroup v2 values came from us.

`owned_by_record` knows it, from the record that travels with the container.
`conclude_ours` is for containers without one: those that were made while the plugin was
away and got their values by an update. It compares what a container has with what the
engine would set, because a runtime shows a value but not who asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nriplugin.convert.model import UNLIMITED
from nriplugin.engine.allowed_files import OWNABLE
from nriplugin.engine.context import wishes_in
from nriplugin.engine.deciding import decide
from nriplugin.engine.decision import HandlerFailed
from nriplugin.engine.model import CORE_FILES

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nriplugin.convert.model import Amount
    from nriplugin.engine.model import Container, NodeFacts, Pod
    from nriplugin.engine.settings import EngineConfig
    from nriplugin.kube.managed import Managed

# Files that kubelet sets itself. A value of any other file that a handler would set
# today is ours, even if the handler would choose another value now.
_KUBELETS = frozenset(
    {"memory.min", "memory.low", "memory.high", "memory.swap.max", "memory.oom.group"}
)
# Stands for a value that we set and do not know, and so equals none.
UNKNOWN = ""


def owned_by_record(
    managed: Managed, unified: Mapping[str, str], *, shown: bool
) -> dict[str, str]:
    """Return the files that came from us, by the record made with the container.

    `unified` is what the runtime keeps for the container, `shown` whether it tells
    plugins of that at all. A file of the conversion that is not in the record came with
    an update, and is taken for ours: if it was, and we left it alone, it would undo
    every resize from now on.
    """
    owned = dict(managed.files)
    for file in CORE_FILES - managed.others.keys():
        if not shown:
            owned.setdefault(file, UNKNOWN)
        elif file in unified:
            owned[file] = unified[file]
    if shown:
        owned.update((file, unified[file]) for file in managed.files if file in unified)
    return owned


def others_files(unified: Mapping[str, str], sent: Collection[str]) -> dict[str, str]:
    """Return the files with somebody else's value, to be recorded as not ours.

    `unified` is what a container comes with, `sent` the files that we set.
    """
    if not unified:
        return {}
    wishes = wishes_in(unified).items()
    return {f: v for f, v in wishes if f in OWNABLE and f not in sent}


def conclude_ours(
    pod: Pod, container: Container, facts: NodeFacts, config: EngineConfig
) -> dict[str, str]:
    """Return which of a container's cgroup v2 values came from us, as far as it shows.

    Those that we would set today, or would have for the memory limit that we once set:
    kubelet may have changed it while we were away. Of files that kubelet has no use
    for, any value; but cpu.weight, cpu.max and memory.max only together, because the
    conversion never sets one of them without the others, and another plugin does.
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
    """Return which values are what we would set beside a memory limit."""
    given = container.resources
    bare = given._replace(unified={}, memory_limit_bytes=limit)
    try:
        container = container._replace(resources=bare)
        files = decide(pod, container, facts, config).files
    except HandlerFailed:
        return {}
    converted = CORE_FILES & files.keys()
    together = len(converted) > 1 and converted <= given.unified.keys()
    by_value = _KUBELETS if together else _KUBELETS | CORE_FILES
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
