"""What a conversion says: file, value, rule, and what was left out and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nriplugin.convert.curves import Curve


class Rule(NamedTuple):
    """Why a file has its value. Constants: made once, named by every result."""

    fields: tuple[str, ...]
    text: str


class Derived(NamedTuple):
    """A file and its value."""

    file: str
    value: str
    rule: Rule


class Dropped(NamedTuple):
    """A field that no file carries."""

    field: str
    reason: str


class Clamped(NamedTuple):
    """A value that was moved into the range of its file."""

    field: str
    given: int
    used: int
    reason: str


# A NamedTuple's own constructor is a Python function, and this runs for every file.
_new_derived = tuple.__new__


class Conversion:
    """The result of `convert`."""

    __slots__ = ("clamped", "curve", "derived", "dropped")

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.derived: list[Derived] = []
        self.dropped: list[Dropped] = []
        self.clamped: list[Clamped] = []

    @property
    def files(self) -> dict[str, str]:
        """Return the values by file, in the order in which they are to be written."""
        return {file: value for file, value, _ in self.derived}

    def write(self, file: str, value: str, rule: Rule) -> None:
        """Add a file."""
        self.derived.append(_new_derived(Derived, (file, value, rule)))

    def drop(self, field: str, reason: str) -> None:
        """Say that a field is left out."""
        self.dropped.append(Dropped(field, reason))

    def clamp(self, field: str, given: int, used: int, reason: str) -> None:
        """Say that a value was moved into range."""
        self.clamped.append(Clamped(field, given, used, reason))
