"""Outcomes in the output of a Go test program that ran with -test.v."""

from __future__ import annotations

import re
from itertools import takewhile

from conformances.outcomes import FAILED, PASSED, SKIPPED, Outcome

_RESULTS = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
_ENDED = re.compile(r"\s*--- (PASS|FAIL|SKIP): (\S+) \(")
_BEGAN = re.compile(r"=== RUN\s+(\S+)")
# How much of a test's output is kept if it did not pass.
_LINES = 12


def parse_go_test(text: str) -> dict[str, Outcome]:
    """Return the outcome of each test and sub-test.

    A test that began and did not end, because the program panicked or was stopped,
    counts as failed.
    """
    outcomes: dict[str, Outcome] = {}
    said: list[str] = []
    running: dict[str, list[str]] = {}
    for line in text.splitlines():
        if began := _BEGAN.match(line):
            said = running[began[1]] = []
        elif ended := _ENDED.match(line):
            lines = running.pop(ended[2], [])
            result = _RESULTS[ended[1]]
            outcomes[ended[2]] = Outcome(result, _shorten(result, lines))
        else:
            said.append(line.strip())
    for name, lines in running.items():
        outcomes[name] = Outcome(FAILED, _shorten(FAILED, [*lines, "did not end"]))
    return outcomes


def _shorten(result: str, lines: list[str]) -> str:
    if result == PASSED:
        return ""
    kept = [line for line in lines if line and not line.startswith("===")]
    # The library by which many tests compare values tells where, what, which test, and
    # what the test says to it.
    wrong = next(
        (at for at, line in enumerate(kept) if line.startswith("Error:")), None
    )
    if wrong is None:
        kept = kept[-_LINES:]
    else:
        what = [*takewhile(lambda line: not line.startswith("Test:"), kept[wrong:])]
        after = kept[wrong + len(what) :][1:2]
        said = [line for line in after if line.startswith("Messages:")]
        kept = [*what[:_LINES], *said]
    return " ".join(" ".join(kept).split())[:600]
