"""From the text of a configuration to the settings of the engine, or to an error.

An error has all mistakes of the text; each is one line with the file, the line in it,
the place, the value, and what was expected. What a key of a handler's section becomes
is said by the handler's declaration; this module knows no handler by name.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from nriplugin.config.file import (
    AdoptSection,
    CheckpointSection,
    DirectWritesSection,
    PodGroupsSection,
    PoliciesSection,
    RepairSection,
    VerifySection,
    file_type,
)
from nriplugin.convert import Curve
from nriplugin.convert.curves import AUTO
from nriplugin.documents import load_marked_documents
from nriplugin.engine.handlers import table
from nriplugin.engine.rules import Match, RuleMatch, compile_patterns
from nriplugin.engine.settings import DEFAULT_CONFIG, EngineConfig, Settings
from nriplugin.errors import ConfigError, ConfigMistakes
from nriplugin.policy import FailurePolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.config.file import MatchSection
    from nriplugin.engine.handler import Handler
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
    direct_writes: DirectWritesSection = DirectWritesSection()

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
        ConfigError: not YAML, or an unknown field, or a wrong value; says where. Its
            `lines` are about all mistakes.
    """
    documents = load_marked_documents(text, source)
    if len(documents) > 1:
        raise ConfigError(f"{source}: {len(documents)} documents, expected one")
    if not documents:
        return Config()
    [document] = documents
    mistakes = [(one.line, str(one)) for one in document.duplicates]
    file, wrong = _converted(document.content)
    config = Config() if file is None else _compile(file, wrong)
    for place, about in wrong:
        line = document.line_of(place)
        mistakes.append((line, f"line {line}: {place}{': ' * bool(place)}{about}"))
    if mistakes:
        raise ConfigMistakes(*(f"{source}: {told}" for _, told in sorted(mistakes)))
    return config


def _converted(content: Any) -> tuple[Any, list[tuple[str, str]]]:  # noqa: ANN401
    """Return the content as the types of the file have it, and what is wrong, where.

    The file is None if there is nothing, or nothing that can be made of it.
    """
    if content is None:
        return None, []
    try:
        return msgspec.convert(content, file_type()), []
    except msgspec.ValidationError:
        # Late: only a file with a mistake needs it.
        from nriplugin.config.mistakes import all_mistakes

        file, mistakes = all_mistakes(content, file_type())
        return file, [(one.place, one.text) for one in mistakes]


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


def _compile(
    file: Any,  # noqa: ANN401 - see config.file.file_type
    wrong: list[tuple[str, str]],
) -> Config:
    """Return what a file means; add the place and the text of each mistake to a list.

    What is wrong has the meaning of what is not there.
    """
    origins: dict[str, str] = {}
    policy = None if file.failure_policy is UNSET else file.failure_policy
    base = _settings(Settings(shadow=file.shadow), file, "", origins, policy, wrong)
    rules = []
    for index, rule in enumerate(file.rules):
        where = f"rules[{index}]"
        name = where if rule.name is UNSET else f"{where} ({rule.name})"
        own = dict(origins)
        below = base if rule.shadow is UNSET else base.with_shadow(rule.shadow)
        settings = _settings(below, rule, f"{where}.", own, None, wrong, rule=name)
        match = _match(rule.match, f"{where}.match", wrong)
        rules.append(RuleMatch(match, settings))
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
        pod_groups=_one_source(file.pod_groups, wrong),
        policies=file.policies,
        direct_writes=file.direct_writes,
    )
    enforces = [rule for rule in rules if not rule.settings.shadow]
    return config.in_shadow() if base.shadow and not enforces else config


def _one_source(
    section: PodGroupsSection, wrong: list[tuple[str, str]]
) -> PodGroupsSection:
    given = {
        "file": section.file,
        "kubeconfig": section.kubeconfig,
        "inCluster": section.in_cluster,
    }
    named = [name for name, value in given.items() if value]
    if len(named) > 1:
        about = f"{' and '.join(named)}, expected only one of them"
        wrong.append(("podGroups", about))
    return section


def _settings(
    below: Settings,
    sections: object,
    where: str,
    origins: dict[str, str],
    failure_policy: FailurePolicy | None,
    wrong: list[tuple[str, str]],
    rule: str = "",
) -> Settings:
    """Lay the sections of the handlers over settings.

    Args:
        below: the settings that hold where the sections say nothing.
        sections: the file or one of its rules.
        where: its place in the file, to begin a path with.
        origins: takes the place of every setting that the sections have.
        failure_policy: of the handlers whose section has none.
        wrong: takes the place and the text of every mistake.
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
                setting = option.setting or option.key
                if option.convert is None:
                    values[setting] = given
                    continue
                try:
                    values[setting] = option.convert(given, f"{where}{place}")
                except ConfigError as exc:
                    from nriplugin.config.mistakes import of_items  # late, as above

                    wrong += of_items(option.convert, given, f"{where}{place}", exc)
        if handler.exclusive is not None:
            with _noting(wrong):
                _only_one(values, *handler.exclusive, f"{where}{handler.name}")
        changed.append(own._replace(**values))
    return Settings(*changed, rule=rule, origins=origins, shadow=below.shadow)


@contextmanager
def _noting(wrong: list[tuple[str, str]]) -> Iterator[None]:
    """Add the place and the text of a ConfigError to a list, and go on."""
    try:
        yield
    except ConfigError as exc:
        place, _, about = str(exc).partition(": ")
        wrong.append((place, about))


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


def _match(section: MatchSection, where: str, wrong: list[tuple[str, str]]) -> Match:
    patterns: dict[str, Any] = {}
    for one in msgspec.structs.fields(section):
        given = getattr(section, one.name)
        if given is UNSET:
            continue
        here = f"{where}.{one.encode_name}"
        if isinstance(given, dict):
            own = patterns[one.name] = {}
            for key, names in given.items():
                with _noting(wrong):
                    own[key] = _pattern(names, f"{here}.{key}")
        else:
            with _noting(wrong):
                patterns[one.name] = _pattern(given, here)
    return Match(**patterns)


def _pattern(names: str | list[str], where: str) -> Pattern:
    if not names:
        raise ConfigError(f"{where}: [], expected at least one name")
    return compile_patterns([names] if isinstance(names, str) else names)
