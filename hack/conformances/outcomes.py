"""What a suite's tests came to, in one run of the suite."""

from __future__ import annotations

from dataclasses import dataclass, field

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# The test is not in a run that the other run of the suite has it in.
MISSING = "did not run"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a test ended, and what it said if it did not pass."""

    result: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a suite: which way, what its tests came to, and how long it took.

    `whole` is false if a time limit ended it before all of its tests had run.
    """

    way: str
    tests: dict[str, Outcome]
    seconds: float
    whole: bool = True
    notes: list[str] = field(default_factory=list)

    def result_of(self, test: str) -> str:
        """Return how a test ended."""
        outcome = self.tests.get(test)
        return MISSING if outcome is None else outcome.result
