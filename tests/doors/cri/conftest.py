from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from doors.cri.fakes import Client, FakeRuntime, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nriplugin.doors.cri.door import CRIDoor


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeRuntime]:
    """A runtime that serves."""
    runtime = FakeRuntime(str(tmp_path / "runtime.sock"))
    runtime.start()
    yield runtime
    runtime.stop()


@pytest.fixture
def door(fake: FakeRuntime, tmp_path: Path) -> Iterator[CRIDoor]:
    """The proxy before it."""
    with serving(fake, str(tmp_path / "proxy.sock")) as door:
        yield door


@pytest.fixture
def kubelet(door: CRIDoor, tmp_path: Path) -> Iterator[Client]:
    """Who talks to the proxy."""
    with Client(str(tmp_path / "proxy.sock")) as client:
        yield client
