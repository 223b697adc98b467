"""One container's case, as every handler gets it: the inputs, and the decision to fill.

Handlers put values in through `send` and `write`, which know what may go where: never a
file that the node lacks, never over what somebody set explicitly, never unchecked.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from nriplugin.convert.validate import check, quota_in
from nriplugin.engine.decision import Level, Reason, When, Write
from nriplugin.errors import ConversionError
from nriplugin.kube.annotations import NONE, strange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Resources
    from nriplugin.engine.decision import Decision, Why
    from nriplugin.engine.memory import Request
    from nriplugin.engine.model import Container, NodeFacts, Pod, Use
    from nriplugin.engine.settings import Settings
    from nriplugin.kube.annotations import Annotation, Annotations


# What the files of memory QoS hold where nobody set them. kubelet sends these as well,
# where its own is off, so they are no wish of anybody's.
UNSET = {"memory.high": "max", "memory.low": "0", "memory.min": "0"}

# A node's containers share a few values; one that is refused is not remembered.
_check = lru_cache(maxsize=1024)(check)


class Case:
    """Inputs and result."""

    __slots__ = (
        "annotations",
        "asked",
        "container",
        "explicit",
        "facts",
        "given",
        "idle",
        "memory_comes",
        "out",
        "pod",
        "qos_class",
        "request",
        "request_sought",
        "settings",
        "use",
    )

    def __init__(
        self,
        pod: Pod,
        container: Container,
        given: Resources,
        facts: NodeFacts,
        out: Decision,
    ) -> None:
        self.pod = pod
        self.container = container
        # What holds once this is applied: at an update, the old with what is asked.
        self.given = given
        self.explicit = wishes_in(given.unified)
        if container.others:
            self.explicit = {**hidden_files(container), **self.explicit}
        self.facts = facts
        self.settings: Settings = out.settings
        self.out = out
        self.qos_class: str | None = None
        self.annotations: Annotations = NONE
        # Looked for by the first handler that needs it.
        self.request_sought = False
        self.request: Request | None = None
        # Set for an update: what it asks for.
        self.asked: Resources | None = None
        # Whether what follows from the memory limit is to be said, again at an update.
        self.memory_comes = True
        # Set for a container that exists: what it uses.
        self.use: Use | None = None
        # Whether the container is made idle, here or by a write: then it has no weight.
        self.idle = False

    def send(self, file: str, value: str, why: Why) -> bool:
        """Send a file through the door; say why not, where that cannot be."""
        out = self.out
        if file in self.explicit:
            out.leave(file, f"{why.handler}: set explicitly, which wins")
        elif file in out.files:
            out.leave(file, f"{why.handler}: set by {out.why(file).handler}")
        elif file not in self.facts.files:
            out.leave(file, f"{why.handler}: this node has no such file")
        else:
            _check(file, value)
            out.set(file, value, why)
            return True
        return False

    def write(
        self,
        file: str,
        value: str,
        why: Why,
        *,
        level: Level = Level.CONTAINER,
        when: When = When.AFTER,
        part: bool = False,
    ) -> bool:
        """Have the executor write a file, where there is one."""
        if not self.facts.writable:
            where = "" if level is Level.CONTAINER else f" of the {level.value}"
            self.out.leave(
                file + where, f"{why.handler}: only the executor can, and it is off"
            )
            return False
        _check(file, value)
        self.out.writes.append(Write(file, value, level, when, part, why))
        return True

    def left_over(self, file: str, wanted: str) -> bool:
        """Whether a file has something else of ours, which nobody has asked for now."""
        container = self.container
        mine = (container.ours or {}).get(file)
        if mine is None or file in self.explicit or file in self.out.files:
            return False
        stored = container.resources.unified.get(file, wanted)
        return file in self.facts.files and not mine == stored == wanted

    def annotation(self, key: str) -> Annotation | None:
        """Return an annotation of ours."""
        return self.annotations.found.get(key)

    def foreign(self, key: str, handler: str) -> str | None:
        """Return somebody else's annotation of the pod, if it makes any sense."""
        value = self.pod.annotations.get(key)
        if value is None:
            return None
        reason = strange(value)
        if reason:
            self.refuse(handler, f"{key}: {reason}")
            return None
        return value

    def refuse(self, handler: str, text: str) -> None:
        """Say that an annotation is ignored."""
        self.out.refuse(handler, Reason.ANNOTATION, text)


def hidden_files(container: Container) -> dict[str, str]:
    """Return the files that another set, which some runtimes hide from us later.

    A value is empty where it is not known.
    """
    ours = container.ours or {}
    return {file: value for file, value in container.others.items() if file not in ours}


def wishes_in(unified: Mapping[str, str]) -> Mapping[str, str]:
    """Return the cgroup v2 values that somebody set, the same object if that is all."""
    if not unified or all(unified.get(file) != value for file, value in UNSET.items()):
        return unified
    return {file: v for file, v in unified.items() if UNSET.get(file) != v}


def quota_of(cpu_max: str | None) -> int | None:
    """Return the quota in somebody's cpu.max; None if there is none, or no sense."""
    if not cpu_max:
        return None
    try:
        _check("cpu.max", cpu_max)
    except ConversionError:
        return None
    quota = quota_in(cpu_max)
    return quota if isinstance(quota, int) else None
