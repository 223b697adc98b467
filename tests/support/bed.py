"""On which nodes a test runs."""

from __future__ import annotations

import pytest


def on_nodes(*names: str, long: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Run a test on each of these nodes; on those in `long` by hack/conformance."""
    later = [pytest.param(name, marks=pytest.mark.long) for name in long]
    return pytest.mark.parametrize("node", [*names, *later], indirect=True)
