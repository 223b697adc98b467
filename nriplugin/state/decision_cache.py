"""Answers given before: containers that are alike get the same one again.

A decision is pure, and most of a node's containers are replicas of each other or have
the same few sizes. To look at what counts costs less than to decide anew, by far when
all handlers are on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.api import view_pb2 as view
from nriplugin.doors.nri.messages import name_of
from nriplugin.engine.cache_key import deciding_keys
from nriplugin.kube.annotations import SUFFIX, ours
from nriplugin.kube.qos import qos_of_cgroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.api import nri_pb2 as nri
    from nriplugin.convert import Curve
    from nriplugin.engine.decision import Decision
    from nriplugin.engine.settings import EngineConfig

# Some 2 KB each; when there are more, the node has no pattern worth remembering.
MAX_ANSWERS = 512
# An annotation may have 256 KiB, and a key keeps those that count.
MAX_POD_BYTES = 16 * 1024
# A container's cgroup v2 values may be as long as a message, and a key keeps them.
MAX_UNIFIED_CHARACTERS = 4 * 1024

_OURS = SUFFIX.encode()
_parse_pod = view.PodSandbox.FromString


class CachedAnswer(NamedTuple):
    """What was decided, and what follows from it."""

    decision: Decision
    response: nri.CreateContainerResponse | None
    files: Mapping[str, str]  # that the container has, when all is done
    protects: bool  # its memory, which takes more than the container's own files
    # Files that kubelet, a user or an earlier plugin had set, with their values.
    others: Mapping[str, str]
    numbers: str  # that it was decided by, as in our record


class Answered:
    """The answers under one plan."""

    __slots__ = ("_answers", "_curves", "_plain", "_telling")

    def __init__(
        self, config: EngineConfig, curves: Mapping[str, Curve], *, plain: bool
    ) -> None:
        """Remember nothing yet; with `plain`, pods do not count."""
        self._answers: dict[Any, CachedAnswer] = {}
        self._curves = curves
        self._plain = plain
        self._telling = deciding_keys(config)

    def __len__(self) -> int:
        return len(self._answers)

    def key_of(self, request: view.CreateContainerRequest) -> tuple[Any, ...] | None:
        """Return all that counts for a decision; None if that is too much to keep.

        In the way of every container start, so it is one flat function.
        """
        container = request.container
        linux = container.linux
        resources = linux.resources
        cpu, unified = resources.cpu, resources.unified
        explicit = None
        if unified:
            explicit = tuple(sorted(unified.items()))
            held = sum([len(file) + len(value) for file, value in explicit])
            if held > MAX_UNIFIED_CHARACTERS:
                return None
        numbers = (
            cpu.shares.value,
            cpu.quota.value,
            cpu.period.value,
            resources.memory.limit.value,
            explicit,
        )
        if self._plain:
            return numbers
        payload = request.pod
        if len(payload) > MAX_POD_BYTES:
            return None
        pod = _parse_pod(payload)
        labels, annotations = self._telling
        has, says = pod.labels, pod.annotations
        return (
            numbers,
            pod.namespace,
            container.name or name_of(container),
            linux.oom_score_adj.value if linux.HasField("oom_score_adj") else None,
            qos_of_cgroup(pod.linux.cgroup_parent),
            pod.runtime_handler,
            self._curves.get(pod.uid) if self._curves else None,
            tuple([has.get(key) for key in labels]),
            tuple([says.get(key) for key in annotations]),
            tuple(ours(says)) if _OURS in payload else None,
        )

    def get(self, key: tuple[Any, ...] | None) -> CachedAnswer | None:
        """Return the answer to the same question, if there was one."""
        return self._answers.get(key)

    def put(self, key: tuple[Any, ...] | None, answer: CachedAnswer) -> None:
        """Remember an answer."""
        if key is not None:
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[key] = answer
