"""What a check has found: a level, a sentence, and what to do about it.

The first argument of the four functions is the name of the check, always written as a
literal: a test compares the names and levels in the code with those in docs/doctor.md.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class FindingLevel(StrEnum):
    """How much a finding matters, from nothing to do to a node that cannot work."""

    OK = "ok"
    NOTE = "note"  # nothing is wrong, but an operator may want to know it
    WARNING = "warning"  # something works less well than it could, or will not last
    PROBLEM = "problem"  # it stops nriplugin, or lets containers fail


class CheckFinding(NamedTuple):
    """One finding; the advice is empty if there is nothing to do."""

    check: str
    level: FindingLevel
    text: str
    advice: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the finding as JSON can hold it."""
        return {**self._asdict(), "level": str(self.level)}


def ok(check: str, text: str) -> CheckFinding:
    """Return a finding that is as it should be."""
    return CheckFinding(check, FindingLevel.OK, text)


def note(check: str, text: str, advice: str) -> CheckFinding:
    """Return a finding that needs no action."""
    return CheckFinding(check, FindingLevel.NOTE, text, advice)


def warning(check: str, text: str, advice: str) -> CheckFinding:
    """Return a finding that should be looked after."""
    return CheckFinding(check, FindingLevel.WARNING, text, advice)


def problem(check: str, text: str, advice: str) -> CheckFinding:
    """Return a finding that stops nriplugin, or lets containers fail."""
    return CheckFinding(check, FindingLevel.PROBLEM, text, advice)
