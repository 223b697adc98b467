"""From the text of a configuration to what the engine follows, or one clear error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from nriplugin.config.file import (
    AdoptSection,
    ConfigFile,
    Handlers,
    HandlerSection,
    MatchSection,
    RepairSection,
)
from nriplugin.convert import Curve
from nriplugin.convert.curves import AUTO
from nriplugin.documents import load_documents
from nriplugin.engine import settings as engine
from nriplugin.engine.allowed_files import ALLOWABLE
from nriplugin.engine.rules import Match, RuleMatch, compile_patterns
from nriplugin.errors import ConfigError
from nriplugin.policy import FailurePolicy

if TYPE_CHECKING:
    from nriplugin.engine.rules import Pattern

# The names in the file, by those in the code.
_SECTIONS = {key: name for name, key in engine.HANDLERS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a user can set. Every field has a default that does no harm."""

    failure_policy: FailurePolicy = FailurePolicy.IGNORE
    engine: engine.EngineConfig = engine.DEFAULT_CONFIG
    adopt: AdoptSection = field(default_factory=AdoptSection)
    repair: RepairSection = field(default_factory=RepairSection)


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
        return _compile(msgspec.convert(document, ConfigFile))
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
    """Return what a configuration file holds.

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
    """Add what msgspec leaves unsaid: which values there are."""
    if "enum value" not in message:
        return message
    path = message.rpartition(" - at `")[2].rstrip("`")
    for name, values in (
        ("failurePolicy", FailurePolicy),
        ("level", engine.QoSLevel),
        ("equivalent", engine.Equivalent),
        ("send", engine.Send),
        ("curve", (AUTO, *Curve)),
        ("qosClass", ("Guaranteed", "Burstable", "BestEffort")),
        ("swap", ("max or bytes",)),
    ):
        if f".{name}" in path:
            return f"{message}, expected {' or '.join(values)}"
    return message


def _compile(file: ConfigFile) -> Config:
    origins: dict[str, str] = {}
    policy = None if file.failure_policy is UNSET else file.failure_policy
    base = _settings(engine.Settings(), file, "", origins, policy)
    rules = []
    for index, rule in enumerate(file.rules):
        where = f"rules[{index}]"
        name = where if rule.name is UNSET else f"{where} ({rule.name})"
        own = dict(origins)
        settings = _settings(base, rule, f"{where}.", own, None, rule=name)
        rules.append(RuleMatch(_match(rule.match, f"{where}.match"), settings))
    return Config(
        failure_policy=policy or FailurePolicy.IGNORE,
        engine=engine.EngineConfig(
            curve=None if file.curve == AUTO else Curve(file.curve),
            base=base,
            rules=tuple(rules),
        ),
        adopt=file.adopt,
        repair=file.repair,
    )


def _settings(
    below: engine.Settings,
    handlers: Handlers,
    where: str,
    origins: dict[str, str],
    failure_policy: FailurePolicy | None,
    rule: str = "",
) -> engine.Settings:
    """Lay the sections over settings; `failure_policy` is that of those without one."""
    changed: dict[str, Any] = {}
    for key, name in _SECTIONS.items():
        section: HandlerSection = getattr(handlers, key)
        values: dict[str, Any] = {}
        if failure_policy is not None:
            values |= _policy(key, failure_policy)
        for one in msgspec.structs.fields(section):
            given = getattr(section, one.name)
            if given is not UNSET:
                here = f"{name}.{one.encode_name}"
                origins[here] = f"{where}{here}"
                if one.name == "failure_policy":
                    values |= _policy(key, given)
                else:
                    setting, value = _value(one.name, given, f"{where}{here}")
                    values[setting] = value
        if key == "cpu_burst":
            _only_one(values, "percent", "microseconds", f"{where}{name}")
        changed[key] = getattr(below, key)._replace(**values)
    return engine.Settings(rule=rule, origins=origins, **changed)


def _policy(handler: str, policy: FailurePolicy) -> dict[str, bool]:
    """Return what a failure policy that stands in the file means for a handler."""
    fail = policy is FailurePolicy.FAIL
    if handler == "resources":
        return {"fail": fail, "fail_lost_update": fail}
    return {"fail": fail}


def _only_one(values: dict[str, Any], one: str, other: str, where: str) -> None:
    """Let either of two settings take the other's place."""
    if values.get(one) is not None and values.get(other) is not None:
        raise ConfigError(f"{where}: {one} and {other}, expected only one of them")
    for given, replaced in ((one, other), (other, one)):
        if values.get(given) is not None:
            values[replaced] = None


def _value(field: str, given: Any, where: str) -> tuple[str, Any]:  # noqa: ANN401
    """Return the engine's name and value of a field."""
    if field == "throttling_factor":
        return "factor_ppm", None if given is None else round(given * engine.MILLION)
    if field == "guaranteed_protection":
        return "guaranteed_ppm", round(given * engine.MILLION)
    if field == "swap":
        return field, None if given is None else str(given)
    if field == "allowed":
        for index, file in enumerate(given):
            if file not in ALLOWABLE:
                raise ConfigError(
                    f"{where}[{index}]: {file!r}, expected one of "
                    f"{', '.join(sorted(ALLOWABLE))}"
                )
        return field, frozenset(given)
    return field, given


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
