"""Which policies are on for a container while it runs, and with which settings.

The settings are found as for a decision: by the first rule that matches, changed by the
container's annotations. Nothing here is on the request path.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple

from nriplugin.engine.handlers import table
from nriplugin.engine.rules import select
from nriplugin.kube.annotations import (
    MAX_VALUE,
    NONE,
    SUFFIX,
    ours,
    read_annotations,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.engine.model import Container, Pod
    from nriplugin.engine.policies import Measure, RunTimePolicy
    from nriplugin.engine.settings import EngineConfig, Settings


class ContainerPolicy(NamedTuple):
    """A policy that is on for a container, with the container's own settings."""

    name: str  # of the handler
    policy: RunTimePolicy[Any]
    settings: Any


class ContainerPolicies(NamedTuple):
    """All policies that are on for one container."""

    on: tuple[ContainerPolicy, ...] = ()
    shadow: bool = False  # whether they are for show alone

    @property
    def needs(self) -> frozenset[Measure]:
        """Return what has to be measured for them."""
        return frozenset().union(*(one.policy.needs for one in self.on))


def policies_of(
    pod: Pod, container: Container, qos_class: str | None, config: EngineConfig
) -> ContainerPolicies:
    """Return the policies that a configuration switches on for a container.

    Mistakes in annotations are not reported here: the handler reports them when it
    decides about the container.
    """
    settings = select(pod, container, qos_class, config)
    if not policies_on(settings):
        return ContainerPolicies()
    annotations = NONE
    if pod.annotations:
        annotations = read_annotations(pod.annotations, container.name)
    on = []
    for handler, configured in settings.handlers:
        policy = handler.at_run_time
        if policy is not None:
            own = policy.settings_of(configured, annotations, _ignore)
            if own is not None:
                on.append(ContainerPolicy(handler.name, policy, own))
    return ContainerPolicies(tuple(on), settings.shadow)


def policies_on(settings: Settings) -> tuple[str, ...]:
    """Return the names of the handlers that are on and have a policy."""
    return tuple(
        handler.name
        for handler, _ in settings.handlers
        if handler.at_run_time is not None
    )


def all_needs(config: EngineConfig) -> frozenset[Measure]:
    """Return what the policies need that are on for some containers."""
    every = (config.base, *(rule.settings for rule in config.rules))
    return frozenset().union(
        *(
            handler.at_run_time.needs
            for settings in every
            for handler, _ in settings.handlers
            if handler.at_run_time is not None
        )
    )


def annotations_of_policies(
    annotations: Mapping[str, str],
) -> tuple[tuple[str, str], ...]:
    """Return those of a pod's annotations that a policy reads, on or off.

    A value that is too long is cut, and stays too long for any use.
    """
    keys = {
        key
        for handler in table.HANDLERS
        if handler.at_run_time is not None
        for key in handler.annotations
    }
    return tuple(
        (intern(key), intern(value[: MAX_VALUE + 1]))
        for key, value in ours(annotations)
        if key.partition(SUFFIX)[0] in keys
    )


def needs_texts(config: EngineConfig) -> bool:
    """Return whether rules look at labels, or at annotations of other projects."""
    matches = [rule.match for rule in config.rules]
    return any(
        match.labels or match.annotations or match.needs_membership for match in matches
    )


def _ignore(_: str) -> None:
    """Report no mistake."""
