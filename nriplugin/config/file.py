"""The shape of the configuration file: which keys there are, and what they accept.

msgspec reads the types here and refuses unknown keys and wrong values with the path of
the mistake. The sections of the handlers are not written here: they are made from the
declarations in the engine's table of handlers. A key that the file does not have is
UNSET, so that a rule changes only the settings that it names. The schema in deploy/ is
made from `file_type()`.
"""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import or_
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, UnsetType

from nriplugin.engine.handlers import table

# msgspec evaluates the annotations, so this is needed at run time.
from nriplugin.policy import FailurePolicy  # noqa: TC001

if TYPE_CHECKING:
    from nriplugin.engine.handler import Handler, Option

Names: TypeAlias = Annotated[str, Meta(min_length=1)] | list[str]


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
    """The keys that the section of every handler has."""

    enabled: bool | UnsetType = UNSET
    failure_policy: FailurePolicy | UnsetType = UNSET


class MatchSection(Section, frozen=True, kw_only=True):
    """The conditions of a rule; `*` in a name stands for any characters."""

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


class AdoptSection(Section, frozen=True, kw_only=True):
    """Whether containers made before nriplugin get the values that they lack."""

    enabled: bool = False
    at_once: Annotated[int, Meta(ge=0, le=1000)] = 50
    per_second: Annotated[int, Meta(ge=1, le=1000)] = 10


class VerifySection(Section, frozen=True, kw_only=True):
    """Whether the files of containers are compared with the decisions."""

    enabled: bool = True
    every_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60


class RepairSection(Section, frozen=True, kw_only=True):
    """Whether files that another program changed are written again."""

    enabled: bool = False
    every_seconds: Annotated[int, Meta(ge=1, le=86_400)] = 60


class PoliciesSection(Section, frozen=True, kw_only=True):
    """What all handlers have in common that act while containers run."""

    interval_seconds: Annotated[int, Meta(ge=1, le=300)] = 5


class DirectWritesSection(Section, frozen=True, kw_only=True):
    """How direct writes are done."""

    refresh_seconds: Annotated[int, Meta(ge=0, le=86_400)] = 60


class CheckpointSection(Section, frozen=True, kw_only=True):
    """Whether memory requests are read from kubelet's checkpoint, if it is readable."""

    enabled: bool = True
    path: Annotated[str, Meta(pattern="^/")] = "/var/lib/kubelet/allocated_pods_state"


class PodGroupsSection(Section, frozen=True, kw_only=True):
    """Where Volcano's PodGroup objects are read; one of the three at most."""

    file: Annotated[str, Meta(pattern="^/")] | None = None
    kubeconfig: Annotated[str, Meta(pattern="^/")] | None = None
    in_cluster: bool = False

    @property
    def enabled(self) -> bool:
        """Whether there is a source."""
        return bool(self.file or self.kubeconfig or self.in_cluster)


class RuleKeys(Section, frozen=True, kw_only=True):
    """The keys of a rule beside the sections of the handlers."""

    name: Annotated[str, Meta(min_length=1)] | UnsetType = UNSET
    match: MatchSection
    shadow: bool | UnsetType = UNSET


class FileKeys(Section, frozen=True, kw_only=True):
    """The keys of the file beside the rules and the sections of the handlers."""

    curve: Literal["auto", "kep", "quadratic", "proportional"] = "auto"
    failure_policy: FailurePolicy | UnsetType = UNSET
    shadow: bool = False
    adopt: AdoptSection = AdoptSection()
    verify: VerifySection = VerifySection()
    repair: RepairSection = RepairSection()
    direct_writes: DirectWritesSection = DirectWritesSection()
    kubelet_checkpoint: CheckpointSection = CheckpointSection()
    pod_groups: PodGroupsSection = PodGroupsSection()
    policies: PoliciesSection = PoliciesSection()


def file_type() -> type[FileKeys]:
    """Return the type of the whole file, for the handlers in the table.

    Beside the keys of `FileKeys` it has `rules`, a list of rules with the keys of
    `RuleKeys`. The file and its rules have a `HandlerSection` per handler, by its name.
    """
    return cast("type[FileKeys]", _file_type(table.HANDLERS))


@lru_cache(maxsize=2)  # one for the product; tests add a handler to the table
def _file_type(handlers: tuple[Handler[Any], ...]) -> type[msgspec.Struct]:
    sections = [_section_field(handler) for handler in handlers]
    rule = msgspec.defstruct(
        "RuleSection",
        sections,
        bases=(RuleKeys,),
        namespace={
            "__doc__": "Settings for the containers that match; the first rule that "
            "does wins."
        },
        frozen=True,
        kw_only=True,
    )
    rules: tuple[str, Any, Any] = ("rules", GenericAlias(list, (rule,)), [])
    return msgspec.defstruct(
        "ConfigFile",
        [*sections, rules],
        bases=(FileKeys,),
        namespace={"__doc__": "The whole file."},
        frozen=True,
        kw_only=True,
    )


def _section_field(handler: Handler[Any]) -> tuple[str, Any, Any]:
    """Return a field with the name of a handler, for its section."""
    section = msgspec.defstruct(
        handler.settings.__name__.removesuffix("Settings") + "Section",
        [(one.key, _option_type(one), UNSET) for one in handler.options],
        bases=(HandlerSection,),
        namespace={"__doc__": handler.settings.__doc__},
        frozen=True,
        kw_only=True,
    )
    return handler.name, section, section()


def _option_type(option: Option) -> Any:  # noqa: ANN401
    """Return the type that msgspec checks an option's value against."""
    kind = option.kind
    bounds: dict[str, Any] = {}
    if option.above is not None:
        bounds["gt"] = option.above
    if option.least is not None:
        bounds["ge"] = option.least
    if option.most is not None:
        bounds["le"] = option.most
    parts: list[Any] = [Annotated[kind, Meta(**bounds)] if bounds else kind]
    if option.words:
        parts.append(Literal[option.words])
    parts.append(UnsetType)
    if option.nullable:
        parts.append(None)
    return reduce(or_, parts)
