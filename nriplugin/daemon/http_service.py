"""Serves metrics, health and status over HTTP.

prometheus-client is imported only if the service is on.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nriplugin.daemon.process import DaemonProcess

DEFAULT_HTTP = "127.0.0.1:9799"


@contextmanager
def serving_http(process: DaemonProcess, address: str | None) -> Iterator[None]:
    """Serve within the `with` block, unless the address is `off`."""
    yield
