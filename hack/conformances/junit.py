"""Outcomes in a JUnit file that ginkgo or pytest wrote."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from conformances.outcomes import FAILED, PASSED, SKIPPED, Outcome

# Ginkgo's own name for a spec that the focus left out; a spec that skips itself says
# why after it.
LEFT_OUT = "skipped"


def parse_junit(text: str) -> dict[str, Outcome]:
    """Return the outcome of each spec that was run or skipped itself."""
    outcomes: dict[str, Outcome] = {}
    for case in ET.fromstring(text).iter("testcase"):  # noqa: S314 # of our guest
        name = case.get("name", "")
        if name.startswith("[It] "):
            outcome = _outcome(case)
            if outcome is not None:
                outcomes[name.removeprefix("[It] ")] = outcome
        elif (failure := _failure(case)) is not None:
            # What prepares the suite has failed, and then no spec was run.
            outcomes[name] = failure
    return outcomes


def parse_pytest(text: str) -> dict[str, Outcome]:
    """Return the outcome of each test, by the name of its file and its own."""
    outcomes: dict[str, Outcome] = {}
    for case in ET.fromstring(text).iter("testcase"):  # noqa: S314 # of our pytest
        file = case.get("classname", "").rpartition(".")[2]
        outcome = _failure(case) or _outcome(case)
        if outcome is not None:
            outcomes[f"{file}: {case.get('name', '')}"] = outcome
    return outcomes


def _outcome(case: ET.Element) -> Outcome | None:
    skipped = case.find("skipped")
    if skipped is not None:
        why = skipped.get("message", "")
        if why == LEFT_OUT:
            return None
        return Outcome(SKIPPED, _one_line(why.removeprefix(f"{LEFT_OUT} - ")))
    return _failure(case) or Outcome(PASSED)


def _failure(case: ET.Element) -> Outcome | None:
    for kind in ("failure", "error"):
        if (found := case.find(kind)) is not None:
            return Outcome(FAILED, _one_line(found.get("message") or found.text or ""))
    return None


def _one_line(text: str, limit: int = 300) -> str:
    return re.sub(r"\s+", " ", text).strip()[:limit]
