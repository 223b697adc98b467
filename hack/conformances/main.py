"""Runs suites of other projects without nriplugin and with it, and compares them."""

from __future__ import annotations

import argparse
import signal
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nodes.cache import REPOSITORY, say
from nodes.shell import NodeError

from conformances.record import Result, default_file, load, save
from conformances.suites import SUITES, Suite
from conformances.tables import rows_of, text_of, with_results

if TYPE_CHECKING:
    from nodes.machine import Machine

    from conformances.suites import Place

PAGE = REPOSITORY / "docs/conformance.md"


def main(argv: list[str]) -> int:
    """Run suites; return 1 if one differs, 2 for a mistake of the user."""
    args = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if args.list:
        for suite in SUITES.values():
            where = suite.place.node.name if suite.place is not None else "here"
            when = "long" if suite.long else ""
            print(f"{suite.name:19} {where:18} {when:4} {suite.about}")
        return 0
    file = args.output or default_file()
    short = [suite for suite in SUITES.values() if not suite.long]
    try:
        if not args.write_docs or args.suite:
            different = _run_all(args.suite or short, file)
        else:
            different = False
        if args.write_docs:
            results = load(file)
            PAGE.write_text(with_results(PAGE.read_text(), results))
            say(f"wrote {PAGE}")
    except NodeError as exc:
        say(str(exc))
        return 1
    except KeyboardInterrupt:
        return 130
    return int(different)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/conformance", description=__doc__)
    parser.add_argument(
        "--suite",
        action="append",
        type=_suite,
        metavar="NAME",
        help="this suite, which may be a long one; may be repeated",
    )
    parser.add_argument("--list", action="store_true", help="the suites there are")
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        metavar="FILE",
        help="where results are kept, as JSON (default: in the cache)",
    )
    parser.add_argument(
        "--write-docs",
        action="store_true",
        help="write the results to docs/conformance.md; without --suite, run nothing",
    )
    return parser


def _suite(name: str) -> Suite:
    if name not in SUITES:
        raise argparse.ArgumentTypeError(
            f"{name!r}, expected one of {', '.join(SUITES)}"
        )
    return SUITES[name]


def _run_all(suites: list[Suite], file: Path) -> bool:
    """Run suites, save each result; return whether a difference is unexplained."""
    different = False
    with ExitStack() as stack:
        place: Place | None = None
        machine: Machine | None = None
        for suite in suites:
            if suite.place is not place:
                # The guest of the suites before has served its purpose.
                stack.close()
                place, machine = suite.place, None
                if place is not None:
                    machine = stack.enter_context(place.machine())
            result = _run(suite, machine)
            save(file, result)
            print(text_of(result), flush=True)
            different |= any(row.defect for row in rows_of(result))
    say(f"results are in {file}")
    return different


def _run(suite: Suite, machine: Machine | None) -> Result:
    date = datetime.now(tz=UTC).strftime("%Y-%m-%d")
    if suite.place is None:
        versions, arguments = suite.versions(), []
    else:
        assert machine is not None
        versions, arguments = suite.place.versions(machine), [machine]
    runs = []
    for way in suite.ways:
        say(f"{suite.name}: {way}")
        run = suite.run(*arguments, way)
        say(f"{suite.name}: {way}: {len(run.tests)} tests, {run.seconds:.0f} s")
        runs.append(run)
    return Result(suite.name, date, versions, runs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
