"""`hack/bench all`: what it runs, keeps and writes."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks import main as runner
from benchmarks.document import RESULTS, WrongFigures, documents, write
from benchmarks.progress import CELLS, Progress
from benchmarks.record import Result, load, save
from benchmarks.sections import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.sections import Section

TOP = Path(__file__).parents[2]


def rows_of(section: Section, part: str) -> list[str]:
    """Return the rows that a part of a bench's figures has."""
    named = {
        row
        for table in section.tables
        if table.part == part
        for row in table.rows or ()
    }
    lines = any(table.plot and table.plot.x_title for table in section.tables)
    return sorted(named) or (["10", "1000"] if lines and part == "present" else ["a"])


def figures_of(section: Section) -> dict[str, Any]:
    """Make up figures of the form that a section's bench prints."""
    figures: dict[str, Any] = {}
    for table in section.tables:
        part = figures.setdefault(table.part, {}) if table.part else figures
        plot = table.plot.columns.values() if table.plot else ()
        keys = {*table.columns.values(), *plot}
        for number, row in enumerate(rows_of(section, table.part), 101):
            if keys == {""}:
                part[row] = number
            else:
                part.setdefault(row, {}).update(dict.fromkeys(keys, number))
    return figures


def result_of(name: str, *, commit: str = "abc", **figures: Any) -> Result:
    """Make up a result of a section."""
    return Result(
        section=name,
        date="2026-01-02",
        commit=commit,
        machine="2 × a processor",
        load=0.25,
        seconds=90,
        quick=False,
        figures=figures or figures_of(SECTIONS[name]),
    )


def chapter(page: str, name: str) -> str:
    """Return what a page says of a section."""
    return page.partition(f"## {SECTIONS[name].title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", SECTIONS)
def test_every_table_and_picture_has_its_figures(name: str) -> None:
    """The page shows each table of the section, and each plot is a picture."""
    files = documents({name: result_of(name)})
    told = chapter(files["benchmarks.md"], name)
    assert "commit abc: 2 × a processor; load average before: 0.25; 1.5 min" in told
    for table in SECTIONS[name].tables:
        shown = told.partition(f"### {table.title}\n")[2].partition("\n### ")[0]
        rows = [line for line in shown.splitlines() if line.startswith("| ")]
        wanted = table.rows or rows_of(SECTIONS[name], table.part)
        assert len(rows) == 1 + len(wanted)
        for row in rows[1:]:
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            assert len(cells) == 1 + len(table.columns)
            assert all(re.fullmatch(r"1\d\d", cell) for cell in cells[1:]), row
        if table.plot:
            picture = files[f"benchmarks-{table.plot.file}.svg"]
            assert f"(benchmarks-{table.plot.file}.svg)" in shown
            assert len(list(ET.fromstring(picture))) > 4  # noqa: S314 # our own
    plots = [
        table.plot.file for s in SECTIONS.values() for table in s.tables if table.plot
    ]
    assert len(set(plots)) == len(plots)


def test_a_figure_stands_in_its_row_and_column() -> None:
    """Rows are those of the bench, and a figure that a row lacks is an empty cell."""
    rows = {"a": {"us": 1.5}, "b": {"us": 2.5}, "c": {}}
    page = documents(
        {
            "checkpoint": result_of(
                "checkpoint", request=rows, file={"parse": {"ms": 7.0}}
            )
        }
    )["benchmarks.md"]
    assert "| a | 1.50 |\n| b | 2.50 |\n| c |  |\n" in page
    assert "| parse | 7 |" in page


def test_what_is_not_measured_is_said() -> None:
    """The page names the command that measures a section."""
    page = documents({})["benchmarks.md"]
    for name in SECTIONS:
        assert f"`./hack/bench all --only {name}` does it" in chapter(page, name)


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"request": {"a": {"us": 1}}}, "checkpoint: no 'file'"),
        (
            {"request": {"a": {"ns": 1}}, "file": {}},
            "checkpoint: request: no figure 'us'",
        ),
    ],
)
def test_figures_that_are_missing_are_a_failure(
    figures: dict[str, Any], said: str
) -> None:
    """A bench that prints something else does not leave empty tables."""
    with pytest.raises(WrongFigures, match=said):
        documents({"checkpoint": result_of("checkpoint", **figures)})


def test_a_row_that_is_missing_is_a_failure() -> None:
    """Rows that the page names have to be there."""
    figures = figures_of(SECTIONS["node"])
    del figures["go"]
    with pytest.raises(WrongFigures, match="no row 'go'"):
        documents({"node": result_of("node", **figures)})


def test_a_section_replaces_its_own(tmp_path: Path) -> None:
    """A result stays until its section is measured again; no picture is left over."""
    file = tmp_path / RESULTS
    for name, commit in (("hook", "one"), ("node", "two"), ("hook", "three")):
        save(file, result_of(name, commit=commit))
    assert {name: one.commit for name, one in load(file).items()} == {
        "hook": "three",
        "node": "two",
    }
    (tmp_path / "benchmarks-gone.svg").write_text("")
    (tmp_path / "curves.svg").write_text("")
    write(tmp_path, load(file))
    page = (tmp_path / "benchmarks.md").read_text()
    assert "commit three" in chapter(page, "hook")
    assert "commit two" in chapter(page, "node")
    assert {one.name for one in tmp_path.glob("*.svg")} == {
        *("benchmarks-hook.svg", "benchmarks-node.svg", "curves.svg")
    }


def test_the_page_here_is_that_of_the_figures_here() -> None:
    """docs/benchmarks.md and its pictures are what `--write-only` writes."""
    wanted = documents(load(TOP / "docs" / RESULTS))
    pictures = {path.name for path in (TOP / "docs").glob("benchmarks-*.svg")}
    assert pictures == wanted.keys() - {"benchmarks.md"}
    for name, text in wanted.items():
        assert (TOP / "docs" / name).read_text() == text, (
            "run hack/bench all --write-only"
        )


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> dict[str, BaseException]:
    """Have no bench run; return a dict of those that raise something instead."""
    failing: dict[str, BaseException] = {}

    def run(section: Section, progress: Progress, *, quick: bool) -> Mapping[str, Any]:
        assert not quick
        progress.tell("bench: turn 1 of 2")
        if section.name in failing:
            raise failing[section.name]
        return figures_of(section)

    monkeypatch.setattr(runner, "_run", run)
    return failing


def test_all_sections_are_measured(
    tmp_path: Path,
    made_up: dict[str, BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without options every section is measured; commit and machine are named."""
    assert made_up == {}
    assert runner.main(["--output", str(tmp_path)]) == 0
    results = load(tmp_path / RESULTS)
    assert list(results) == sorted(SECTIONS)
    assert "Not measured" not in (tmp_path / "benchmarks.md").read_text()
    for one in results.values():
        assert re.fullmatch(r"[0-9a-f]{12}( with changes)?|version .*", one.commit)
        assert re.match(r"\d+ × .+, \d+ GiB, .+, Linux .+, Python 3\.", one.machine)
    assert capsys.readouterr().out == f"{tmp_path / 'benchmarks.md'}\n"


def test_an_interrupted_run_keeps_what_it_measured(
    tmp_path: Path, made_up: dict[str, BaseException]
) -> None:
    """Sections that were done before Ctrl-C are in the file and on the page."""
    made_up["hook"] = KeyboardInterrupt()
    assert runner.main(["--output", str(tmp_path)]) == 130
    assert set(load(tmp_path / RESULTS)) == {"nri", "daemon", "proxy"}
    page = (tmp_path / "benchmarks.md").read_text()
    assert "Not measured" not in chapter(page, "proxy")
    assert "Not measured" in chapter(page, "hook")


def test_a_failure_keeps_the_others_and_the_figures_from_before(
    tmp_path: Path,
    made_up: dict[str, BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code is 1, and what the bench printed last is shown."""
    save(tmp_path / RESULTS, result_of("hook", commit="before"))
    made_up["hook"] = runner.BenchFailed("bench: no such thing")
    assert runner.main(["--output", str(tmp_path)]) == 1
    results = load(tmp_path / RESULTS)
    assert set(results) == set(SECTIONS)
    assert results["hook"].commit == "before"
    assert "hook failed:\nbench: no such thing" in capsys.readouterr().err


def test_one_section_can_be_measured_alone(
    tmp_path: Path, made_up: dict[str, BaseException]
) -> None:
    """`--only` measures what it names and leaves the others as they are."""
    assert made_up == {}
    save(tmp_path / RESULTS, result_of("nri", commit="before"))
    assert runner.main(["--output", str(tmp_path), "--only", "node"]) == 0
    results = load(tmp_path / RESULTS)
    assert set(results) == {"nri", "node"}
    assert results["nri"].commit == "before"


def test_an_unknown_section_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, and the line names those there are."""
    with pytest.raises(SystemExit) as ended:
        runner.main(["--only", "none"])
    assert ended.value.code == 2
    assert "'none' (choose from" in capsys.readouterr().err


def test_real_benches_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that need neither Go nor a node, with few turns; not written to docs."""
    monkeypatch.setattr(runner, "TOP", tmp_path)
    arguments = [f"--only={name}" for name in ("conversion", "executor", "hook")]
    assert runner.main(["--quick", *arguments]) == 0
    page = (tmp_path / "dist/benchmarks/benchmarks.md").read_text()
    assert re.search(r"\| typical \| \d \| [\d.]+ \| [\d.]+ \|", page)
    assert re.search(r"\| update, journal \| [\d.,]+ \|", page)
    assert re.search(r"\| python -c pass \| [\d.,]+ \|", page)
    assert "A quick run" in chapter(page, "hook")
    assert not (tmp_path / "docs").exists()


@pytest.mark.parametrize("bench", sorted({one.bench for one in SECTIONS.values()}))
def test_benches_know_the_options_that_they_are_given(bench: str) -> None:
    """Options of the full and of the quick run are in the bench's help."""
    done = subprocess.run(
        [sys.executable, TOP / "hack/benches" / f"{bench}.py", "--help"],
        env={"PYTHONPATH": runner.PATHS, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    for section in SECTIONS.values():
        if section.bench == bench:
            for option in (*section.options, *section.quick, "--json"):
                assert not option.startswith("--") or f"{option}" in done.stdout


WAITS = """
import json, pathlib, sys, time
try:
    print("bench: turn 1 of 2", file=sys.stderr, flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    pathlib.Path(__file__).with_name("told").write_text("once")
"""
FAILS = """
import sys
print("bench: the reason", file=sys.stderr)
sys.exit(3)
"""


def bench_of(directory: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Have a program run in the place of the hook's bench."""
    (directory / "cri.py").write_text(program)
    monkeypatch.setattr(runner, "BENCHES", directory)


def test_a_bench_is_interrupted_as_by_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it stops its plugins and its node before it ends."""
    bench_of(tmp_path, monkeypatch, WAITS)

    class Interrupted(Progress):
        def tell(self, line: str) -> None:
            assert line == "bench: turn 1 of 2\n"
            raise KeyboardInterrupt

    progress = Interrupted({"hook": 1}, io.StringIO())
    with pytest.raises(KeyboardInterrupt):
        runner._run(SECTIONS["hook"], progress, quick=True)
    assert (tmp_path / "told").read_text() == "once"


def test_a_bench_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it printed last is the reason."""
    bench_of(tmp_path, monkeypatch, FAILS)
    progress = Progress({"hook": 1}, io.StringIO())
    progress.begin("hook")
    with pytest.raises(runner.BenchFailed, match=r"^bench: the reason$"):
        runner._run(SECTIONS["hook"], progress, quick=False)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_the_bar_grows_with_turns_and_sections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A section counts by its minutes, and its turns as parts of them."""
    monkeypatch.setenv("COLUMNS", "80")  # whatever terminal the tests are run in
    out = Terminal()
    progress = Progress({"a": 30, "b": 10}, out)
    shares = []
    progress.begin("a")
    for line in ("bench: turn 1 of 3", "bench: turn 3 of 3", "bench: something else"):
        progress.tell(line)
        shares.append(progress.share())
    progress.end("done")
    progress.begin("b")
    shares.append(progress.share())
    progress.end("done")
    shares.append(progress.share())
    assert shares == pytest.approx([0, 0.5, 0.5, 0.75, 1])
    last = out.getvalue().rpartition("\r\x1b[K")[2]
    assert last.startswith(f"[{'#' * CELLS}] 100 % ")
    assert last.endswith("  b: done\n")
    assert f"[{'#' * (CELLS // 2)}{'.' * (CELLS // 2)}]  50 % " in out.getvalue()


def test_in_a_pipe_progress_is_lines() -> None:
    """Without a terminal there is no bar, and one line for each message."""
    out = io.StringIO()
    progress = Progress({"a": 30}, out)
    progress.begin("a")
    progress.tell("bench: turn 1 of 3")
    progress.end("done")
    assert out.getvalue() == (
        "bench: a: about 30 min\nbench: a: turn 1 of 3\nbench: a: done\n"
    )


def test_the_list_names_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    """With the minutes that it takes."""
    assert runner.main(["--list"]) == 0
    assert [line.split()[:3:2] for line in capsys.readouterr().out.splitlines()] == [
        [name, "min"] for name in SECTIONS
    ]


def test_the_file_of_figures_is_json_that_people_can_read(tmp_path: Path) -> None:
    """One figure in a line, so that a change of it is a change of its line."""
    save(tmp_path / RESULTS, result_of("hook"))
    text = (tmp_path / RESULTS).read_text()
    assert json.loads(text)["hook"]["section"] == "hook"
    assert '"ms"' not in text
    assert len(text.splitlines()) > 10
