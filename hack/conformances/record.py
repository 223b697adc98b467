"""Results of suites in a JSON file; a suite that is run again replaces its own."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from nodes.cache import directory

from conformances.outcomes import Outcome, Run

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Result:
    """A suite's runs, the day, and the versions of everything that took part."""

    suite: str
    date: str
    versions: dict[str, str]
    runs: list[Run]


def default_file() -> Path:
    """Return where results are kept if the user names no file."""
    return directory().parent / "conformance.json"


def load(file: Path) -> dict[str, Result]:
    """Return the results in a file, by the name of the suite."""
    if not file.exists():
        return {}
    results = {}
    for name, raw in json.loads(file.read_text()).items():
        runs = [
            Run(
                **{
                    **run,
                    "tests": {
                        key: Outcome(**each) for key, each in run["tests"].items()
                    },
                }
            )
            for run in raw["runs"]
        ]
        results[name] = Result(**{**raw, "runs": runs})
    return results


def save(file: Path, result: Result) -> None:
    """Put a result into a file, in the place of an earlier one of the same suite."""
    results = {**load(file), result.suite: result}
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        {name: asdict(each) for name, each in sorted(results.items())}, indent=1
    )
    scratch = file.with_suffix(".new")
    scratch.write_text(f"{text}\n")
    scratch.rename(file)
