"""Results as a table for a terminal, and as Markdown for the documentation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from conformances.comparing import Row, compare, condense
from conformances.suites import SUITES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conformances.record import Result

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
HEADING = "### "
WIDTH = 110


def rows_of(result: Result) -> list[Row]:
    """Compare the runs of a result."""
    suite = SUITES.get(result.suite)
    return compare(result.runs, suite.explained if suite is not None else {})


def text_of(result: Result) -> str:
    """Return a table for a terminal."""
    lines = [f"{result.suite}: {_versions(result)}"]
    for row in rows_of(result):
        lines.append(
            f"  {_word(row):10} {' | '.join(row.results):20} {row.test[:WIDTH]}"
        )
        if row.defect:
            lines += (
                f"             {run.way}: {run.tests[row.test].message}"
                for run in result.runs
                if row.test in run.tests and run.tests[row.test].message
            )
    return "\n".join(lines)


def _word(row: Row) -> str:
    if row.defect:
        return "DEFECT"
    return "same" if row.same else "explained"


def with_results(page: str, results: Mapping[str, Result]) -> str:
    """Return a page that has these results instead of earlier ones of their suites.

    The page keeps the results of all other suites that there are, and names those of
    which it has none.
    """
    before, _, rest = page.partition(f"{BEGIN}\n")
    generated, _, after = rest.partition(END)
    sections = {
        section.partition("\n")[0].removeprefix(HEADING): section.rstrip()
        for section in re.split(rf"^(?={HEADING})", generated, flags=re.M)
        if section.startswith(HEADING)
    }
    sections |= {
        name: "\n".join(_section(result)).rstrip() for name, result in results.items()
    }
    ordered = [sections[name] for name in SUITES if name in sections]
    missing = ", ".join(f"`{name}`" for name in SUITES if name not in sections)
    if missing:
        told = "The results of these suites have not been written to this page:"
        ordered.append(f"{HEADING}Without a result\n\n{told}\n{missing}.")
    text = "\n\n".join(ordered)
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def _section(result: Result) -> Iterator[str]:
    rows = rows_of(result)
    about = SUITES[result.suite].about if result.suite in SUITES else ""
    yield f"{HEADING}{result.suite}\n"
    yield f"{about[:1].upper()}{about[1:]}. {result.date}; {_versions(result)}.\n"
    yield _summary(result, rows)
    yield ""
    yield f"| test | {' | '.join(run.way for run in result.runs)} | |"
    yield f"|---|{'---|' * len(result.runs)}---|"
    for row in condense(rows):
        note = "same" if row.same else row.why or "**different**"
        if len(row.results) == 1:
            note = "**defect**" if row.defect else ""
        elif row.same and row.results[0] != "passed":
            note = f"same: {_short(_message(result, row.test))}"
        yield f"| {_cell(row.test)} | {' | '.join(row.results)} | {_cell(note)} |"


def _message(result: Result, test: str) -> str:
    outcome = result.runs[0].tests.get(test)
    return outcome.message if outcome is not None else ""


def _summary(result: Result, rows: list[Row]) -> str:
    different = sum(not row.same for row in rows)
    minutes = sum(run.seconds for run in result.runs) / 60
    defects = sum(row.defect for row in rows)
    if len(result.runs) == 1:
        found = f"{defects} of them failed"
    else:
        found = f"{different} of them different, {defects} without an explanation"
    text = f"{len(rows)} tests, {found}; {max(minutes, 1):.0f} min in all."
    for run in result.runs:
        if not run.whole:
            text += f" The run {run.way} was ended by its time limit."
    return " ".join([text, *(note for run in result.runs for note in run.notes)])


def _versions(result: Result) -> str:
    return ", ".join(f"{name} {version}" for name, version in result.versions.items())


def _short(text: str, limit: int = 160) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _cell(text: str) -> str:
    return re.sub(r"([|<>*_])", r"\\\1", text) if not text.startswith("**") else text
