"""Conversions that were really done: functions, kernels and runtimes, in tests/data.

Where ours differs, it does so on purpose. `Exceptions` keeps the list of those honest:
one that agrees after all, or that nothing is tested against, is a failure too.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

VECTORS = Path(__file__).resolve().parents[1] / "data/vectors.json"

# The vector's program failed with an error, and nriplugin raised a ConversionError.
REFUSED = "refused"


class Vector(NamedTuple):
    """An input and what came of it."""

    id: str
    input: dict[str, Any]
    expect: Any  # None where there is only an error
    error: str | None
    then: list[dict[str, Any]]


@cache
def all_vectors() -> tuple[Vector, ...]:
    """Return every vector of the file."""
    return tuple(
        Vector(
            entry["id"],
            entry["input"],
            entry.get("expect"),
            entry.get("error"),
            entry.get("then", []),
        )
        for entry in json.loads(VECTORS.read_text())
    )


def vectors(*prefixes: str) -> list[Vector]:
    """Return the vectors of which the id begins like this.

    Raises:
        LookupError: there is none.
    """
    found = [vector for vector in all_vectors() if vector.id.startswith(prefixes)]
    if not found:
        raise LookupError(prefixes)
    return found


def each(*prefixes: str) -> pytest.MarkDecorator:
    """Run a test once per vector, as its argument `vector`."""
    found = vectors(*prefixes)
    return pytest.mark.parametrize("vector", found, ids=[vector.id for vector in found])


class Exceptions:
    """Vectors, by id, from which nriplugin differs on purpose, with the reason."""

    def __init__(self, reasons: dict[str, str]) -> None:
        self.reasons = reasons

    def compare(self, name: str, ours: object, theirs: object) -> None:
        """Assert that the two are equal, or listed and different."""
        if name in self.reasons:
            assert ours != theirs, f"{name} is listed as an exception, but agrees"
        else:
            assert ours == theirs
