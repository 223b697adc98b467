"""Rules: which settings apply to which container. The first that matches wins."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nriplugin.kube.podgroup import membership

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nriplugin.engine.model import Container, Pod
    from nriplugin.engine.settings import EngineConfig, Settings
    from nriplugin.kube.podgroup import Membership

Pattern = re.Pattern[str]


# Nobody's names are longer, and what is to be matched is text from strangers.
MAX_TEXT = 256


def compile_patterns(texts: Sequence[str]) -> Pattern:
    """Return what matches any of the texts, in which `*` stands for anything."""
    return re.compile("|".join(map(_translate, texts)), re.DOTALL)


def _translate(text: str) -> str:
    first, *others = map(re.escape, text.split("*"))
    if not others:
        return first
    *middle, last = others
    # Atomic: what a `*` took is not given back, or a few of them could take for ever.
    return first + "".join(f"(?>.*?{part})" for part in middle if part) + f".*{last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What a container has to be like; None is "whatever". All have to hold."""

    namespace: Pattern | None = None
    labels: Mapping[str, Pattern] | None = None
    annotations: Mapping[str, Pattern] | None = None
    qos_class: Pattern | None = None
    container: Pattern | None = None
    pod_group: Pattern | None = None
    job: Pattern | None = None
    queue: Pattern | None = None
    task: Pattern | None = None

    @property
    def needs_membership(self) -> bool:
        """Whether Volcano's keys have to be read."""
        wanted = (self.pod_group, self.job, self.queue, self.task)
        return any(pattern is not None for pattern in wanted)


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A rule, ready to use."""

    match: Match
    settings: Settings


def select(
    pod: Pod, container: Container, qos_class: str | None, config: EngineConfig
) -> Settings:
    """Return the settings of the first rule that matches, else the file's."""
    group: Membership | None = None
    for rule in config.rules:
        match = rule.match
        if match.namespace and not _fits(match.namespace, pod.namespace):
            continue
        if match.container and not _fits(match.container, container.name):
            continue
        if match.qos_class and not _fits(match.qos_class, qos_class or ""):
            continue
        if match.labels and not _all_match(match.labels, pod.labels):
            continue
        if match.annotations and not _all_match(match.annotations, pod.annotations):
            continue
        if match.needs_membership:
            if group is None:
                group = membership(pod.namespace, pod.labels, pod.annotations)
            if not _belongs(match, group):
                continue
        return rule.settings
    return config.base


def _all_match(wanted: Mapping[str, Pattern], given: Mapping[str, str]) -> bool:
    for key, pattern in wanted.items():
        value = given.get(key)
        if value is None or not _fits(pattern, value):
            return False
    return True


def _belongs(match: Match, group: Membership) -> bool:
    """Whether the pod is a member of what is asked for; of nothing, it never is."""
    for pattern, value in (
        (match.pod_group, group.group),
        (match.job, group.job),
        (match.queue, group.queue),
        (match.task, group.task),
    ):
        if pattern is not None and not (value and _fits(pattern, value)):
            return False
    return True


def _fits(pattern: Pattern, text: str) -> bool:
    return len(text) <= MAX_TEXT and pattern.fullmatch(text) is not None
