"""The runs of a suite, compared test by test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformances.outcomes import Run


@dataclass(frozen=True, slots=True)
class Row:
    """One test: how it ended in each run, and why the runs differ, if that is known."""

    test: str
    results: tuple[str, ...]
    why: str = ""

    @property
    def same(self) -> bool:
        """Return whether the test ended in the same way in all runs."""
        return len(set(self.results)) == 1

    @property
    def defect(self) -> bool:
        """Return whether the runs differ and nothing explains it."""
        return not self.same and not self.why


def compare(runs: Sequence[Run], explained: Mapping[str, str]) -> list[Row]:
    """Return one row for each test of any run.

    `explained` has the reason of a known difference by a regular expression that
    matches the test's name.
    """
    names = dict.fromkeys(name for run in runs for name in run.tests)
    rows = []
    for name in names:
        row = Row(name, tuple(run.result_of(name) for run in runs))
        if not row.same:
            row = Row(name, row.results, _reason(name, explained))
        rows.append(row)
    return rows


def _reason(name: str, explained: Mapping[str, str]) -> str:
    return next((why for rule, why in explained.items() if re.search(rule, name)), "")
