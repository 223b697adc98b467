from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from nriplugin.daemon.background import BackgroundThread
from nriplugin.daemon.process import DaemonProcess
from nriplugin.state.lifecycle import Lifecycle

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def process() -> Iterator[DaemonProcess]:
    """A daemon's process with a background thread, and without a connection."""
    background = BackgroundThread()
    process = DaemonProcess("nri", Lifecycle(background), background)
    yield process
    background.stop()
