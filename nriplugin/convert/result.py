"""`Conversion`: the files, each with value and rule, and what was dropped or clamped.

A `Rule` says why a file has its value; `explain` shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nriplugin.convert.curves import Curve


class Rule(NamedTuple):
    """Why a file has its value: the fields that it comes from, and the formula.

    Rules are constants: the same object is used for every container.
    """

    fields: tuple[str, ...]
    text: str


class Derived(NamedTuple):
    """A file and its value."""

    file: str
    value: str
    rule: Rule


class Dropped(NamedTuple):
    """A given field that is in none of the files."""

    field: str
    reason: str


class Clamped(NamedTuple):
    """A value that was outside of its range and was moved to the end of it."""

    field: str
    given: int
    used: int
    reason: str


# The constructor of a NamedTuple is a Python function. Calling `tuple.__new__` directly
# is faster, and this runs for every file of every container.
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
        """Return file -> value, in the order in which the files are to be written."""
        return {file: value for file, value, _ in self.derived}

    def write(self, file: str, value: str, rule: Rule) -> None:
        """Add a file."""
        self.derived.append(_new_derived(Derived, (file, value, rule)))

    def drop(self, field: str, reason: str) -> None:
        """Note that a field is left out."""
        self.dropped.append(Dropped(field, reason))

    def clamp(self, field: str, given: int, used: int, reason: str) -> None:
        """Note that a value was moved into its range."""
        self.clamped.append(Clamped(field, given, used, reason))
