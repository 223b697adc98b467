"""What a valid configuration says that has no effect, or not the one that it seems to.

Nothing here is an error: a file may be written ahead of what it needs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from nriplugin.engine.handlers import table
from nriplugin.engine.handlers.memory_qos import MemoryQoSSettings
from nriplugin.engine.handlers.unified_annotations import UnifiedAnnotationsSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nriplugin.config.compiled import Config
    from nriplugin.engine.rules import Match, RuleMatch
    from nriplugin.engine.settings import Settings

# Every class that a pod can be in.
_QOS_CLASSES = ("Guaranteed", "Burstable", "BestEffort")


class ConfigWarning(NamedTuple):
    """The place in the file that has another effect than it seems to, and why."""

    place: str
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def warnings_about(config: Config) -> list[ConfigWarning]:
    """Return what is worth a second look in a configuration."""
    engine = config.engine
    found = _about_order(engine.rules)
    seen = {one.place for one in found}
    found += [
        one
        for one in _without_effect(engine.base, engine.rules)
        if f"{one.place}.match" not in seen
    ]
    every = [("", engine.base)]
    every += [(_name(at), rule.settings) for at, rule in enumerate(engine.rules)]
    for where, settings in every:
        for one in (*_about_switches(where, settings, engine.rules), *_about(settings)):
            place = _place_of(one.place, settings)
            if place not in seen:  # a rule inherits what the file says
                seen.add(place)
                found.append(one._replace(place=place))
    if not any(settings.active for _, settings in every):
        found.append(ConfigWarning("resources.enabled", "off, as all handlers are"))
    if config.repair.enabled and not config.verify.enabled:
        text = "false has no effect: repair.enabled needs the comparison"
        found.append(ConfigWarning("verify.enabled", text))
    return found


def _place_of(setting: str, settings: Settings) -> str:
    """Return where the file has a setting; for a default, where its handler is on."""
    switch = f"{setting.partition('.')[0]}.enabled"
    origins = settings.origins
    return origins.get(setting) or origins.get(switch) or setting


def _name(index: int) -> str:
    return f"rules[{index}]"


def _about_order(rules: Sequence[RuleMatch]) -> list[ConfigWarning]:
    """Return the rules that never apply, because the first that matches wins."""
    found = []
    for index, rule in enumerate(rules):
        place = f"{_name(index)}.match"
        for before in range(index):
            if _covers(rules[before].match, rule.match):
                everything = _is_everything(rules[before].match)
                what = "every container" if everything else "all that this one matches"
                text = f"never applies: {_name(before)} comes first, matches {what}"
                found.append(ConfigWarning(place, text))
                break
    return found


def _covers(first: Match, second: Match) -> bool:
    """Return whether whatever the second one matches is matched by the first, too.

    Only equal conditions are compared, so that the answer may be no although it is so.
    """
    for name, mine in first._asdict().items():
        theirs = getattr(second, name)
        if mine is None or mine == theirs or _is_any(name, mine):
            continue
        if not isinstance(mine, dict) or not isinstance(theirs, dict):
            return False
        if any(theirs.get(key) != pattern for key, pattern in mine.items()):
            return False
    return True


def _is_everything(match: Match) -> bool:
    return _covers(match, type(match)())


def _is_any(condition: str, pattern: re.Pattern[str] | dict[str, object]) -> bool:
    """Return whether a condition holds for every container."""
    if not isinstance(pattern, re.Pattern):
        return not pattern
    if condition == "qos_class":
        return all(pattern.fullmatch(one) for one in _QOS_CLASSES)
    if condition in ("namespace", "container"):  # which every container has
        return ".*" in pattern.pattern.split("|")
    return False


def _without_effect(
    base: Settings, rules: Sequence[RuleMatch]
) -> Iterator[ConfigWarning]:
    """Yield the rules at the end whose containers get what they would get anyway.

    Earlier ones have an effect: they keep containers from the rules that follow.
    """
    for index in reversed(range(len(rules))):
        settings = rules[index].settings
        kinds = [one.settings for one in table.HANDLERS]
        equal = all(settings.of(kind) == base.of(kind) for kind in kinds)
        if not equal or settings.shadow != base.shadow:
            return
        text = "has no effect: no later rule, and the same settings as without it"
        yield ConfigWarning(_name(index), text)


def _about_switches(
    where: str, settings: Settings, rules: Sequence[RuleMatch]
) -> Iterator[ConfigWarning]:
    """Yield the handlers that have settings here, and are switched on nowhere."""
    for handler in table.HANDLERS:
        places = [
            place
            for setting, place in settings.origins.items()
            if setting.startswith(f"{handler.name}.")
            and place.startswith("rules[") == bool(where)
        ]
        switched = f"{handler.name}.enabled" in settings.origins
        used = [settings, *([] if where else [rule.settings for rule in rules])]
        on = any(one.of(handler.settings).enabled for one in used)
        if places and not on and not switched:
            place = places[0].rpartition(".")[0]
            yield ConfigWarning(
                place, f"has no effect: {handler.name}.enabled is not true"
            )


def _about(settings: Settings) -> Iterator[ConfigWarning]:
    """Yield settings of single handlers; the places are those of the settings."""
    memory = settings.of(MemoryQoSSettings)
    if memory.enabled and memory.protection and not memory.raise_ancestors:
        text = (
            "protection has no effect where the cgroups above a container have no "
            "memory.min or memory.low; kubelet sets these only with its own MemoryQoS; "
            "set memoryQoS.raiseAncestors: true, or memoryQoS.protection: false"
        )
        yield ConfigWarning("memoryQoS.protection", text)
    if memory.enabled and not memory.protection:
        for key in ("raiseAncestors", "guaranteedProtection"):
            if f"memoryQoS.{key}" in settings.origins:
                text = "has no effect: memoryQoS.protection is false"
                yield ConfigWarning(f"memoryQoS.{key}", text)
    annotations = settings.of(UnifiedAnnotationsSettings)
    if annotations.enabled and not annotations.allowed:
        text = "empty, so that no annotation of a file is accepted"
        yield ConfigWarning("unifiedAnnotations.allowed", text)
    if settings.shadow:
        for handler in table.HANDLERS:
            place = f"{handler.name}.failurePolicy"
            if settings.of(handler.settings).fail and place in settings.origins:
                yield ConfigWarning(place, "fail has no effect in shadow mode")
