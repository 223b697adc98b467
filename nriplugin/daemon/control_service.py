"""Serves the control API on a unix socket.

grpcio is imported only if the service is on.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.process import DaemonProcess

DEFAULT_CONTROL = "unix:///run/nriplugin/nriplugin.sock"


@contextmanager
def serving_control(process: DaemonProcess, address: str | None) -> Iterator[None]:
    """Serve within the `with` block, unless the address is `off`."""
    yield
