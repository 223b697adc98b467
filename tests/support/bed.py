"""On which nodes a test runs."""

from __future__ import annotations

import pytest


def on_nodes(*names: str) -> pytest.MarkDecorator:
    """Run a test on each of these nodes; those of one node in one process, one boot."""
    return pytest.mark.parametrize(
        "node",
        [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names],
        indirect=True,
    )
