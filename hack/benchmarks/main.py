"""Measures the sections of docs/benchmarks.md and writes it.

Each section is a bench of hack/bench. When one is done its figures are kept and the
page is written, so that a run that is interrupted keeps what it has measured. A
section that fails does not stop the others; the exit code is then 1.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from benchmarks import machine
from benchmarks.document import RESULTS, WrongFigures, documents, write
from benchmarks.progress import Progress
from benchmarks.record import Result, load, save
from benchmarks.sections import SECTIONS

if TYPE_CHECKING:
    from benchmarks.sections import Section

TOP = Path(__file__).parents[2]
BENCHES = TOP / "hack/benches"
PATHS = f"{TOP / 'tests'}:{TOP / 'hack'}"
# A bench that is interrupted stops its plugins, and its node.
END_S = 60
LAST_LINES = 8


class BenchFailed(Exception):
    """A bench has ended with another exit code than 0; says what it printed last."""


def main(argv: list[str]) -> int:
    """Measure and write; return 1 if a section failed."""
    args = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if args.list:
        for section in SECTIONS.values():
            minutes = f"{section.minutes[args.quick]:4g} min"
            print(f"{section.name:12} {minutes}  {section.title}")
        return 0
    directory = args.output or TOP / ("dist/benchmarks" if args.quick else "docs")
    if args.write_only:
        write(directory, load(directory / RESULTS))
        return 0
    sections = [SECTIONS[name] for name in dict.fromkeys(args.only or SECTIONS)]
    try:
        failed = _measure_all(sections, directory, quick=args.quick)
    except KeyboardInterrupt:
        print(
            f"\nbench: interrupted; what was measured is in {directory}",
            file=sys.stderr,
        )
        return 130
    for name, why in failed.items():
        print(f"bench: {name} failed:\n{why}", file=sys.stderr)
    print(directory / "benchmarks.md")
    return int(bool(failed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hack/bench all",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=SECTIONS,
        metavar="SECTION",
        help=f"this section; may be repeated: {', '.join(SECTIONS)}",
    )
    parser.add_argument("--list", action="store_true", help="the sections there are")
    parser.add_argument(
        "--quick", action="store_true", help="few turns; writes to dist/benchmarks"
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="where to write (default: docs)"
    )
    parser.add_argument(
        "--write-only",
        action="store_true",
        help="measure nothing, write the page from the figures that are kept",
    )
    return parser


def _measure_all(
    sections: list[Section], directory: Path, *, quick: bool
) -> dict[str, str]:
    """Measure sections; return those that failed, and why."""
    failed: dict[str, str] = {}
    commit, computer = machine.commit(), machine.machine()
    minutes = {section.name: section.minutes[quick] for section in sections}
    progress = Progress(minutes, sys.stderr)
    for section in sections:
        result = Result(
            section=section.name,
            date=datetime.now(tz=UTC).strftime("%Y-%m-%d"),
            commit=commit,
            machine=computer,
            load=os.getloadavg()[0],
            seconds=0,
            quick=quick,
            figures={},
        )
        progress.begin(section.name)
        began = monotonic()
        try:
            figures = _run(section, progress, quick=quick)
            result = replace(result, seconds=monotonic() - began, figures=figures)
            documents({section.name: result})
        except (BenchFailed, WrongFigures) as exc:
            failed[section.name] = str(exc)
            progress.end("failed")
            continue
        save(directory / RESULTS, result)
        write(directory, load(directory / RESULTS))
        progress.end(f"done in {result.seconds / 60:.1f} min")
    return failed


def _run(section: Section, progress: Progress, *, quick: bool) -> dict[str, Any]:
    """Run the bench of a section; return the figures that it printed."""
    options = section.options + (section.quick if quick else ())
    file = BENCHES / f"{section.bench}.py"
    last: deque[str] = deque(maxlen=LAST_LINES)
    with tempfile.TemporaryFile("w+") as printed:
        # A session of its own: a Ctrl-C at the terminal reaches this process alone,
        # which then interrupts the bench once.
        bench = subprocess.Popen(
            [sys.executable, file, *options, "--json"],
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
            cwd=TOP,
            env={**os.environ, "PYTHONPATH": PATHS},
            start_new_session=True,
        )
        try:
            assert bench.stderr is not None
            for line in bench.stderr:
                last.append(line.rstrip())
                progress.tell(line)
            code = bench.wait()
        finally:
            _end(bench)
        if code:
            raise BenchFailed("\n".join(last) or f"exit code {code}")
        printed.seek(0)
        figures: dict[str, Any] = json.load(printed)
        return figures


def _end(bench: subprocess.Popen[str]) -> None:
    """End a bench that still runs as Ctrl-C would, so that it stops what it started."""
    if bench.poll() is None:
        bench.send_signal(signal.SIGINT)
        try:
            bench.wait(END_S)
        except subprocess.TimeoutExpired:
            bench.kill()
            bench.wait()
    if bench.stderr is not None:
        bench.stderr.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
