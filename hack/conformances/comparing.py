"""The runs of a suite, compared test by test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conformances.outcomes import PASSED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from conformances.outcomes import Run


@dataclass(frozen=True, slots=True)
class Row:
    """One test: how it ended in each run, and why the runs differ, if that is known.

    The only run of a test of this project must have passed.
    """

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
        if len(self.results) == 1:
            return self.results[0] != PASSED
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


def condense(rows: Sequence[Row]) -> list[Row]:
    """Return rows with a test's sub-tests in its own row, where all of them are alike.

    The names of sub-tests are those of Go: the test's, a slash, and more.
    """
    alike: dict[str, list[Row]] = {}
    for row in rows:
        alike.setdefault(row.test.partition("/")[0], []).append(row)
    condensed = []
    for name, group in alike.items():
        if group[0].test == name and len({row.results for row in group}) == 1:
            parts = f" and its {len(group) - 1} parts" if len(group) > 1 else ""
            condensed.append(Row(f"{name}{parts}", group[0].results, group[0].why))
        else:
            condensed += group
    return condensed
