"""Results in a JSON file; a section that is measured again replaces its own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The figures of a section, and what they were measured on.

    `load` is the machine's load average before, `figures` what the bench printed.
    """

    section: str
    date: str
    commit: str
    machine: str
    load: float
    seconds: float
    quick: bool
    figures: dict[str, Any]


def load(file: Path) -> dict[str, Result]:
    """Return the results in a file, by section."""
    if not file.exists():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    return {name: Result(**each) for name, each in found.items()}


def save(file: Path, result: Result) -> None:
    """Put a result into a file, in the place of an earlier one of its section."""
    results = {**load(file), result.section: result}
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {name: asdict(each) for name, each in sorted(results.items())}, indent=1
    )
    scratch = file.with_suffix(".new")
    scratch.write_text(f"{text}\n", encoding="utf-8")
    scratch.rename(file)
