"""Whether a daemon works: its threads (`live`) and its connection (`ready`).

`/healthz` and `/readyz`, gRPC's health service, `status` and systemd's watchdog all ask
here, so they never differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nriplugin.daemon.process import DaemonProcess


def live(process: DaemonProcess) -> list[str]:
    """Return why the process should be restarted; nothing if it works."""
    return []


def ready(process: DaemonProcess) -> list[str]:
    """Return why the runtime's requests are not served; nothing if they are."""
    connection = process.lifecycle.connection
    return [] if connection.since is not None else [connection.reason]
