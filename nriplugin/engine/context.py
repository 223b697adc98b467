"""What a handler gets to decide about one container, and how it puts its values in.

`HandlerContext` holds the inputs, set by its constructor and not changed by handlers.
Results go to the `Decision`, and only through `send` (a file that leaves through the
door) and `write` (a file that nriplugin writes itself). On a node with cgroup v1, where
nothing leaves through a door, `send` does as `write`. These two keep the rules that
hold for every handler: no file that the node lacks, nothing over an explicit value or
over an earlier handler's, and no value that the kernel would refuse.

Whether the decision is about an update is asked as `updating`. At a creation everything
counts as requested, so `shares_requested`, `quota_requested` and `memory_requested`
are true then.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.convert.validate import check
from nriplugin.engine.allowed_files import V1_FILES
from nriplugin.engine.decision import Level, Reason, When, Write
from nriplugin.engine.explicit import explicit_values, recorded_values_of_others
from nriplugin.kube.annotations import NONE, strange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve, Resources
    from nriplugin.engine.decision import Decision, Why
    from nriplugin.engine.memory import Request
    from nriplugin.engine.model import Container, NodeFacts, Pod, Use
    from nriplugin.kube.annotations import Annotation, Annotations


# A node's containers share a few values. A value that is refused is not remembered.
_check = lru_cache(maxsize=1024)(check)

_MAX_INT64 = (1 << 63) - 1


def _checked(file: str, value: str | int) -> str:
    """Return a value as the text of a file, if the kernel will take it."""
    if type(value) is int and 0 <= value <= _MAX_INT64:
        # Every file of bytes or microseconds takes any such number, and its spelling
        # need not be checked: containers of all sizes would fill the cache with it.
        return str(value)
    text = str(value)
    _check(file, text)
    return text


class RequestedUpdate(NamedTuple):
    """What an update asks for."""

    # None for every number that the update does not mention.
    requested: Resources
    # Whether files that follow from the memory limit or request are decided anew.
    memory: bool
    # Whether nriplugin itself starts the update, and not kubelet.
    unasked: bool = False


class HandlerContext:
    """The inputs of one decision, and the decision that it fills."""

    __slots__ = (
        "annotations",
        "chosen_curve",
        "container",
        "decision",
        "explicit",
        "facts",
        "given",
        "memory_request",
        "memory_requested",
        "pod",
        "qos_class",
        "quota_requested",
        "requested",
        "settings",
        "shares_requested",
        "updating",
        "use",
    )

    def __init__(
        self,
        pod: Pod,
        container: Container,
        facts: NodeFacts,
        decision: Decision,
        given: Resources,
        *,
        chosen_curve: Curve | None = None,
        qos_class: str | None = None,
        annotations: Annotations = NONE,
        use: Use | None = None,
        update: RequestedUpdate | None = None,
    ) -> None:
        """Take the inputs.

        Args:
            pod: the container's pod.
            container: the container; at an update, as it is before it.
            facts: about the node.
            decision: takes the results.
            given: the resources that will hold, without values of nriplugin's own.
            chosen_curve: the curve, where it is not simply the node's.
            qos_class: of the pod, where it is known.
            annotations: those of nriplugin that apply to the container.
            use: what the container uses, if it exists and that is known.
            update: the update, if it is one.
        """
        self.pod = pod
        self.container = container
        self.facts = facts
        self.decision = decision
        self.settings = decision.settings
        self.given = given
        self.chosen_curve = chosen_curve
        self.qos_class = qos_class
        self.annotations = annotations
        self.use = use
        # Values that win over every handler's.
        self.explicit: Mapping[str, str] = explicit_values(given.unified)
        if container.others:
            self.explicit = {**recorded_values_of_others(container), **self.explicit}
        # Found by the first handler that asks: see memory.py, which alone sets it.
        self.memory_request: tuple[Request | None] | None = None
        if update is None:
            self.updating = False
            self.requested = given
            self.shares_requested = True
            self.quota_requested = True
            self.memory_requested = True
        else:
            self.updating = True
            self.requested = requested = update.requested
            self.shares_requested = requested.shares is not None
            # The kernel compares the quota with the burst whenever a quota is written.
            self.quota_requested = (
                requested.quota_us is not None or "cpu.max" in requested.unified
            )
            self.memory_requested = update.memory

    @property
    def curve(self) -> Curve:
        """The curve from shares to cpu.weight."""
        return self.chosen_curve or self.facts.curve

    def send(self, file: str, value: str | int, why: Why) -> bool:
        """Send a file through the door; where that must not be, note why not.

        On a node where values can only be written directly, nriplugin writes the file
        when the runtime has acted.

        A value is a text, or the number of bytes or microseconds that a handler has
        computed.

        Raises:
            ConversionError: the kernel would refuse the value.
        """
        decision = self.decision
        if file in self.explicit:
            decision.leave(file, f"{why.handler}: set explicitly, which wins")
        elif file in decision.files:
            decision.leave(file, f"{why.handler}: set by {decision.why(file).handler}")
        elif self.facts.direct_only and file not in V1_FILES:
            decision.leave(file, f"{why.handler}: cgroup v1 has no such file")
        elif file not in self.facts.files:
            decision.leave(file, f"{why.handler}: this node has no such file")
        elif self.facts.direct_only:
            return self.write(file, value, why)
        else:
            decision.set(file, _checked(file, value), why)
            return True
        return False

    def write(
        self,
        file: str,
        value: str | int,
        why: Why,
        *,
        level: Level = Level.CONTAINER,
        when: When = When.AFTER,
        part: bool = False,
    ) -> bool:
        """Have nriplugin write a file itself; note it where writing is off.

        Raises:
            ConversionError: the kernel would refuse the value.
        """
        if not self.facts.writable:
            where = "" if level is Level.CONTAINER else f" of the {level.value}"
            self.decision.leave(
                file + where, f"{why.handler}: only the executor can, and it is off"
            )
            return False
        text = _checked(file, value)
        self.decision.writes.append(Write(file, text, level, when, part, why))
        return True

    def keep_explicit(self, file: str, value: str) -> None:
        """Treat a value that the container has already as explicit from here on."""
        self.explicit = {**self.explicit, file: value}

    def holds_old_value(self, file: str, wanted: str) -> bool:
        """Return whether a value that nriplugin set earlier has to be replaced.

        That is so if the file, or what the runtime keeps for it and writes again, is
        not `wanted`, and neither an explicit value nor this decision sets the file.
        """
        container = self.container
        mine = (container.ours or {}).get(file)
        if mine is None or file in self.explicit or file in self.decision.expected():
            return False
        stored = container.resources.unified.get(file, wanted)
        return file in self.facts.files and not mine == stored == wanted

    def annotation(self, key: str) -> Annotation | None:
        """Return an annotation of nriplugin, by its key without the suffix."""
        return self.annotations.found.get(key)

    def foreign_annotation(self, key: str, handler: str) -> str | None:
        """Return another project's annotation of the pod; refuse unreadable text."""
        value = self.pod.annotations.get(key)
        if value is None:
            return None
        reason = strange(value)
        if reason:
            self.refuse(handler, f"{key}: {reason}")
            return None
        return value

    def refuse(self, handler: str, text: str) -> None:
        """Note that an annotation is ignored, and why."""
        self.decision.refuse(handler, Reason.ANNOTATION, text)
