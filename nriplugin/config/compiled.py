"""From the text of a configuration to the settings of the engine, or to one error.

An error is one line that names the file, the place in it, the value, and what was
expected. What a key of a handler's section becomes is said by the handler's
declaration; this module knows no handler by name.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from nriplugin.config.file import (
    AdoptSection,
    CheckpointSection,
    PodGroupsSection,
    PoliciesSection,
    RepairSection,
    VerifySection,
    file_type,
)
from nriplugin.convert import Curve
from nriplugin.convert.curves import AUTO
from nriplugin.documents import load_documents
from nriplugin.engine.handlers import table
from nriplugin.engine.rules import Match, RuleMatch, compile_patterns
from nriplugin.engine.settings import DEFAULT_CONFIG, EngineConfig, Settings
from nriplugin.errors import ConfigError
from nriplugin.policy import FailurePolicy

if TYPE_CHECKING:
    from nriplugin.config.file import MatchSection
    from nriplugin.engine.handler import Handler, Option
    from nriplugin.engine.rules import Pattern


class Config(NamedTuple):
    """A whole configuration; every default is safe on every node."""

    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    engine: EngineConfig = DEFAULT_CONFIG
    adopt: AdoptSection = AdoptSection()
    repair: RepairSection = RepairSection()
    verify: VerifySection = VerifySection()
    kubelet_checkpoint: CheckpointSection = CheckpointSection()
    pod_groups: PodGroupsSection = PodGroupsSection()
    policies: PoliciesSection = PoliciesSection()

    @property
    def checkpoint_path(self) -> str | None:
        """Return where kubelet's checkpoint is read; None if nothing needs it."""
        section = self.kubelet_checkpoint
        needed = section.enabled and self.engine.uses_memory_requests
        return section.path if needed else None

    def in_shadow(self) -> Config:
        """Return a copy by which decisions are made for show alone, as `--shadow` does.

        No request fails because of a decision that is not enforced.
        """
        return self._replace(
            failure_policy=FailurePolicy.IGNORE, engine=self.engine.in_shadow()
        )


def parse_config(text: str, source: str) -> Config:
    """Read a configuration; an empty one is all defaults.

    Raises:
        ConfigError: not YAML, or an unknown field, or a wrong value; says where.
    """
    documents = load_documents(text, source)
    if len(documents) > 1:
        raise ConfigError(f"{source}: {len(documents)} documents, expected one")
    document = documents[0] if documents else None
    if document is None:
        return Config()
    try:
        return _compile(msgspec.convert(document, file_type()))
    except msgspec.ValidationError as exc:
        raise ConfigError(f"{source}: {_explained(str(exc))}") from exc
    except ConfigError as exc:
        raise ConfigError(f"{source}: {exc}") from exc


def read_config(path: str) -> Config:
    """Read a configuration file.

    Raises:
        ConfigError: as `parse_config`, or the file cannot be read.
    """
    return parse_config(read_text(path), path)


def read_text(path: str) -> str:
    """Return the content of a configuration file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as exc:
        reason = getattr(exc, "strerror", None) or exc
        raise ConfigError(
            f"{path}: cannot be read: {reason}, expected a configuration"
        ) from exc


def _explained(message: str) -> str:
    """Add to msgspec's message about an enumeration which values are accepted."""
    if "enum value" not in message:
        return message
    path = message.rpartition(" - at `")[2].rstrip("`")
    expected: dict[str, Any] = {
        ".failurePolicy": FailurePolicy,
        "$.curve": (AUTO, *Curve),
        ".match.qosClass": ("Guaranteed", "Burstable", "BestEffort"),
    }
    for handler in table.HANDLERS:
        for option in handler.options:
            expected[f".{handler.name}.{option.key}"] = _accepted(option)
    for place, values in expected.items():
        if place in path and values:
            return f"{message}, expected {' or '.join(values)}"
    return message


def _accepted(option: Option) -> tuple[str, ...]:
    """Return the texts that an option accepts; none if any number will do."""
    if isinstance(option.kind, type) and issubclass(option.kind, StrEnum):
        return tuple(option.kind)
    return (*option.words, option.unit) if option.words else ()


def _compile(file: Any) -> Config:  # noqa: ANN401 - see config.file.file_type
    origins: dict[str, str] = {}
    policy = None if file.failure_policy is UNSET else file.failure_policy
    base = _settings(Settings(shadow=file.shadow), file, "", origins, policy)
    rules = []
    for index, rule in enumerate(file.rules):
        where = f"rules[{index}]"
        name = where if rule.name is UNSET else f"{where} ({rule.name})"
        own = dict(origins)
        below = base if rule.shadow is UNSET else base.with_shadow(rule.shadow)
        settings = _settings(below, rule, f"{where}.", own, None, rule=name)
        rules.append(RuleMatch(_match(rule.match, f"{where}.match"), settings))
    config = Config(
        failure_policy=policy or FailurePolicy.IGNORE,
        engine=EngineConfig(
            curve=None if file.curve == AUTO else Curve(file.curve),
            base=base,
            rules=tuple(rules),
        ),
        adopt=file.adopt,
        repair=file.repair,
        verify=file.verify,
        kubelet_checkpoint=file.kubelet_checkpoint,
        pod_groups=_one_source(file.pod_groups),
        policies=file.policies,
    )
    enforces = [rule for rule in rules if not rule.settings.shadow]
    return config.in_shadow() if base.shadow and not enforces else config


def _one_source(section: PodGroupsSection) -> PodGroupsSection:
    given = {
        "file": section.file,
        "kubeconfig": section.kubeconfig,
        "inCluster": section.in_cluster,
    }
    named = [name for name, value in given.items() if value]
    if len(named) > 1:
        raise ConfigError(
            f"podGroups: {' and '.join(named)}, expected only one of them"
        )
    return section


def _settings(
    below: Settings,
    sections: object,
    where: str,
    origins: dict[str, str],
    failure_policy: FailurePolicy | None,
    rule: str = "",
) -> Settings:
    """Lay the sections of the handlers over settings.

    Args:
        below: the settings that hold where the sections say nothing.
        sections: the file or one of its rules.
        where: its place in the file, to begin a path with.
        origins: takes the place of every setting that the sections have.
        failure_policy: of the handlers whose section has none.
        rule: the name of the rule.
    """
    changed = []
    for handler in table.HANDLERS:
        own = below.of(handler.settings)
        values: dict[str, Any] = {}
        if failure_policy is not None:
            values |= _policy(handler, failure_policy)
        section = getattr(sections, handler.name)
        if section.enabled is not UNSET:
            values["enabled"] = section.enabled
            origins[f"{handler.name}.enabled"] = f"{where}{handler.name}.enabled"
        if section.failure_policy is not UNSET:
            values |= _policy(handler, section.failure_policy)
            place = f"{handler.name}.failurePolicy"
            origins[place] = f"{where}{place}"
        for option in handler.options:
            given = getattr(section, option.key)
            if given is not UNSET:
                place = f"{handler.name}.{option.key}"
                origins[place] = f"{where}{place}"
                if option.convert is not None:
                    given = option.convert(given, f"{where}{place}")
                values[option.setting or option.key] = given
        if handler.exclusive is not None:
            _only_one(values, *handler.exclusive, f"{where}{handler.name}")
        changed.append(own._replace(**values))
    return Settings(*changed, rule=rule, origins=origins, shadow=below.shadow)


def _policy(handler: Handler[Any], policy: FailurePolicy) -> dict[str, bool]:
    """Return the settings that a failure policy in the file stands for."""
    return dict.fromkeys(handler.policy, policy is FailurePolicy.FAIL)


def _only_one(values: dict[str, Any], one: str, other: str, where: str) -> None:
    """Refuse two settings that exclude each other; let one replace the other below."""
    if values.get(one) is not None and values.get(other) is not None:
        raise ConfigError(f"{where}: {one} and {other}, expected only one of them")
    for given, replaced in ((one, other), (other, one)):
        if values.get(given) is not None:
            values[replaced] = None


def _match(section: MatchSection, where: str) -> Match:
    patterns: dict[str, Any] = {}
    for one in msgspec.structs.fields(section):
        given = getattr(section, one.name)
        if given is UNSET:
            continue
        here = f"{where}.{one.encode_name}"
        if isinstance(given, dict):
            patterns[one.name] = {
                key: _pattern(names, f"{here}.{key}") for key, names in given.items()
            }
        else:
            patterns[one.name] = _pattern(given, here)
    return Match(**patterns)


def _pattern(names: str | list[str], where: str) -> Pattern:
    if not names:
        raise ConfigError(f"{where}: [], expected at least one name")
    return compile_patterns([names] if isinstance(names, str) else names)
