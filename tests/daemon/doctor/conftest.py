from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.hosts import FakeHost

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a short name: the path of a socket has at most 107 bytes."""
    return tmp_path_factory.mktemp("d")


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A node with cgroup v2, pods, and nothing else."""
    return FakeHost(tmp_path)
