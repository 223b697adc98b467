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
    """A fake runtime that serves on its socket."""
    runtime = FakeRuntime(str(tmp_path / "runtime.sock"))
    runtime.start()
    yield runtime
    runtime.stop()


@pytest.fixture
def door(fake: FakeRuntime, tmp_path: Path) -> Iterator[CRIDoor]:
    """The CRI door in front of the fake runtime."""
    with serving(fake, str(tmp_path / "proxy.sock")) as door:
        yield door


@pytest.fixture
def kubelet(door: CRIDoor, tmp_path: Path) -> Iterator[Client]:
    """A client that talks to the proxy as kubelet does."""
    with Client(str(tmp_path / "proxy.sock")) as client:
        yield client
