"""The settings that apply to a container, after defaults, configuration file and rules.

`Settings` holds the settings of every handler in the table, found by their type. They
are made once, when a configuration is read, and everything that a decision needs of
them on its way is computed then: which handlers are on, which of them fail the request,
which annotations they read. A decision only looks up which `Settings` apply.
Annotations, which win over all of this, are read while deciding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from nriplugin.engine.decision import RESOURCES
from nriplugin.engine.handlers import table
from nriplugin.engine.handlers.resources import ResourcesSettings
from nriplugin.engine.memory import REQUEST_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve
    from nriplugin.engine.handler import Handler, HandlerSettings
    from nriplugin.engine.rules import RuleMatch

DEFAULT = "default"

S = TypeVar("S")


class Settings:
    """The settings of all handlers; treat them as immutable."""

    __slots__ = (
        "_by_type",
        "active",
        "annotations",
        "failing",
        "handlers",
        "only_resources",
        "origins",
        "reads_files",
        "resources",
        "rule",
        "shadow",
    )

    def __init__(
        self,
        *given: HandlerSettings,
        rule: str = "",
        origins: Mapping[str, str] | None = None,
        shadow: bool = False,
    ) -> None:
        """Take the settings of some handlers, and the defaults of all others.

        Args:
            given: at most one of each handler's settings.
            rule: the name of the configuration's rule that they belong to; empty for
                those that apply where no rule matches.
            origins: `cpuBurst.percent` to the place in the file that set it.
            shadow: whether decisions by these settings are for show alone.
        """
        by_type: dict[type, Any] = {one.settings: None for one in table.HANDLERS}
        for one in given:
            if type(one) not in by_type:
                raise TypeError(f"{type(one).__name__}: settings of no known handler")
            by_type[type(one)] = one
        pairs = []
        for handler in table.HANDLERS:
            own = by_type[handler.settings]
            if own is None:
                own = by_type[handler.settings] = handler.settings()
            pairs.append((handler, own))
        on = [(handler, own) for handler, own in pairs if own.enabled]
        self._by_type = by_type
        self.rule = rule
        self.shadow = shadow
        self.origins: Mapping[str, str] = origins or {}
        # The names of the handlers that are on, in the order in which they decide.
        self.active = tuple(handler.name for handler, _ in on)
        self.only_resources = self.active == (RESOURCES,)
        # A decision that is for show alone must not fail a request.
        failing = frozenset(handler.name for handler, own in pairs if own.fail)
        self.failing = frozenset() if shadow else failing
        # The handlers that are on, with their settings, but for the conversion: updates
        # have something to do between these and it.
        self.handlers: tuple[tuple[Handler[Any], Any], ...] = tuple(
            (handler, own) for handler, own in on if handler.name != RESOURCES
        )
        # The conversion's own, which every decision needs.
        self.resources: ResourcesSettings = by_type[ResourcesSettings]
        # What the handlers that are on read of nriplugin's annotations.
        self.annotations = frozenset(
            key for handler, _ in on for key in handler.annotations
        )
        self.reads_files = any(handler.reads_files for handler, _ in on)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Settings):
            return NotImplemented
        mine = (self.rule, self.shadow, self.origins, self._by_type)
        theirs = (other.rule, other.shadow, other.origins, other._by_type)
        return mine == theirs

    __hash__ = None  # type: ignore[assignment] # the origins are a dictionary

    def __repr__(self) -> str:
        own = ", ".join(map(repr, self._by_type.values()))
        rest = f"origins={self.origins!r}, shadow={self.shadow!r}"
        return f"Settings({own}, rule={self.rule!r}, {rest})"

    def of(self, kind: type[S]) -> S:
        """Return one handler's settings, by their type."""
        return cast("S", self._by_type[kind])

    def origin(self, setting: str) -> str:
        """Return the place in the file that set a setting, or `default`."""
        return self.origins.get(setting, DEFAULT)

    def replace(self, *changed: HandlerSettings) -> Settings:
        """Return a copy with other settings of some handlers."""
        kept = {**self._by_type, **{type(one): one for one in changed}}
        return Settings(
            *kept.values(), rule=self.rule, origins=self.origins, shadow=self.shadow
        )

    def with_shadow(self, shadow: bool) -> Settings:
        """Return a copy whose decisions are for show alone, or are not."""
        return Settings(
            *self._by_type.values(),
            rule=self.rule,
            origins=self.origins,
            shadow=shadow,
        )

    def with_failure_policy(self, *, fail: bool) -> Settings:
        """Return a copy in which every handler fails the request, or none does."""
        return self.replace(
            *(own._replace(fail=fail) for own in self._by_type.values())
        )


class EngineConfig(NamedTuple):
    """All that a configuration says about decisions."""

    curve: Curve | None = None  # None: the curve of the node's runtime
    base: Settings = Settings()  # where no rule matches
    rules: tuple[RuleMatch, ...] = ()

    def without_handlers(self) -> EngineConfig:
        """Return a configuration with every handler off.

        A decision about an update then follows the request in the files that nriplugin
        has set before, ends what the request does not ask for, and does nothing else.
        """
        fail = self.base.resources.fail_lost_update
        resources = ResourcesSettings(enabled=False, fail_lost_update=fail)
        return EngineConfig(curve=self.curve, base=Settings(resources))

    def with_failure_policy(self, *, fail: bool) -> EngineConfig:
        """Return a copy in which a failure of any handler has the same consequence."""
        rules = tuple(
            rule._replace(settings=rule.settings.with_failure_policy(fail=fail))
            for rule in self.rules
        )
        base = self.base.with_failure_policy(fail=fail)
        return self._replace(base=base, rules=rules)

    def in_shadow(self) -> EngineConfig:
        """Return a copy whose decisions are all for show alone."""
        rules = tuple(
            rule._replace(settings=rule.settings.with_shadow(True))
            for rule in self.rules
        )
        return self._replace(base=self.base.with_shadow(True), rules=rules)

    @property
    def uses_memory_requests(self) -> bool:
        """Whether a handler needs the memory request, for some containers."""
        every = (self.base, *(rule.settings for rule in self.rules))
        return any(REQUEST_KEY in settings.annotations for settings in every)

    @property
    def shadows(self) -> bool:
        """Whether any container is decided about for show alone."""
        return self.base.shadow or any(rule.settings.shadow for rule in self.rules)


DEFAULT_CONFIG = EngineConfig()
