"""Decisions about new containers, kept so that equal containers get the same one.

A decision is a pure function of the plan, the pod and the container. Most containers of
a node are replicas of each other or have one of a few sizes, and comparing the inputs
is much cheaper than deciding again, above all with every handler on. The key has every
input that can change a decision; a test compares cached and fresh decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.convert import Resources
from nriplugin.engine.cache_key import deciding_keys
from nriplugin.kube.annotations import ours
from nriplugin.kube.qos import qos_of_cgroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.engine.decision import Decision
    from nriplugin.engine.model import Container, Pod
    from nriplugin.engine.settings import EngineConfig
    from nriplugin.kube.managed import Managed
    from nriplugin.state.decision_summary import DecisionSummary

# About 2 KB each. A node with more different containers than this gains nothing from
# a larger cache.
MAX_DECISIONS = 512
# A key contains labels and annotations, and an annotation may have up to 256 KiB.
# Decisions with longer keys are not cached, so that the cache stays small.
MAX_KEY_CHARACTERS = 4 * 1024

_UNIFIED = Resources._fields.index("unified")


class CachedDecision(NamedTuple):
    """A decision about a new container, and the things that follow from it."""

    decision: Decision
    summary: DecisionSummary
    # The record of the container: the files that nriplugin sets, the files that others
    # had set before, and the numbers that the decision was made of.
    managed: Managed
    # Whether the decision sets memory.min or memory.low, which have an effect only if
    # the cgroups above the container have enough protection, too.
    protects: bool
    # The door's answer for this decision, where the door can send it more than once.
    response: Any
    # In shadow mode: the files that the container would get. `managed` is then empty.
    shadow: Mapping[str, str]


class DecisionCache:
    """The decisions under one plan. Any thread may call it."""

    __slots__ = ("_annotations", "_decisions", "_labels", "_numbers_only")

    def __init__(self, config: EngineConfig, *, numbers_only: bool) -> None:
        """Begin empty; with `numbers_only`, keys contain nothing of the pod."""
        self._decisions: dict[Any, CachedDecision] = {}
        self._numbers_only = numbers_only
        self._labels, self._annotations = deciding_keys(config)

    def __len__(self) -> int:
        return len(self._decisions)

    def key_of(
        self, pod: Pod, container: Container, *, annotated: bool = True
    ) -> tuple[Any, ...] | None:
        """Return a key made of every input that can change a decision.

        None if the key would be too long to keep. `annotated` False says that the pod
        has no annotation with nriplugin's suffix, so that none has to be looked for.
        Every container start computes a key, so this is one flat function.
        """
        resources = container.resources
        unified = resources.unified
        explicit, length = None, 0
        if unified:
            explicit = tuple(sorted(unified.items()))
            length = sum([len(file) + len(value) for file, value in explicit])
            if length > MAX_KEY_CHARACTERS:
                return None
        # All numbers are in the key, also those that only lead to a refusal. `unified`
        # is replaced by `explicit`, because it may be a protobuf map, which cannot be
        # hashed.
        numbers = (resources[:_UNIFIED], explicit)
        if self._numbers_only:
            return numbers
        labels, annotations = pod.labels, pod.annotations
        texts = [labels.get(key) for key in self._labels]
        texts += [annotations.get(key) for key in self._annotations]
        own = tuple(ours(annotations)) if annotated else ()
        if own or any(texts):
            length += sum([len(text) for text in texts if text])
            length += sum([len(key) + len(value) for key, value in own])
            if length > MAX_KEY_CHARACTERS:
                return None
        return (
            numbers,
            pod.namespace,
            container.name,
            container.oom_score_adj,
            container.memory_request_bytes,
            container.allocated_request_bytes,
            pod.qos_class or qos_of_cgroup(pod.cgroup_parent),
            pod.oci_runtime,
            pod.curve,
            tuple(texts),
            own,
        )

    def get(self, key: tuple[Any, ...] | None) -> CachedDecision | None:
        """Return the decision about an equal container, if the cache has one."""
        return self._decisions.get(key)

    def put(self, key: tuple[Any, ...] | None, decision: CachedDecision) -> None:
        """Keep a decision; if the cache is full, all others are dropped first.

        That is cheaper than tracking which decision was used last, and the cache only
        fills up on a node with few equal containers.
        """
        if key is not None:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[key] = decision
