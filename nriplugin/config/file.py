"""The configuration file's shape: what may stand where, and within which range.

Whatever is left out is UNSET, so that a rule changes only what it names. The schema in
deploy/ is made from these types.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from nriplugin.convert.validate import MAX_QUOTA_US

# Not for type checkers alone: msgspec reads the annotations.
from nriplugin.engine.settings import Equivalent, QoSLevel, Send  # noqa: TC001
from nriplugin.policy import FailurePolicy  # noqa: TC001

Factor: TypeAlias = Annotated[float, Meta(gt=0, le=1)]
Names: TypeAlias = Annotated[str, Meta(min_length=1)] | list[str]
Bytes: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]


class Section(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename="camel",
    omit_defaults=True,
):
    """Every mapping in the file: an unknown field is an error."""


class HandlerSection(Section, frozen=True, kw_only=True):
    """What every handler has."""

    enabled: bool | UnsetType = UNSET
    failure_policy: FailurePolicy | UnsetType = UNSET


class ResourcesSection(HandlerSection, frozen=True, kw_only=True):
    """The conversion of shares, quota, period and memory limit."""

    send: Send | UnsetType = UNSET


class MemoryQoSSection(HandlerSection, frozen=True, kw_only=True):
    """Throttling before the memory limit, protection of the request."""

    throttling_factor: Factor | UnsetType | None = UNSET
    protection: bool | UnsetType = UNSET
    guaranteed_protection: Factor | UnsetType = UNSET
    raise_ancestors: bool | UnsetType = UNSET
    swap: Bytes | Literal["max"] | UnsetType | None = UNSET
    oom_group: bool | UnsetType | None = UNSET


class CPUBurstSection(HandlerSection, frozen=True, kw_only=True):
    """Unused CPU quota, to be spent above the quota later."""

    percent: Annotated[int, Meta(ge=1, le=100)] | UnsetType | None = UNSET
    microseconds: Annotated[int, Meta(ge=1, le=MAX_QUOTA_US)] | UnsetType | None = UNSET


class CPUQoSSection(HandlerSection, frozen=True, kw_only=True):
    """A QoS level for the CPU."""

    level: QoSLevel | UnsetType | None = UNSET
    equivalent: Equivalent | UnsetType = UNSET


class MemoryQoSLevelSection(HandlerSection, frozen=True, kw_only=True):
    """A QoS level for memory."""

    level: QoSLevel | UnsetType | None = UNSET
    equivalent: bool | UnsetType = UNSET
    throttling_factor: Factor | UnsetType = UNSET


class UnifiedAnnotationsSection(HandlerSection, frozen=True, kw_only=True):
    """cgroup v2 files that pods may set by annotation."""

    allowed: list[str] | UnsetType = UNSET


class Handlers(Section, frozen=True, kw_only=True):
    """A section for each handler, in the file and in every rule."""

    resources: ResourcesSection = ResourcesSection()
    memory_qos: MemoryQoSSection = msgspec.field(
        name="memoryQoS", default=MemoryQoSSection()
    )
    cpu_burst: CPUBurstSection = CPUBurstSection()
    cpu_qos: CPUQoSSection = msgspec.field(name="cpuQoS", default=CPUQoSSection())
    memory_qos_level: MemoryQoSLevelSection = msgspec.field(
        name="memoryQoSLevel", default=MemoryQoSLevelSection()
    )
    unified_annotations: UnifiedAnnotationsSection = UnifiedAnnotationsSection()


class MatchSection(Section, frozen=True, kw_only=True):
    """What a container has to be like; `*` in a name stands for anything."""

    namespace: Names | UnsetType = UNSET
    labels: dict[str, Names] | UnsetType = UNSET
    annotations: dict[str, Names] | UnsetType = UNSET
    qos_class: (
        Literal["Guaranteed", "Burstable", "BestEffort"]
        | list[Literal["Guaranteed", "Burstable", "BestEffort"]]
        | UnsetType
    ) = UNSET
    container: Names | UnsetType = UNSET
    pod_group: Names | UnsetType = UNSET
    job: Names | UnsetType = UNSET
    queue: Names | UnsetType = UNSET
    task: Names | UnsetType = UNSET


class RuleSection(Handlers, frozen=True, kw_only=True):
    """Settings for the containers that match; the first rule that does wins."""

    name: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    match: MatchSection


class AdoptSection(Section, frozen=True, kw_only=True):
    """Whether containers that were there before us get what they miss."""

    enabled: bool = False
    at_once: Annotated[int, Meta(ge=0, le=1000)] = 50
    per_second: Annotated[int, Meta(ge=1, le=1000)] = 10


class RepairSection(Section, frozen=True, kw_only=True):
    """Whether files that somebody else changed are put right."""

    enabled: bool = False
    every_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60


class ConfigFile(Handlers, frozen=True, kw_only=True):
    """The whole file."""

    curve: Literal["auto", "kep", "quadratic", "proportional"] = "auto"
    failure_policy: FailurePolicy | UnsetType = UNSET
    adopt: AdoptSection = AdoptSection()
    repair: RepairSection = RepairSection()
    rules: list[RuleSection] = []
