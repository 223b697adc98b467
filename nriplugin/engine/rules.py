"""The configuration's rules: which settings apply to which container.

The rules are tried in the order of the file, and the first that matches wins. Patterns
come from the operator, but the texts that they are matched with come from anyone who
may create a pod: no pattern may take long on any text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.kube.podgroup import membership

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nriplugin.engine.model import Container, Pod
    from nriplugin.engine.settings import EngineConfig, Settings
    from nriplugin.kube.podgroup import Membership

Pattern = re.Pattern[str]


# No name in Kubernetes is longer, so a longer text matches nothing.
MAX_TEXT = 256


def compile_patterns(texts: Sequence[str]) -> Pattern:
    """Return a pattern that matches any of the texts; `*` stands for any characters."""
    return re.compile("|".join(map(_translate, texts)), re.DOTALL)


def _translate(text: str) -> str:
    first, *others = map(re.escape, text.split("*"))
    if not others:
        return first
    *middle, last = others
    # Atomic groups: without backtracking, a few `*` cannot make a match take for ever.
    return first + "".join(f"(?>.*?{part})" for part in middle if part) + f".*{last}"


class Match(NamedTuple):
    """The conditions of a rule; all that are not None have to hold."""

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
        return not (self.pod_group is self.job is self.queue is self.task is None)


class RuleMatch(NamedTuple):
    """A rule: its conditions, and the settings where they hold."""

    match: Match
    settings: Settings


def select(
    pod: Pod, container: Container, qos_class: str | None, config: EngineConfig
) -> Settings:
    """Return the settings of the first rule that matches, else the base settings."""
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
    """Return whether the pod belongs to the group, job, queue and task of a rule.

    A pod that belongs to none matches no pattern, not even `*`.
    """
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
