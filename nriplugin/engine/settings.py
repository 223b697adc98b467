"""The settings of every handler, as they are after defaults, file and rules.

Made once, when a configuration is read; a decision only looks up which ones apply.
Annotations, which come last, are read where they are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nriplugin.convert import Curve
    from nriplugin.engine.rules import RuleMatch

MILLION = 1_000_000

DEFAULT = "default"


class QoSLevel(StrEnum):
    """How much a container's latency matters, in Volcano's words."""

    LC = "LC"  # latency critical
    HLS = "HLS"  # highly latency sensitive
    LS = "LS"  # latency sensitive
    BE = "BE"  # best effort


class Equivalent(StrEnum):
    """What stands for a BE level on a kernel without cpu.qos_level."""

    IDLE = "idle"
    WEIGHT = "weight"
    NONE = "none"


class Send(StrEnum):
    """Which converted files go out with an answer."""

    ALWAYS = "always"
    DIFFERENT = "different"  # those that the runtime would write otherwise by itself


class ResourcesSettings(NamedTuple):
    """The conversion."""

    enabled: bool = True
    fail: bool = False
    # Whether an update fails that cannot be converted, where the runtime would write
    # our earlier values over kubelet's new ones.
    fail_lost_update: bool = True
    send: Send = Send.ALWAYS


class MemoryQoSSettings(NamedTuple):
    """Throttling before the limit, and protection of what was requested."""

    enabled: bool = False
    fail: bool = False
    factor_ppm: int | None = 900_000  # None: no memory.high
    protection: bool = True
    guaranteed_ppm: int = 900_000  # of the limit, at most, is memory.min
    raise_ancestors: bool = False
    swap: str | None = None  # the content of memory.swap.max; None: left alone
    oom_group: bool | None = None


class CPUBurstSettings(NamedTuple):
    """Time saved below the quota, to be spent above it."""

    enabled: bool = False
    fail: bool = False
    percent: int | None = None  # of the quota
    microseconds: int | None = None


class CPUQoSSettings(NamedTuple):
    """The level for the CPU."""

    enabled: bool = False
    fail: bool = False
    level: QoSLevel | None = None
    equivalent: Equivalent = Equivalent.IDLE


class MemoryQoSLevelSettings(NamedTuple):
    """The level for memory."""

    enabled: bool = False
    fail: bool = False
    level: QoSLevel | None = None
    equivalent: bool = True
    factor_ppm: int = 800_000  # of BE


class UnifiedAnnotationsSettings(NamedTuple):
    """Which files a pod may set by itself."""

    enabled: bool = False
    fail: bool = False
    allowed: frozenset[str] = frozenset()


# In the order in which they decide: what comes first wins, and the conversion is last,
# so that it does not add a weight beside somebody's idle.
HANDLERS = {
    "unifiedAnnotations": "unified_annotations",
    "cpuQoS": "cpu_qos",
    "cpuBurst": "cpu_burst",
    "memoryQoS": "memory_qos",
    "memoryQoSLevel": "memory_qos_level",
    "resources": "resources",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that applies to a container; `rule` names the rule, if one matched."""

    rule: str = ""
    resources: ResourcesSettings = field(default_factory=ResourcesSettings)
    memory_qos: MemoryQoSSettings = field(default_factory=MemoryQoSSettings)
    cpu_burst: CPUBurstSettings = field(default_factory=CPUBurstSettings)
    cpu_qos: CPUQoSSettings = field(default_factory=CPUQoSSettings)
    memory_qos_level: MemoryQoSLevelSettings = field(
        default_factory=MemoryQoSLevelSettings
    )
    unified_annotations: UnifiedAnnotationsSettings = field(
        default_factory=UnifiedAnnotationsSettings
    )
    # `cpuBurst.percent` -> where it was set.
    origins: Mapping[str, str] = field(default_factory=dict)
    # All follow from the above: who is on, if that is all of us, and who fails.
    active: tuple[str, ...] = field(init=False)
    only_resources: bool = field(init=False)
    failing: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        by_name = {name: getattr(self, key) for name, key in HANDLERS.items()}
        active = tuple(name for name, one in by_name.items() if one.enabled)
        failing = frozenset(name for name, one in by_name.items() if one.fail)
        object.__setattr__(self, "active", active)
        object.__setattr__(self, "only_resources", active == ("resources",))
        object.__setattr__(self, "failing", failing)

    def origin(self, setting: str) -> str:
        """Return where a setting comes from."""
        return self.origins.get(setting, DEFAULT)

    def with_failure_policy(self, *, fail: bool) -> Settings:
        """Return the same, with every handler failing, or none."""
        handlers = {
            key: getattr(self, key)._replace(fail=fail) for key in HANDLERS.values()
        }
        return replace(self, **handlers)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What decisions follow. Without a curve, the node's own is used."""

    curve: Curve | None = None
    base: Settings = field(default_factory=Settings)
    rules: tuple[RuleMatch, ...] = ()

    def without_handlers(self) -> EngineConfig:
        """Return the same with every handler off.

        An update then converts what we once set, or takes it back, and nothing else.
        """
        fail = self.base.resources.fail_lost_update
        resources = ResourcesSettings(enabled=False, fail_lost_update=fail)
        return EngineConfig(curve=self.curve, base=Settings(resources=resources))

    def with_failure_policy(self, *, fail: bool) -> EngineConfig:
        """Return the same, with one answer to the failure of any handler."""
        rules = tuple(
            replace(rule, settings=rule.settings.with_failure_policy(fail=fail))
            for rule in self.rules
        )
        return replace(self, base=self.base.with_failure_policy(fail=fail), rules=rules)


DEFAULT_CONFIG = EngineConfig()
