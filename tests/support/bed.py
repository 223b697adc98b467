"""On which nodes a test runs."""

from __future__ import annotations

import pytest


def on_nodes(*names: str) -> pytest.MarkDecorator:
    """Run a test on each of these nodes."""
    return pytest.mark.parametrize("node", names, indirect=True)
