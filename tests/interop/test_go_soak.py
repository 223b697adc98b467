"""A short form of `hack/bench soak`: cycles of containers leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from benches.soak import soak

if TYPE_CHECKING:
    from pathlib import Path

CYCLES = 1000


@pytest.mark.timeout(1800)
def test_descriptors_and_threads_stay(go_peers: Path) -> None:
    """After 1,000 cycles there are as many as before, and no container is known."""
    before, *_, after = soak(CYCLES, parts=2)
    for name in ("descriptors", "threads"):
        assert after[name] == before[name], (before, after)
