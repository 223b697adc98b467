"""How a handler declares itself: one `Handler` per module in `engine/handlers/`.

A declaration holds all that the rest of the package has to know about a handler: its
section of the configuration file (`Option` per key), the type of its settings with the
defaults, the annotations that it reads, and the function that decides. The table in
`engine/handlers/table.py` lists the declarations; the engine, the configuration file,
its schema and the key of the decision cache are made from that table.

This module imports neither a handler nor msgspec: a node without a configuration file
never pays for the library that checks one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from nriplugin.engine.context import HandlerContext
    from nriplugin.engine.decision import Why
    from nriplugin.engine.policies import RunTimePolicy


class HandlerSettings(Protocol):
    """What the settings of every handler have; each is a NamedTuple with defaults."""

    @property
    def enabled(self) -> bool:
        """Whether the handler takes part in decisions."""

    @property
    def fail(self) -> bool:
        """Whether the request fails when the handler cannot do its work."""


S = TypeVar("S", bound=HandlerSettings)


class Option(NamedTuple):
    """One key of a handler's section in the configuration file, and what it accepts."""

    key: str  # as it is written in the file
    kind: Any  # bool, int, float, an enumeration, or list[str]
    setting: str = ""  # the field of the settings; empty if it has the key's name
    above: float | None = None  # the value is greater than this
    least: int | None = None
    most: int | None = None
    words: tuple[str, ...] = ()  # texts that are accepted instead of a number
    unit: str = "a number"  # the word for the number in an error beside `words`
    nullable: bool = False  # whether `null` is accepted, which means "no value"
    # Makes the setting of the file's value. The text is the key's place in the file, to
    # begin a ConfigError with.
    convert: Callable[[Any, str], Any] | None = None


class Handler(NamedTuple, Generic[S]):
    """One handler, as the table lists it."""

    name: str  # of its section in the file, and in every message
    settings: type[S]
    decide: Callable[[HandlerContext, S], None]
    options: tuple[Option, ...] = ()
    # Two keys of which a section may have only one; either replaces the other.
    exclusive: tuple[str, str] | None = None
    # The settings that `failurePolicy: fail` makes true and `ignore` makes false.
    policy: tuple[str, ...] = ("fail",)
    # Annotations of nriplugin that it reads, by key without the common suffix.
    annotations: tuple[str, ...] = ()
    # Whether it also reads every annotation that is named after a cgroup file.
    reads_files: bool = False
    # Annotations of other projects that it reads, by their whole key.
    foreign_annotations: tuple[str, ...] = ()
    # Labels of other projects that it reads.
    foreign_labels: tuple[str, ...] = ()
    # Ends what the handler once set and no handler asks for now, at an update. It is
    # called whether the handler is on or off.
    retract: Callable[[HandlerContext, Why], None] | None = None
    # What is also asked while containers run, where the handler is on.
    at_run_time: RunTimePolicy[S] | None = None

    def reads(self, key: str) -> bool:
        """Return whether the handler reads an annotation of nriplugin."""
        return key in self.annotations or (self.reads_files and "." in key)
