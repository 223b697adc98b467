from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.hosts import FakeHost

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A node with cgroup v2, pods, and nothing else."""
    return FakeHost(tmp_path)
