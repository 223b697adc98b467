"""Makes docs/benchmarks.md and its pictures from results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drawing.plots import bars, lines, shown

from benchmarks.sections import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from benchmarks.record import Result
    from benchmarks.sections import Plot, Section, Table

    Rows = dict[str, Mapping[str, float]]

PAGE = "benchmarks.md"
RESULTS = "benchmarks.json"
BEGIN = """\
# Benchmarks

`./hack/bench all` measures what is on this page and writes it. `--only SECTION`
measures one section and leaves the others as they are, `--quick` makes few turns and
writes to `dist/benchmarks` instead, and `--list` prints the sections with their
minutes. The figures are kept in `docs/benchmarks.json`.

Compare ratios within a section, not microseconds: waking a process is a large part of
most figures, and it varies between machines and between runs. What is compared takes
turns, so that other work of the machine affects all of it. A figure is the median
over the turns.
"""


class WrongFigures(Exception):
    """A bench has not printed what the page shows; says what is missing."""


def documents(results: Mapping[str, Result]) -> dict[str, str]:
    """Return the text of the page and of each picture, by the name of the file.

    Raises:
        WrongFigures: a result lacks figures that a table shows.
    """
    files: dict[str, str] = {}
    parts = [BEGIN]
    for section in SECTIONS.values():
        parts.append(f"## {section.title}\n")
        parts.append(f"{section.text}\n")
        result = results.get(section.name)
        if result is None:
            command = f"`./hack/bench all --only {section.name}`"
            parts.append(f"Not measured yet: {command} does it.\n")
            continue
        parts.append(_origin(section, result))
        for table in section.tables:
            rows = _rows(section, table, result.figures)
            parts.append(f"### {table.title}\n")
            if plot := table.plot:
                file = f"benchmarks-{plot.file}.svg"
                files[file] = _picture(table, plot, rows)
                parts.append(f"![{table.title}]({file})\n")
            parts.append("\n".join(_markdown(table, rows)) + "\n")
    files[PAGE] = "\n".join(parts)
    return files


def write(directory: Path, results: Mapping[str, Result]) -> None:
    """Write the page and its pictures, and remove pictures that it has no more."""
    wanted = documents(results)
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("benchmarks-*.svg"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (directory / name).write_text(text, encoding="utf-8")


def _origin(section: Section, result: Result) -> str:
    """Return what was measured, when, where and how."""
    options = section.options + (section.quick if result.quick else ())
    command = " ".join(("./hack/bench", section.bench, *options))
    few = " A quick run, with few turns." if result.quick else ""
    return (
        f"`{command}` on {result.date}, commit {result.commit}: {result.machine}; "
        f"load average before: {result.load:.2f}; "
        f"{result.seconds / 60:.1f} minutes.{few}\n"
    )


def _rows(section: Section, table: Table, figures: Mapping[str, Any]) -> Rows:
    """Return the rows of a table by their titles, each with the bench's keys."""
    part = figures.get(table.part) if table.part else figures
    if not isinstance(part, dict):
        raise WrongFigures(f"{section.name}: no {table.part!r}")
    found: Rows = {}
    for name, row in part.items():
        if isinstance(row, dict):
            found[name] = row
        elif isinstance(row, int | float):
            found[name] = {"": row}
    if table.rows is not None:
        if missing := [name for name in table.rows if name not in found]:
            raise WrongFigures(f"{section.name}: {table.part}: no row {missing[0]!r}")
        found = {title: found[name] for name, title in table.rows.items()}
    keys = (
        *table.columns.values(),
        *(table.plot.columns.values() if table.plot else ()),
    )
    for key in keys:
        if not any(key in row for row in found.values()):
            raise WrongFigures(f"{section.name}: {table.part}: no figure {key!r}")
    return found


def _markdown(table: Table, rows: Rows) -> Iterator[str]:
    yield f"| {table.first} | " + " | ".join(table.columns) + " |"
    yield "|---" * (len(table.columns) + 1) + "|"
    for title, row in rows.items():
        cells = (
            shown(row[key]) if key in row else "" for key in table.columns.values()
        )
        yield f"| {title} | " + " | ".join(cells) + " |"


def _picture(table: Table, plot: Plot, rows: Rows) -> str:
    title = table.title.replace("`", "")
    if plot.x_title:
        series = {
            name: {float(x): row[key] for x, row in rows.items() if key in row}
            for name, key in plot.columns.items()
        }
        return lines(title, plot.unit, plot.x_title, series)
    groups = {
        row_title.replace("`", ""): {
            name: row[key] for name, key in plot.columns.items() if key in row
        }
        for row_title, row in rows.items()
    }
    return bars(title, plot.unit, groups)
